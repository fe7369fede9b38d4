"""LOOPE with a learned table for its policy: a vector for each place on the curve, read between places."""

import pytest
import torch

import loope
from loope import Positions
from loope.encoders.resample import resample


def make(grid=(3, 4), dim=8, **options):
    torch.manual_seed(0)
    return loope.create_encoder("loope", dim, grid, patch_size=4, policy="table", **options)


def slow(encoder, images):
    """One patch at a time."""
    count = encoder.grid.size
    out = torch.empty(len(images), count, encoder.dim)
    index = loope.create_order(encoder.order, *encoder.grid).index.flatten()
    for image, offsets in enumerate(encoder.offsets(images).detach()):
        for cell in range(count):
            place = min(max(float(index[cell] + offsets[cell]), 0.0), count - 1.0)
            low = int(place)
            high, share = min(low + 1, count - 1), place - low
            out[image, cell] = (1 - share) * encoder.table[low] + share * encoder.table[high]
    return out.detach()


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("order", ["gilbert", "raster"])
def test_vectors_between_places_are_interpolated(variant, order):
    encoder, images = make(variant=variant, order=order).eval(), torch.randn(2, 3, 12, 16)
    torch.nn.init.normal_(encoder.generator.mixer.weight, std=10.0)
    assert encoder.offsets(images).abs().max() > 0.1
    torch.testing.assert_close(encoder(images), slow(encoder, images))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("variant", ["paper", "released"])
def test_where_nothing_moves_it_is_the_table(variant, dtype):
    encoder = make(variant=variant, zero_init=True).to(dtype)
    index = loope.create_order("gilbert", 3, 4).index.flatten()
    assert torch.equal(encoder(torch.rand(1, 3, 12, 16))[0], encoder.table[index])
    unit = torch.nn.functional.normalize(encoder.table[index].to(encoder.wide), dim=-1)
    torch.testing.assert_close(encoder.similarity(), unit @ unit.T)


def test_table_and_generator_learn():
    encoder, images = make(zero_init=True), torch.rand(2, 3, 12, 16)
    (encoder(images) * torch.linspace(-1, 1, 192).view(2, 12, 8)).sum().backward()
    assert encoder.table.grad.any()
    assert encoder.generator.mixer.weight.grad.any()
    assert encoder.no_weight_decay() == {"table"}


def test_another_grid_resamples_in_the_plane():
    """From the curve to the grid, to the other grid as `learned` does, and to that grid's curve."""
    encoder = make(zero_init=True, mixer="conv")
    index = loope.create_order("gilbert", 3, 4).index.flatten()
    expected = resample(
        encoder.table[index], loope.create_order("gilbert", 3, 4).grid, loope.create_order("gilbert", 5, 6).grid
    )
    images = torch.rand(2, 3, 20, 24)
    assert torch.equal(encoder(images, (5, 6))[0], expected)
    encoder.resize((5, 6))
    assert encoder.table.shape == (30, 8)
    assert encoder.table.requires_grad
    assert torch.equal(encoder(images)[0], expected)


def test_images_of_several_sizes():
    encoder, sizes = make().eval(), [(3, 4), (4, 3), (2, 2)]
    images = [torch.rand(3, 4 * height, 4 * width) for height, width in sizes]
    batch, packed = (encoder(images, way(sizes)) for way in (Positions.batch, Positions.packed))
    start = 0
    for number, (height, width) in enumerate(sizes):
        alone = encoder(images[number][None], (height, width))[0]
        torch.testing.assert_close(batch[number, : height * width], alone)
        torch.testing.assert_close(packed[0, start : start + height * width], alone)
        start += height * width
    index = torch.tensor([[3, 11, 0]])
    some = encoder(images[0][None], Positions.grid(3, 4).take(index))
    assert torch.equal(some[0], encoder(images[0][None])[0, index[0]])


def test_sinusoids_have_no_table_and_tables_no_frequencies():
    assert "table" not in loope.create_encoder("loope", 8, 3, patch_size=4).state_dict()
    for options in ({"frequencies": "geometric"}, {"phase": "checkerboard"}, {"frequencies": torch.ones(8)}):
        with pytest.raises(loope.LoopeError, match="policy='table'"):
            make(**options)
    with pytest.raises(loope.LoopeError, match="Unknown policy"):
        loope.create_encoder("loope", 8, 3, patch_size=4, policy="spline")


def test_it_compiles():
    torch._dynamo.reset()
    encoder, images = make().eval(), torch.rand(2, 3, 12, 16)
    compiled = torch.compile(encoder, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(images), encoder(images))
