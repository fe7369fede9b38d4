"""LieRE: one matrix exponential for each patch, head and block; exactly relative where the matrices commute."""

import math

import pytest
import torch

import loope
from loope import Positions
from loope.encoders.liere import exponential

GRID, DIM, HEADS, DEPTH = (3, 4), 48, 3, 2
WIDTH = DIM // HEADS


def make(**options):
    torch.manual_seed(0)
    return loope.create_encoder("liere", DIM, GRID, heads=HEADS, depth=DEPTH, **options).double()


def queries(seed=1):
    return torch.randn(2, HEADS, 12, WIDTH, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("block", "size"), [(8, 8), (None, 16), (16, 16), (4, 4), (24, 8)])
def test_it_is_the_exponential_of_a_combination_of_skew_matrices(block, size):
    encoder, q = make(block=block), queries()
    ours, _ = encoder.rotate(q, q, GRID, 1)
    assert encoder.generators.shape == (2, DEPTH, HEADS, WIDTH // size, size, size)
    for head in range(HEADS):
        rows, columns = (torch.block_diag(*(p - p.mT)) for p in encoder.generators[:, 1, head].detach())
        for cell in range(12):
            y, x = 2 * (cell // 4 + 0.5) / 3 - 1, 2 * (cell % 4 + 0.5) / 4 - 1
            matrix = torch.eye(WIDTH, dtype=torch.float64)
            term = matrix
            for order in range(1, 60):  # the series of the exponential
                term = term @ (y * rows + x * columns) / order
                matrix = matrix + term
            torch.testing.assert_close(ours[:, head, cell], q[:, head, cell] @ matrix.T)


@pytest.mark.parametrize("norm", [0.0, 1e-3, 0.5, 3.0, 40.0, 500.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exponentials_and_their_gradients_are_torchs(norm, dtype):
    values = torch.randn(5, 6, 6, dtype=dtype, generator=torch.Generator().manual_seed(1))
    skew = values - values.mT
    skew = (norm * skew / skew.abs().sum(-1).amax()).requires_grad_()
    weights = torch.randn(5, 6, 6, dtype=dtype, generator=torch.Generator().manual_seed(2))
    theirs = torch.linalg.matrix_exp(skew)
    with torch.autocast("cpu", torch.bfloat16):
        ours = exponential(skew, skew.detach().abs().sum(-1).amax())
    tolerance = {"rtol": 0, "atol": 20 * torch.finfo(dtype).eps * max(1, norm)}
    torch.testing.assert_close(ours, theirs, **tolerance)
    gradients = [torch.autograd.grad((each * weights).sum(), skew)[0] for each in (ours, theirs)]
    torch.testing.assert_close(*gradients, rtol=0, atol=20 * tolerance["atol"])


@pytest.mark.parametrize("angle", [0.054, 0.43, 3.4, 55.0])  # about the largest for 0, 3, 6 and 10 squarings
def test_in_a_plane_it_is_the_rotation_by_an_angle(angle):
    turn = torch.tensor([[0.0, -angle], [angle, 0.0]], dtype=torch.float64)
    cos, sin = math.cos(angle), math.sin(angle)
    expected = torch.tensor([[cos, -sin], [sin, cos]], dtype=torch.float64)
    tolerance = 3 * torch.finfo(torch.float64).eps * angle / 0.054  # squaring doubles it
    torch.testing.assert_close(exponential(turn, torch.tensor(angle)), expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_what_is_not_finite_stays_so(value):
    encoder = make()
    with torch.no_grad():
        encoder.generators[0] = value
    assert bool(encoder.rotate(queries(), queries(), GRID, 0)[0].isnan().all())


def test_the_gradient_keeps_no_more_than_the_matrices():
    encoder, kept = make(), set()
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.add(x.data_ptr()) or x, lambda x: x):
        encoder.rotations(GRID, 0)
    assert len(kept) < 10


@pytest.mark.parametrize("block", [8, None])
def test_lengths_stay(block):
    q = queries()
    torch.testing.assert_close(make(block=block).rotate(q, q, GRID, 0)[0].norm(dim=-1), q.norm(dim=-1))


def scores(encoder, positions):
    q, k = encoder.rotate(queries(), queries(2), positions, 0)
    return q @ k.mT


def test_it_is_relative_only_if_the_matrices_commute():
    encoder, here = make(), Positions.grid(*GRID)
    assert not torch.allclose(scores(encoder, here), scores(encoder, here.shift(1, 1)), atol=1e-3)
    with torch.no_grad():
        encoder.generators[1] = 0.7 * encoder.generators[0]
    torch.testing.assert_close(scores(encoder, here), scores(encoder, here.shift(1, 1)))


def test_along_a_line_through_the_centre_it_is_relative():
    encoder, q = make(), queries()[:, :, :1].expand(-1, -1, 4, -1)
    away = torch.tensor([0.1, 0.4, 0.7, 1.0], dtype=torch.float64)
    points = torch.tensor([1.0, 1.5], dtype=torch.float64) + away[:, None] * torch.tensor([0.6, -1.1]).double()
    ours, _ = encoder.rotate(q, q, Positions.at(points, GRID), 0)
    found = ours @ ours.mT
    torch.testing.assert_close(found[..., 0, 1], found[..., 1, 2])
    torch.testing.assert_close(found[..., 0, 2], found[..., 1, 3])


def test_similarity_is_the_mean_score_of_equal_vectors():
    encoder = make()
    unit = torch.eye(WIDTH, dtype=torch.float64)[:, None, None].expand(-1, HEADS, 12, -1)
    total = sum(q @ k.mT for q, k in (encoder.rotate(unit, unit, GRID, layer) for layer in range(DEPTH)))
    expected = total.sum((0, 1)).detach() / (DEPTH * HEADS * WIDTH)
    torch.testing.assert_close(loope.encoder_similarity(encoder), expected, rtol=0, atol=1e-9)


def test_strength_multiplies_the_matrices():
    encoder, q = make(), queries()
    half, _ = encoder.rotate_partly(q, q, GRID, 0, torch.tensor(0.5))
    with torch.no_grad():
        encoder.generators *= 0.5
    torch.testing.assert_close(half, encoder.rotate(q, q, GRID, 0)[0])
    nothing, _ = encoder.rotate_partly(q, q, GRID, 0, torch.tensor(0.0))
    assert torch.equal(nothing, q)


def test_images_may_have_positions_of_their_own():
    encoder, q = make(), queries()
    both = Positions.grid(*GRID).jitter(torch.Generator().manual_seed(3), images=2)
    ours, _ = encoder.rotate(q, q, both, 1)
    for image in range(2):
        alone = both._replace(moved=both.moved[image : image + 1])
        torch.testing.assert_close(ours[image : image + 1], encoder.rotate(*[q[image : image + 1]] * 2, alone, 1)[0])


def test_the_start_is_not_degenerate():
    """Neighbours are alike, the corners of the image are not."""
    encoder = loope.create_encoder("liere", 192, 14, heads=3, depth=2)
    similarity = loope.encoder_similarity(encoder).view(14, 14, 14, 14)
    assert float(similarity[7, 7, 7, 8]) > 0.8
    assert abs(float(similarity[0, 0, 13, 13])) < 0.5


@pytest.mark.parametrize(
    ("options", "word"),
    [({"block": 0}, "block"), ({"block": 2.5}, "block"), ({"depth": 0}, "depth"), ({"heads": 5}, "dim")],
)
def test_bad_options(options, word):
    with pytest.raises(loope.LoopeError, match=word):
        loope.create_encoder("liere", **{"dim": DIM, "grid": GRID, "heads": HEADS, "depth": DEPTH} | options)
