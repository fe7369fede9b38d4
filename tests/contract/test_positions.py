"""Every encoder answers every kind of positions, and says the same of a patch in each."""

import pytest
import torch

import loope
from loope import Positions
from loope.encoders import encoder_class
from loope.positions import as_positions

DIM, HEADS, DEPTH, SIDE = 16, 2, 2, 2
SIZES = [(3, 4), (4, 3), (2, 2), (3, 4)]
ENCODERS = [name for name in loope.list_encoders() if name.islower()]
ROTARY = [name for name in ENCODERS if hasattr(encoder_class(name), "angles")]


def make(name, dtype=torch.float64):
    torch.manual_seed(0)
    encoder = loope.create_encoder(name, DIM, (3, 4), patch_size=SIDE, heads=HEADS, depth=DEPTH)
    for parameter in encoder.parameters():  # some start at zero
        torch.nn.init.normal_(parameter, std=0.3)
    return encoder.to(dtype).eval()


def inputs(sizes, dtype=torch.float64):
    """Random images, tokens and queries, one of each for each image."""
    torch.manual_seed(1)
    images = [torch.rand(3, height * SIDE, width * SIDE, dtype=dtype) for height, width in sizes]
    tokens = [torch.randn(1, height * width, DIM, dtype=dtype) for height, width in sizes]
    queries = [torch.randn(1, HEADS, height * width, DIM // HEADS, dtype=dtype) for height, width in sizes]
    return images, tokens, queries


def outputs(encoder, positions, images, tokens, q, layer=0):
    """All that an encoder says, by hook; each result has the patches on its last axis but one."""
    found = {}
    if "embed" in encoder.hooks():
        found["embed"] = encoder.embed(images, positions)
    if "mix" in encoder.hooks():
        found["mix"] = encoder.mix(tokens, positions, layer)
    if "rotate" in encoder.hooks():
        found["q"], found["k"] = encoder.rotate(q, q.flip(-1), positions, layer)
    if "bias" in encoder.hooks():
        found["bias"] = encoder.bias(q, positions, layer)
    return {key: value.detach() for key, value in found.items()}


def alone(encoder, size, image, tokens, q):
    return outputs(encoder, Positions.grid(*size), image[None], tokens, q)


def compare(name, ours, expected):
    if name == "peg":  # another shape of the map: the convolution may sum in another order
        torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    else:
        torch.testing.assert_close(ours, expected, rtol=0, atol=0)


def pad(tensor, axis, length):
    shape = list(tensor.shape)
    shape[axis] = length - shape[axis]
    return torch.cat((tensor, tensor.new_zeros(shape)), dim=axis)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_grid_by_its_size_is_the_whole_grid(name):
    encoder = make(name)
    (image,), (tokens,), (queries,) = inputs([(3, 4)])
    images = image[None]
    by_size = outputs(encoder, (3, 4), images, tokens, queries)
    whole = outputs(encoder, Positions.grid(3, 4), images, tokens, queries)
    at_cells = outputs(encoder, Positions.grid(3, 4).take(range(12)), images, tokens, queries)
    for key in whole:
        assert torch.equal(by_size[key], whole[key])
        compare(name, at_cells[key], whole[key])


@pytest.mark.parametrize("name", [name for name in ENCODERS if name != "peg"])
def test_taking_patches_is_gathering_from_the_whole(name):
    encoder = make(name)
    images, tokens, queries = inputs([(3, 4)] * 2)
    images, tokens, q = torch.stack(images), torch.cat(tokens), torch.cat(queries)
    index = torch.stack([torch.randperm(12)[:7] for _ in range(2)])
    expected = outputs(encoder, Positions.grid(3, 4), images, tokens, q)
    rows = torch.arange(2)[:, None]
    ours = outputs(
        encoder,
        Positions.grid(3, 4).take(index),
        images,
        tokens[rows, index],
        q.transpose(1, 2)[rows, index].transpose(1, 2),
    )
    for key, whole in expected.items():
        whole = whole.expand(2, *whole.shape[1:])
        if key == "bias":
            picked = torch.stack([whole[n][:, index[n]][:, :, index[n]] for n in range(2)])
        elif key == "embed":
            picked = whole[rows, index]
        else:
            picked = torch.stack([whole[n][:, index[n]] for n in range(2)])
        assert torch.equal(ours[key].expand_as(picked), picked), key


def test_peg_sees_missing_patches_as_zeros():
    encoder = make("peg")
    tokens = torch.randn(2, 12, DIM, dtype=torch.float64)
    index = torch.tensor([[0, 5, 6, 11], [3, 2, 1, 0]])
    shown = torch.zeros_like(tokens)
    for row in range(2):
        shown[row, index[row]] = tokens[row, index[row]]
    rows = torch.arange(2)[:, None]
    expected = encoder.mix(shown, Positions.grid(3, 4), 0)[rows, index]
    ours = encoder.mix(tokens[rows, index], Positions.grid(3, 4).take(index), 0)
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32])
@pytest.mark.parametrize("name", ENCODERS)
def test_a_padded_batch_is_one_image_at_a_time(name, dtype):
    encoder = make(name, dtype)
    images, tokens, queries = inputs(SIZES, dtype)
    positions = Positions.batch(SIZES)
    longest = positions.length
    ours = outputs(
        encoder,
        positions,
        images,
        torch.cat([pad(each, 1, longest) for each in tokens]),
        torch.cat([pad(each, 2, longest) for each in queries]),
    )
    for number, size in enumerate(SIZES):
        count = size[0] * size[1]
        for key, expected in alone(encoder, size, images[number], tokens[number], queries[number]).items():
            row = ours[key][number if len(ours[key]) > 1 else 0]
            assert not bool(row.isnan().any())
            if key == "bias":
                assert bool((row[:, :count, count:] == -torch.inf).all())
                assert bool((row.amax(-1) > -torch.inf).all()), "a row without any key gives NaN"
                row = row[:, :count, :count]
            else:
                row = row[..., :count, :]
            if dtype == torch.float64:
                compare(name, row[None], expected.expand(1, *row.shape))
            else:
                torch.testing.assert_close(row[None], expected.expand(1, *row.shape), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ENCODERS)
def test_a_packed_sequence_is_one_image_at_a_time(name):
    encoder = make(name)
    images, tokens, queries = inputs(SIZES)
    ours = outputs(encoder, Positions.packed(SIZES), images, torch.cat(tokens, dim=1), torch.cat(queries, dim=2))
    start = 0
    for number, size in enumerate(SIZES):
        here = slice(start, start + size[0] * size[1])
        for key, expected in alone(encoder, size, images[number], tokens[number], queries[number]).items():
            if key == "bias":
                rows = ours[key][:, :, here]
                compare(name, rows[..., here], expected.expand_as(rows[..., here]))
                others = torch.ones(rows.shape[-1], dtype=torch.bool)
                others[here] = False
                assert bool((rows[..., others] == -torch.inf).all())
            else:
                compare(name, ours[key][..., here, :], expected)
        start = here.stop


@pytest.mark.parametrize("name", ENCODERS)
def test_moved_positions_agree_with_cells_where_they_meet(name):
    """Moved by nothing, and moved by a whole cell and back."""
    encoder = make(name)
    (image,), (tokens,), (queries,) = inputs([(3, 4)])
    images = image[None]
    whole = Positions.grid(3, 4)
    expected = outputs(encoder, whole, images, tokens, queries)
    for moved in (whole.shift(0, 0), whole.shift(1, -1).shift(-1, 1), whole.scale(2).scale(0.5)):
        assert moved.whole is None
        for key, value in outputs(encoder, moved, images, tokens, queries).items():
            torch.testing.assert_close(value, expected[key].expand_as(value), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    "name",
    [
        *("sincos2d", "sincos2d_sum", "fourier", "learned", *ROTARY, "liere", "alibi2d"),
        *("rel_pos_mlp", "fire2d", "pape", "factorized"),
    ],
)
def test_encoders_of_the_plane_are_continuous(name):
    encoder = make(name)
    (image,), (tokens,), (queries,) = inputs([(3, 4)])
    images = image[None]
    whole = Positions.grid(3, 4)
    spread = torch.linspace(0, 1, 12, dtype=torch.float64)[
        None, :, None
    ]  # each patch by another way: biases see offsets

    def moved_by(step):
        points = whole.coordinates.double() + step * spread
        return outputs(encoder, whole._replace(moved=points), images, tokens, queries)

    base, near, far = moved_by(0.3), moved_by(0.3 + 1e-7), moved_by(0.4)
    for key in base:
        assert float((near[key] - base[key]).abs().max()) < 1e-5
        assert float((far[key] - base[key]).abs().max()) > 1e-4


@pytest.mark.parametrize("name", [*ROTARY, "alibi2d", "irpe", "rel_pos_mlp", "lookhere", "pape"])
def test_relative_encoders_do_not_notice_a_shift(name):
    encoder = make(name)
    _, tokens, (q,) = inputs([(3, 4)])
    whole = Positions.grid(3, 4)

    def scores(positions):
        found = outputs(encoder, positions, None, tokens[0], q)
        return found["q"] @ found["k"].mT if "q" in found else found["bias"]

    torch.testing.assert_close(
        scores(whole.shift(2, 5)), scores(whole).expand(1, HEADS, 12, 12), rtol=1e-10, atol=1e-10
    )


@pytest.mark.parametrize("name", ENCODERS)
def test_positions_pass_through_the_compiler(name):
    torch._dynamo.reset()  # encoders share the code of `outputs`, whose number of compilations is limited
    encoder = make(name, torch.float32)
    images, tokens, queries = inputs([(3, 4)] * 2, torch.float32)
    images, tokens, q = torch.stack(images), torch.cat(tokens)[:, :5], torch.cat(queries)[:, :, :5]
    index = torch.tensor([[0, 5, 6, 11, 3], [3, 2, 1, 0, 7]])

    @torch.compile(backend="eager", fullgraph=True)
    def run(images, tokens, q, index):
        return outputs(encoder, as_positions((3, 4)).taken(index), images, tokens, q)

    with torch.no_grad():
        compiled = run(images, tokens, q, index)
    expected = outputs(encoder, Positions.grid(3, 4).take(index), images, tokens, q)
    for key in expected:
        torch.testing.assert_close(compiled[key], expected[key])
