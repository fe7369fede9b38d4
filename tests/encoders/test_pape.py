"""PaPE: the channels it adds to queries and keys, against the sum of parabolas pair by pair."""

import copy

import pytest
import torch
from torch.nn import functional as F

import loope
from loope.positions import Positions

GRID, DIM, HEADS, DEPTH = (3, 5), 48, 3, 2
POSITIONS = {
    "whole": Positions.grid(*GRID),
    "some": Positions.grid(*GRID).take([[0, 7, 14, 3], [2, 1, 9, 9]]),
    "moved": Positions.grid(*GRID).jitter(torch.Generator().manual_seed(0), images=2),
    "padded": Positions.batch([(2, 3), (3, 4)]),
}


def make(grid=GRID, **options):
    torch.manual_seed(0)
    encoder = loope.create_encoder("pape", DIM, grid, heads=HEADS, depth=DEPTH, **options).double()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter, std=0.5)
    return encoder


def queries(positions, dtype=torch.float64):
    shape = 2, HEADS, positions.length, DIM // HEADS
    return [torch.randn(shape, generator=torch.Generator().manual_seed(seed)).to(dtype) for seed in (1, 2)]


def slow_parabolas(encoder, q, positions, layer):
    """-a (u_i - u_j)^2 + b (u_i - u_j), summed over parabolas; u = P (row, column), (a, b) = W q + w, a by softplus."""
    count, points = encoder.projection.shape[2], positions.coordinates.double().expand(len(q), -1, -1)
    total = torch.zeros(*q.shape[:3], q.shape[2], dtype=torch.float64)
    for head in range(HEADS):
        raw = q[:, head] @ encoder.weight[layer, head] + encoder.start[layer, head]
        for number in range(count):
            a, b = F.softplus(raw[..., number]), raw[..., count + number]
            u = points @ encoder.projection[layer, head, number]
            for i in range(q.shape[2]):
                for j in range(q.shape[2]):
                    apart = u[:, i] - u[:, j]
                    total[:, head, i, j] += -a[:, i] * apart**2 + b[:, i] * apart
    return total


@pytest.mark.parametrize("kind", POSITIONS)
@pytest.mark.parametrize("parabolas", [1, 5])
@torch.no_grad()
def test_added_channels_are_the_dense_form(kind, parabolas):
    encoder, positions = make(parabolas=parabolas), POSITIONS[kind]
    q, k = queries(positions)
    for layer in range(DEPTH):
        wide_q, wide_k = encoder.rotate(q, k, positions, layer)
        added = (wide_q @ wide_k.mT - q @ k.mT) / (DIM // HEADS) ** 0.5
        torch.testing.assert_close(added, slow_parabolas(encoder, q, positions, layer), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("parabolas", [1, 9])
def test_channels_do_not_grow_with_parabolas_or_patches(parabolas):
    for grid in (GRID, (20, 20)):
        q, k = queries(Positions.grid(*grid), torch.float32)
        wide = make(grid, parabolas=parabolas).float().rotate(q, k, grid, 0)
        assert [each.shape[-1] for each in wide] == [24, 24]  # 16 + 6, and up to a multiple of 8
        assert torch.equal(wide[0][..., :16], q)
        assert torch.equal(wide[1][..., :16], k)


@pytest.mark.parametrize("side", [14, 64])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@torch.no_grad()
def test_half_precision_loses_little(side, dtype):
    """Products of large squares cancel; single numbers in bfloat16 would be wrong by more than 1."""
    torch.manual_seed(0)
    encoder, place = loope.create_encoder("pape", DIM, side, heads=HEADS, depth=1), Positions.grid(side, side)
    for parameter in encoder.parameters():
        parameter.copy_(parameter.to(dtype))
    q, k = (each.to(dtype) for each in queries(place, torch.float32))
    exact, rough = (
        [each.double() for each in twin.rotate(q.to(twin.dtype), k.to(twin.dtype), place, 0)]
        for twin in (copy.deepcopy(encoder).double(), encoder.to(dtype))
    )
    near = Positions.grid(side, side).coordinates[0]
    near = torch.cdist(near, near) < 4
    error = (rough[0] @ rough[1].mT - exact[0] @ exact[1].mT)[..., near] / (DIM // HEADS) ** 0.5
    assert error.abs().max() < 0.1


@torch.no_grad()
def test_strength_multiplies_what_is_added():
    encoder, positions = make(), POSITIONS["whole"]
    q, k = queries(positions)
    added = []
    for strength in (1.0, 0.5, 0.0):
        wide_q, wide_k = encoder.rotate_partly(q, k, positions, 0, torch.tensor(strength))
        added.append(wide_q[..., 16:] @ wide_k[..., 16:].mT)
    full, half, none = added
    torch.testing.assert_close(half, full / 2)
    assert not none.any()
    assert full.abs().max() > 1


@torch.no_grad()
def test_similarity_is_what_a_query_of_zeros_gets():
    encoder, zeros = make(), torch.zeros(1, HEADS, 15, DIM // HEADS, dtype=torch.float64)
    mean = sum(slow_parabolas(encoder, zeros, POSITIONS["whole"], layer) for layer in range(DEPTH)) / DEPTH
    torch.testing.assert_close(encoder.similarity(), mean.mean((0, 1)))


def test_at_the_start_near_patches_are_preferred_without_a_direction():
    torch.manual_seed(0)
    encoder = loope.create_encoder("pape", 768, 14, heads=12, depth=12)
    similarity = encoder.similarity().detach()
    torch.testing.assert_close(similarity, similarity.T)
    assert (similarity.diagonal()[:, None] >= similarity - 1e-5).all()
    assert -10 < similarity.min() < -1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dim": 50, "heads": 3, "depth": 1}, "divisible by 3"),
        ({"dim": 48, "heads": 3, "depth": 1, "parabolas": 0}, "`parabolas`"),
    ],
)
def test_bad_input(options, message):
    with pytest.raises(loope.LoopeError, match=message):
        loope.create_encoder("pape", grid=3, **options)
