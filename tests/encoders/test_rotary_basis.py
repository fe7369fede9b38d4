"""Learned bases of rotary encoders: they start as the plain encoder, stay relative, and are what their papers say."""

import inspect

import pytest
import timm
import torch
from torch import nn

import loope
from loope import Positions
from loope.encoders import encoder_class
from loope.encoders.rotary_basis import cayley
from tests.surgery.models import TIMM, images, predict

GRID, DIM, HEADS, DEPTH = (3, 4), 48, 3, 2
WIDTH = DIM // HEADS
ROTARY = [name for name in loope.list_encoders() if "basis" in inspect.signature(encoder_class(name)).parameters]
every_rotary = pytest.mark.parametrize("name", ROTARY)
every_basis = pytest.mark.parametrize("basis", ["orthogonal", "svd", "commuting"])


def make(name="rope_axial", **options):
    torch.manual_seed(0)
    return loope.create_encoder(name, DIM, GRID, heads=HEADS, depth=DEPTH, **options).double()


def learned(name="rope_axial", std=0.3, **options):
    encoder = make(name, **options)
    for parameter in encoder.basis.parameters():
        nn.init.normal_(parameter, mean=float(parameter.any()), std=std)
    return encoder


def queries(count=12, seed=1):
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(2, HEADS, count, WIDTH, dtype=torch.float64, generator=draw)


def test_cayley_gives_rotations():
    values = torch.randn(5, 7, 7, dtype=torch.float64)
    rotations = cayley(values)
    torch.testing.assert_close(rotations @ rotations.mT, torch.eye(7, dtype=torch.float64).expand(5, 7, 7))
    torch.testing.assert_close(torch.linalg.det(rotations), torch.ones(5, dtype=torch.float64))
    for one, given in zip(rotations, values, strict=True):
        skew, identity = given - given.T, torch.eye(7, dtype=torch.float64)
        torch.testing.assert_close(one, (identity - skew) @ torch.linalg.inv(identity + skew))


@every_rotary
@every_basis
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_start_is_the_plain_encoder_bit_for_bit(name, basis, dtype):
    ours, plain, q = make(name, basis=basis).to(dtype), make(name).to(dtype), queries().to(dtype)
    for layer in range(DEPTH):
        for one, other in zip(
            ours.rotate(q, q + 1, ours.grid, layer), plain.rotate(q, q + 1, ours.grid, layer), strict=True
        ):
            if basis == "commuting" and dtype == torch.float32:  # its angles are not constants, rounded at the end
                torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-5)
            else:
                assert torch.equal(one, other)
    torch.testing.assert_close(ours.similarity(), plain.similarity())


@every_rotary
@every_basis
def test_scores_depend_on_offsets_alone(name, basis):
    encoder, q, k = learned(name, basis=basis), queries(), queries(seed=2)
    here = Positions.grid(*GRID)

    def scores(positions):
        ours, other = encoder.rotate(q, k, positions, 1)
        return ours @ other.mT

    torch.testing.assert_close(scores(here.shift(2, 5)), scores(here), rtol=1e-9, atol=1e-9)
    plain, other = make(name).rotate(q, k, here, 1)
    assert not torch.allclose(scores(here), plain @ other.mT)


@every_basis
def test_lengths_stay_in_a_basis_of_rotations(basis):
    q = queries()
    ours, _ = learned(basis=basis).rotate(q, q, GRID, 1)
    assert torch.allclose(ours.norm(dim=-1), q.norm(dim=-1)) == (basis != "svd")


@every_basis
def test_where_nothing_turns_a_basis_of_rotations_is_not_noticed(basis):
    """At the origin: so that patches look the same to prefix tokens, which are not rotated."""
    q = queries(1)
    ours, _ = learned(basis=basis).rotate(q, q, Positions.grid(*GRID).take([0]), 1)
    assert torch.allclose(ours, q) == (basis != "svd")


def rotation(angles):
    """The matrix of a plain encoder, one pair after the other."""
    blocks = [torch.stack((torch.stack((a.cos(), -a.sin())), torch.stack((a.sin(), a.cos())))) for a in angles]
    return torch.block_diag(*blocks)


@pytest.mark.parametrize("layer", range(DEPTH))
def test_orthogonal_is_strings_formula(layer):
    """The exponential of commuting generators A' L A, which is A' R A."""
    encoder, q = learned(basis="orthogonal"), queries()
    ours, _ = encoder.rotate(q, q, GRID, layer)
    angles = make().angles(GRID, 0)[0, 0]
    turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    for head in range(HEADS):
        given = encoder.basis.skew[layer, head].detach()
        skew, identity = given - given.T, torch.eye(WIDTH, dtype=torch.float64)
        basis = (identity - skew) @ torch.linalg.inv(identity + skew)
        for cell in range(12):
            generator = basis.T @ torch.block_diag(*[angle * turn for angle in angles[cell]]) @ basis
            torch.testing.assert_close(ours[:, head, cell], q[:, head, cell] @ torch.matrix_exp(generator).T)


def test_svd_is_harope_formula():
    encoder, q = learned(basis="svd"), queries()
    ours, _ = encoder.rotate(q, q, GRID, 1)
    angles, basis = make().angles(GRID, 0)[0, 0], encoder.basis
    for head in range(HEADS):
        left, right = (cayley(each[1, head].detach()) for each in (basis.left, basis.right))
        matrix = left @ torch.diag(basis.log_values[1, head].detach().exp()) @ right.T
        torch.testing.assert_close(
            torch.linalg.svdvals(matrix).sort().values, basis.log_values[1, head].exp().sort()[0]
        )
        for cell in range(12):
            expected = rotation(angles[cell]) @ matrix @ q[:, head, cell, :, None]
            torch.testing.assert_close(ours[:, head, cell], expected[..., 0])


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_commuting_blocks_are_comropes(layout):
    """Rows and columns have block-diagonal, skew-symmetric, commuting generators, whose exponential is the rotation."""
    encoder, q = learned("rope_mixed", basis="commuting", layout=layout), queries()
    ours, _ = encoder.rotate(q, q, GRID, 1)
    frequencies, basis = encoder.frequencies.detach()[:, 1], encoder.basis
    assert basis.skew.shape == (DEPTH, HEADS, WIDTH // 8, 8, 8)
    for head in range(HEADS):
        blocks = torch.block_diag(*cayley(basis.skew[1, head].detach()))
        turn = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
        speeds = frequencies[:, head] * basis.frequencies[1, head, 0].detach()
        rows, columns = (blocks.T @ torch.block_diag(*[w * turn for w in axis]) @ blocks for axis in speeds)
        torch.testing.assert_close(rows @ columns, columns @ rows)
        torch.testing.assert_close(rows, -rows.T)
        assert not rows.view(2, 8, 2, 8)[0, :, 1].any(), "channels of different blocks are mixed"
        for cell in range(12):
            matrix = torch.matrix_exp(cell // 4 * rows + cell % 4 * columns)
            given, found = (each[:, head, cell] for each in (q, ours))
            if layout == "half":  # the pairs one after the other
                given, found = (each.view(2, 2, -1).mT.flatten(1) for each in (given, found))
            torch.testing.assert_close(found, given @ matrix.T)


@every_basis
def test_every_parameter_learns_from_the_start(basis):
    encoder, q = make(basis=basis), queries()
    for layer in range(DEPTH):
        ours, other = encoder.rotate(q, q.flip(-1), GRID, layer)
        (ours @ other.mT).sin().sum().backward()
    for name, parameter in encoder.named_parameters():
        assert bool(parameter.grad.flatten(2).any(-1).all()), name
        assert name in encoder.no_weight_decay()


@every_basis
@pytest.mark.parametrize("strength", [None, 0.5])
def test_a_baked_model_keeps_its_basis(basis, strength):
    torch.manual_seed(0)
    model = loope.attach(timm.create_model("vit_tiny_patch16_224", **TIMM).eval(), "rope_axial", basis=basis)
    for parameter in model.loope.parameters():
        nn.init.normal_(parameter, std=0.3)
    if strength is not None:
        loope.set_strength(model, strength)
    before = predict(model)
    loope.bake(model, 32)
    torch.testing.assert_close(predict(model), before, rtol=1e-5, atol=1e-6)
    assert not any("skew" in name for name, _ in model.named_parameters())


@every_basis
def test_beside_the_models_own_encoding_it_starts_from_nothing(basis):
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", **TIMM).eval()
    before = predict(model)
    loope.attach(model, "rope_axial", basis=basis, init="own")
    assert torch.equal(predict(model), before)
    for parameter in model.loope.encoders.parameters():
        nn.init.normal_(parameter, std=0.3)
    assert torch.equal(predict(model), before)


def test_a_model_with_a_basis_trains_and_reloads(tmp_path):
    torch.manual_seed(0)
    model = loope.attach(timm.create_model("vit_tiny_patch16_224", **TIMM), "rope_golden", basis="svd")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    model(images(model)).square().sum().backward()
    optimizer.step()
    args = {key: value for key, value in TIMM.items() if key not in ("img_size", "num_classes")}
    loope.save(model.eval(), tmp_path / "m.safetensors", model_args=args)
    again = loope.load(tmp_path / "m.safetensors")
    assert again.loope.encoders[0][0].basis.left.any()
    assert torch.equal(predict(again), predict(model))


@pytest.mark.parametrize(("options", "word"), [({"basis": "fourier"}, "fourier"), ({"basis": True}, "basis")])
def test_bad_options(options, word):
    with pytest.raises(loope.LoopeError, match=word):
        make(**options)
    with pytest.raises(loope.LoopeError, match="depth"):
        loope.create_encoder("rope_axial", DIM, GRID, heads=HEADS, basis="svd")
    with pytest.raises(loope.LoopeError, match="made for 2 blocks"):
        make(basis="commuting").rotate(queries(), queries(), GRID, 2)
