"""Every encoder that an image can refine: it starts static, can learn, and moves patches no further than told."""

import inspect

import pytest
import torch
from torch import nn

import loope
from loope import Positions
from loope.encoders import encoder_class

DIM, HEADS, DEPTH, SIDE, GRID = 16, 2, 2, 4, (3, 4)
REFINABLE = [name for name in loope.list_encoders() if "refine" in inspect.signature(encoder_class(name)).parameters]
every_refinable = pytest.mark.parametrize("name", REFINABLE)
KINDS = {
    "whole": lambda: Positions.grid(*GRID),
    "taken": lambda: Positions.grid(*GRID).take([[0, 5, 6, 11, 3], [3, 2, 1, 0, 7]]),
    "moved": lambda: Positions.grid(*GRID).shift(0.25, -1.5),
    "batch": lambda: Positions.batch([GRID, (4, 3)]),
    "packed": lambda: Positions.packed([GRID, (4, 3)]),
}


def make(name, refine="image", grid=GRID, seed=0):
    torch.manual_seed(seed)
    return loope.create_encoder(name, DIM, grid, patch_size=SIDE, heads=HEADS, depth=DEPTH, refine=refine)


def trained(name, dtype=torch.float64, **options):
    """One that moves patches."""
    encoder = make(name, options)
    for parameter in encoder.generator.parameters():
        nn.init.normal_(parameter, std=0.3)
    return encoder.to(dtype).eval()


def images_for(positions, dtype):
    torch.manual_seed(1)
    if len(positions.grids) == 1:
        return torch.rand(2, 3, GRID[0] * SIDE, GRID[1] * SIDE, dtype=dtype)
    return [torch.rand(3, grid.height * SIDE, grid.width * SIDE, dtype=dtype) for grid in positions.grids]


def outputs(encoder, images, positions):
    """What the encoder says, as an attached one is asked."""
    if "embed" in encoder.hooks():
        return encoder.embed(images, positions)
    place = encoder.refine_positions(images, positions)
    rows = 1 if positions.sequence is not None else 2
    shape = (rows, HEADS, positions.length, DIM // HEADS)
    q = torch.linspace(-1, 1, rows * positions.length * DIM, dtype=encoder.dtype).view(shape)
    k = q.flip(-1)
    return torch.stack(encoder.rotate(q, k, place, 1))


def test_the_list_is_the_documented_one():
    additive = ["sinusoid", "gilbert", "sincos2d", "sincos2d_sum", "fourier"]
    rotary = ["rope_axial", "rope_mixed", "as2drope", "rope_dinov3", "rope_golden", "rope_spiral", "rope_simplex"]
    assert [*additive, *rotary, "liere"] == REFINABLE


@every_refinable
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_start_is_the_static_encoder_bit_for_bit(name, kind, dtype):
    positions = KINDS[kind]()
    static, refined = make(name, None).to(dtype).eval(), make(name).to(dtype).eval()
    images = images_for(positions, dtype)
    expected, ours = outputs(static, images, positions), outputs(refined, images, positions)
    if name == "fourier" and kind != "whole":
        # A matrix product may sum in another order if it has another number of rows.
        torch.testing.assert_close(ours, expected.expand_as(ours), rtol=0, atol=torch.finfo(dtype).eps)
    else:
        assert torch.equal(ours, expected.expand_as(ours))
    assert torch.equal(refined.similarity(), static.similarity())


@every_refinable
def test_the_image_moves_patches_once_it_has_learned(name):
    positions = Positions.grid(*GRID)
    encoder, images = trained(name), images_for(positions, torch.float64)
    one, other = outputs(encoder, images, positions), outputs(encoder, 1 - images, positions)
    assert not torch.allclose(one, other)
    # The same as the static encoder where the offsets say.
    if encoder.offsets(images).dim() == 3:
        moved = positions._replace(moved=positions.coordinates.double() + encoder.offsets(images))
        assert torch.equal(outputs(make(name, None).double().eval(), images, moved), one)
    else:
        index = loope.create_order(getattr(encoder, "order", "raster"), *GRID).index.flatten()
        torch.testing.assert_close(encoder.refined_index(images), index + encoder.offsets(images))


@every_refinable
@pytest.mark.parametrize("reach", [1.0, 0.25, 3.0])
def test_offsets_stay_in_reach(name, reach):
    encoder = trained(name, reach=reach)
    with torch.no_grad():
        encoder.generator.mixer.weight *= 1000
    offsets = encoder.offsets(images_for(Positions.grid(*GRID), torch.float64))
    on_curve = name in ("sinusoid", "gilbert")
    assert offsets.shape == ((2, 12) if on_curve else (2, 12, 2))
    assert 0.9 * reach < offsets.abs().max() <= reach


@every_refinable
@pytest.mark.parametrize("refine", ["image", {"activation": "relu"}, {"mixer": "linear"}, {"mixer": "none"}])
def test_it_is_not_born_dead(name, refine):
    """At first the last layer has a gradient, and after it has moved the first convolution has one, for every seed."""
    positions = Positions.grid(*GRID)
    images = images_for(positions, torch.float32)
    for seed in range(5):
        encoder = make(name, refine, seed=seed).train()
        generator = encoder.generator
        last = generator.refine[-1] if isinstance(generator.mixer, nn.Identity) else generator.mixer
        optimizer = torch.optim.SGD(generator.parameters(), lr=0.1)
        for part in (last, generator.patches):
            optimizer.zero_grad()
            out = outputs(encoder, images, positions)
            (out * torch.linspace(-1, 1, out.numel()).view_as(out)).sum().backward()
            assert all(parameter.grad.any() for parameter in last.parameters())
            assert part.weight.grad.any()
            assert part.weight.grad.isfinite().all()
            optimizer.step()


@every_refinable
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "moved"])
def test_offsets_of_a_patch_do_not_depend_on_the_others_of_its_sequence(name, kind):
    positions, encoder = KINDS[kind](), trained(name)
    images = images_for(positions, torch.float64)
    ours = encoder.offsets(images, positions)
    alone = [
        encoder.offsets(image[None], positions.grids[min(n, len(positions.grids) - 1)])[0]
        for n, image in enumerate(images)
    ]
    for row in range(len(ours)):
        for patch in range(ours.shape[1]):
            if positions.valid is not None and not positions.valid[row, patch]:
                continue
            image = row if positions.sequence is None else int(positions.sequence[0, patch])
            cell = patch if positions.cells is None else int(positions.cells[row, patch])
            torch.testing.assert_close(ours[row, patch], alone[image][cell], rtol=1e-12, atol=1e-12)


@every_refinable
def test_images_of_one_size_may_come_as_a_list(name):
    encoder, positions = trained(name), Positions.batch([GRID, GRID])
    images = images_for(positions, torch.float64)
    assert torch.equal(encoder.offsets(list(images), positions), encoder.offsets(images))


@every_refinable
@pytest.mark.parametrize("mixer", ["conv", "linear"])
def test_resize_equals_one_call_at_the_other_grid(name, mixer):
    encoder = trained(name, torch.float32, mixer=mixer)
    positions, images = Positions.grid(5, 3), torch.rand(2, 3, 5 * SIDE, 3 * SIDE)
    one_call = outputs(encoder, images, positions)
    shapes = [parameter.shape for parameter in encoder.generator.parameters()]
    encoder.resize((5, 3))
    torch.testing.assert_close(outputs(encoder, images, positions), one_call)
    assert (shapes == [parameter.shape for parameter in encoder.generator.parameters()]) == (mixer == "conv")


@every_refinable
def test_it_passes_through_the_compiler(name):
    torch._dynamo.reset()
    encoder = trained(name, torch.float32)
    images = images_for(Positions.grid(*GRID), torch.float32)

    @torch.compile(backend="aot_eager", fullgraph=True)
    def run(images):
        return encoder.offsets(images), outputs(encoder, images, Positions.grid(*GRID))

    for compiled, eager in zip(
        run(images), (encoder.offsets(images), outputs(encoder, images, Positions.grid(*GRID))), strict=True
    ):
        torch.testing.assert_close(compiled, eager, rtol=1e-4, atol=1e-5)


@every_refinable
def test_it_says_that_it_reads_the_image(name):
    assert make(name).reads_content
    assert not make(name, None).reads_content
    with pytest.raises(loope.LoopeError, match="reads the image"):
        make(name).offsets(None)
    with pytest.raises(loope.LoopeError, match="12x16 pixels for 3x4 patches"):
        make(name).offsets(torch.rand(1, 3, 16, 12))
    with pytest.raises(loope.LoopeError, match="without `refine`"):
        make(name, None).offsets(torch.rand(1, 3, 12, 16))
    with pytest.raises(loope.LoopeError, match="needs `patch_size`"):
        loope.create_encoder(name, DIM, GRID, heads=HEADS, depth=DEPTH, refine="image")


@every_refinable
def test_coordinates_alone_can_refine(name):
    encoder = trained(name, inputs="xy")
    assert len(encoder.offsets(None)) == 1
    assert encoder.offsets(None).any()
