"""What all rotary encoders share: the layout of channel pairs, and coordinates on other grids than the first."""

import inspect

import pytest
import timm
import torch
from timm.layers import RotaryEmbeddingCat, apply_rot_embed_cat

import loope
from loope.encoders import encoder_class
from tests.surgery.models import TIMM, predict

GRID, DIM, HEADS, DEPTH = (4, 6), 48, 3, 2
ROTARY = [name for name in loope.list_encoders() if hasattr(encoder_class(name), "angles")]
every_rotary = pytest.mark.parametrize("name", ROTARY)
every_extrapolated = pytest.mark.parametrize(
    "name", [name for name in ROTARY if "extrapolate" in inspect.signature(encoder_class(name)).parameters]
)


def make(name, grid=GRID, **options):
    torch.manual_seed(0)
    return loope.create_encoder(name, DIM, grid, heads=HEADS, depth=DEPTH, **options).double()


def queries(count=GRID[0] * GRID[1]):
    return torch.randn(2, HEADS, count, DIM // HEADS, dtype=torch.float64, generator=torch.Generator().manual_seed(1))


@every_rotary
@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_the_layout_says_which_channels_are_turned_together(name, layout):
    encoder, q = make(name, layout=layout), queries()
    angles = encoder.angles(encoder.grid, 1).expand(1, HEADS, -1, -1)[0].detach()
    half = DIM // HEADS // 2
    for ours, given in zip(encoder.rotate(q, q + 1, encoder.grid, 1), (q, q + 1), strict=True):
        for pair in range(half):
            first, second = (2 * pair, 2 * pair + 1) if layout == "interleaved" else (pair, pair + half)
            cos, sin = angles[..., pair].cos(), angles[..., pair].sin()
            a, b = given[..., first], given[..., second]
            torch.testing.assert_close(ours[..., first], a * cos - b * sin)
            torch.testing.assert_close(ours[..., second], b * cos + a * sin)


def test_the_half_layout_is_timms():
    encoder, q = make("rope_axial", layout="half"), queries()
    theirs = RotaryEmbeddingCat(
        DIM // HEADS, in_pixels=False, temperature=100.0, feat_shape=list(GRID), rotate_half=True
    ).get_embed()
    ours, _ = encoder.rotate(q, q, encoder.grid, 0)
    torch.testing.assert_close(ours, apply_rot_embed_cat(q, theirs.double(), half=True), atol=1e-5, rtol=0)


@every_rotary
def test_the_layout_does_not_change_the_similarity(name):
    assert torch.equal(make(name, layout="half").similarity(), make(name, layout="interleaved").similarity())


@pytest.mark.parametrize("layout", ["interleaved", "half"])
def test_a_baked_model_keeps_the_layout(layout):
    torch.manual_seed(0)
    model = loope.attach(timm.create_model("vit_tiny_patch16_224", **TIMM).eval(), "rope_mixed", layout=layout)
    before = predict(model)
    loope.bake(model, 32)
    torch.testing.assert_close(predict(model), before, rtol=1e-5, atol=1e-6)


def wave_vectors(encoder, layer):
    """The angles of the cells below and beside the first one, on the encoder's first grid, `(heads, d/2, 2)`."""
    plain = make(encoder.name, temperature=7.0)
    plain.load_state_dict(encoder.state_dict(), strict=False)
    angles = plain.angles(GRID, layer)[0].detach()
    return torch.stack((angles[:, GRID[1]] - angles[:, 0], angles[:, 1] - angles[:, 0]), dim=-1)


@every_extrapolated
@pytest.mark.parametrize("extrapolate", ["none", "linear", "ntk"])
def test_coordinates_on_other_grids(name, extrapolate):
    """For each pair: the factor's power is 1 for all (linear), 0 for all (none), or follows the logarithm (ntk)."""
    encoder, other = make(name, extrapolate=extrapolate, temperature=7.0), (6, 24)
    vectors = wave_vectors(encoder, 1)
    ours = encoder.angles(other, 1)[0].detach()
    for head, waves in enumerate(vectors):
        lengths = [float(wave.norm()) for wave in waves if float(wave.norm()) > 1e-9]
        for pair, wave in enumerate(waves):
            if float(wave.norm()) < 1e-9:
                assert not ours[head, :, pair].any()
                continue
            span = torch.tensor(max(lengths) / min(lengths)).log()
            slow = float(torch.tensor(max(lengths) / float(wave.norm())).log() / span)
            power = {"none": 0.0, "linear": 1.0, "ntk": slow}[extrapolate]
            rows, columns = (4 / 6) ** power, (6 / 24) ** power
            for row, column in ((0, 0), (5, 0), (2, 23)):
                expected = row * rows * float(wave[0]) + column * columns * float(wave[1])
                assert float(ours[head, row * 24 + column, pair]) == pytest.approx(expected, rel=1e-5, abs=1e-8)


def test_ntk_is_the_usual_change_of_base_for_geometric_frequencies():
    """On s times the grid: temperature times s^(n / (n - 1)), for n frequencies."""
    encoder, count = make("rope_axial", (4, 4), extrapolate="ntk"), DIM // HEADS // 4
    changed = make("rope_axial", (12, 12), temperature=100.0 * 3 ** (count / (count - 1)))
    torch.testing.assert_close(encoder.angles((12, 12), 0), changed.angles((12, 12), 0))


def test_linear_is_as2drope():
    encoder = make("rope_axial", 14, extrapolate="linear", temperature=10_000.0)
    for grid in ((14, 14), (7, 28), (24, 24)):
        torch.testing.assert_close(encoder.angles(grid, 0), make("as2drope").angles(grid, 0))


@every_extrapolated
@pytest.mark.parametrize("extrapolate", ["linear", "ntk"])
def test_nothing_is_scaled_on_the_first_grid(name, extrapolate):
    assert torch.equal(make(name, extrapolate=extrapolate).angles(GRID, 0), make(name).angles(GRID, 0))


@every_extrapolated
@pytest.mark.parametrize("extrapolate", ["linear", "ntk"])
def test_every_kind_of_positions_is_scaled_alike(name, extrapolate):
    encoder, sizes = make(name, extrapolate=extrapolate), [(6, 24), (3, 4)]
    both = loope.Positions.batch(sizes)
    for number, size in enumerate(sizes):
        whole = encoder.angles(size, 1)[0]
        count = whole.shape[1]
        assert torch.equal(encoder.angles(both, 1)[number][:, :count], whole)
        torch.testing.assert_close(encoder.angles(loope.Positions.grid(size).shift(0, 0), 1)[0], whole)


@pytest.mark.parametrize("name", ["rope_axial", "rope_mixed"])
@pytest.mark.parametrize("keep_own", [False, True])
def test_the_first_grid_is_saved(name, keep_own, tmp_path):
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", **TIMM).eval()
    loope.attach(model, name, extrapolate="ntk", keep_own=keep_own)
    loope.resize(model, (48, 64))
    args = {key: value for key, value in TIMM.items() if key not in ("img_size", "num_classes")}
    loope.save(model, tmp_path / "m.safetensors", model_args=args)
    again = loope.load(tmp_path / "m.safetensors")
    pixels = torch.rand(1, 3, 48, 64)
    assert torch.equal(predict(again, pixels), predict(model, pixels))
    assert again.loope.encoders[0][0].trained == (4, 4)


@pytest.mark.parametrize("name", ["rope_axial", "rope_mixed", "as2drope"])
def test_stored_states_do_not_change(name):
    """Encoders without the new options have the entries that they always had."""
    assert list(make(name).state_dict()) == (["frequencies"] if name == "rope_mixed" else [])


@pytest.mark.parametrize(
    ("options", "word"),
    [({"layout": "halves"}, "halves"), ({"layout": None}, "layout"), ({"extrapolate": "yarn"}, "yarn")],
)
def test_bad_options(options, word):
    with pytest.raises(loope.LoopeError, match=word):
        make("rope_axial", **options)
