"""One similarity for every kind of encoder, against loops that spell out its definition."""

import math

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

import loope
from tests.contract.calls import DEPTH, DIM, HEADS, inputs, make
from tests.pesi_metric import reference
from tests.weights import data, weights

GRID = (3, 4)
every_encoder = pytest.mark.parametrize("name", loope.list_encoders())


@every_encoder
@pytest.mark.parametrize("grid", [None, (4, 2)])
def test_every_encoder_has_one(name, grid):
    encoder = make(name, GRID).to(torch.bfloat16)
    state = {key: value.clone() for key, value in encoder.state_dict().items()}
    similarity = loope.encoder_similarity(encoder, grid)
    cells = math.prod(grid or GRID)
    assert similarity.shape == (cells, cells)
    assert similarity.dtype == torch.float64
    assert not similarity.requires_grad
    torch.testing.assert_close(similarity.float(), encoder.similarity(grid).detach().float(), atol=0.05, rtol=0.05)
    # The encoder itself is left as it was.
    assert encoder.dtype == torch.bfloat16
    assert all(torch.equal(encoder.state_dict()[key], value) for key, value in state.items())
    assert encoder.training


@every_encoder
def test_every_encoder_can_be_scored(name, recwarn):
    scores = loope.pesi_from_similarity(loope.encoder_similarity(make(name, GRID)), GRID)
    assert 0 <= scores.m_u <= 2
    assert 0 <= scores.m_d <= scores.m_d_ceiling
    assert 0 <= scores.a_su_bounded <= 0.5
    assert {warning.category for warning in recwarn} <= {loope.LoopeWarning}


@pytest.mark.parametrize("name", ["learned", "sinusoid", "gilbert", "sincos2d", "sincos2d_sum", "fourier"])
def test_additive_is_the_cosine_of_the_vectors(name):
    encoder = make(name, GRID).double()
    expected = reference.cosines(encoder(None).detach().view(*GRID, DIM))
    torch.testing.assert_close(loope.encoder_similarity(encoder), torch.as_tensor(expected), atol=1e-11, rtol=0)


@pytest.mark.parametrize(
    "name", ["rope_axial", "rope_mixed", "as2drope", "rope_dinov3", "rope_golden", "rope_spiral", "rope_simplex"]
)
def test_rotary_is_the_mean_cosine_of_angle_differences(name):
    encoder = make(name, GRID).double()
    layers = DEPTH if name == "rope_mixed" else 1
    angles = torch.stack(
        [encoder.angles(encoder.grid, layer)[0] for layer in range(layers)]
    ).detach()  # layers, heads, N, d/2
    expected = torch.zeros(12, 12, dtype=torch.float64)
    for a in range(12):
        for b in range(12):
            expected[a, b] = (angles[:, :, a] - angles[:, :, b]).cos().mean()
    similarity = loope.encoder_similarity(encoder)
    torch.testing.assert_close(similarity, expected, atol=1e-11, rtol=0)
    # It is what two equal vectors score: all ones, after turning, over their length.
    q = torch.ones(1, HEADS, 12, DIM // HEADS, dtype=torch.float64)
    scores = [
        turned[0] @ turned[1].mT for turned in (encoder.rotate(q, q, encoder.grid, layer) for layer in range(layers))
    ]
    score = torch.stack(scores).mean((0, 1, 2)).detach() / (DIM // HEADS)
    torch.testing.assert_close(similarity, score, atol=1e-11, rtol=0)


def test_bias_is_the_head_averaged_bias():
    alibi, q = make("alibi2d", GRID).double(), torch.zeros(1, HEADS, 12, DIM // HEADS, dtype=torch.float64)
    expected = alibi.bias(q, alibi.grid, 0).mean((0, 1))
    torch.testing.assert_close(loope.encoder_similarity(alibi), expected, atol=1e-11, rtol=0)
    for mode in ("contextual", "bias"):
        irpe = make("irpe", GRID, mode=mode).double()
        biases = [irpe.bias(torch.ones_like(q), irpe.grid, layer) for layer in range(DEPTH)]
        expected = torch.stack(biases).mean((0, 1, 2)).detach()
        torch.testing.assert_close(loope.encoder_similarity(irpe), expected, atol=1e-11, rtol=0)


def test_an_untrained_bias_has_no_order():
    irpe = loope.create_encoder("irpe", 32, 4, heads=4, depth=2)
    scores = loope.pesi_from_similarity(loope.encoder_similarity(irpe), 4)
    assert (scores.m_u, scores.m_d, scores.a_su, scores.a_su_bounded) == (1, 1, 0, 0)


def test_conditional_is_measured_on_token_maps():
    encoder, tokens = make("peg", GRID), inputs(GRID).tokens
    with torch.no_grad():
        after = encoder.double().mix(tokens.double(), encoder.grid, 0)
    expected = torch.stack([torch.as_tensor(reference.cosines(one.view(*GRID, DIM))) for one in after]).mean(0)
    similarity = loope.encoder_similarity(encoder, tokens=tokens)
    torch.testing.assert_close(similarity, expected, atol=1e-11, rtol=0)
    later = loope.create_encoder("peg", DIM, GRID, after=3).double()  # asked at the block where it acts
    later.load_state_dict(encoder.state_dict())
    assert torch.equal(loope.encoder_similarity(later, tokens=tokens), similarity)


def test_conditional_on_real_token_maps():
    timm = pytest.importorskip("timm")
    state = load_file(weights("vit_tiny_patch16_224.safetensors"))
    model = timm.create_model("vit_tiny_patch16_224").eval()
    model.load_state_dict(state)
    pictures = sorted(data("imagenet-samples").iterdir())[::250]
    mean_and_size = {"mean": (0.5, 0.5, 0.5), "std": (0.5, 0.5, 0.5), "input_size": (3, 224, 224)}
    prepare = timm.data.create_transform(**mean_and_size)
    with torch.no_grad():
        images = torch.stack([prepare(Image.open(path).convert("RGB")) for path in pictures])
        tokens = model.blocks[0](model._pos_embed(model.patch_embed(images)))[:, 1:]  # where PEG reads them
    torch.manual_seed(0)
    peg = loope.create_encoder("peg", 192, 14)
    scores = loope.pesi_from_similarity(loope.encoder_similarity(peg, tokens=tokens), 14)
    equal = loope.pesi_from_similarity(loope.encoder_similarity(peg), 14)
    # Neighbours in a picture are alike, so that real tokens give more of an order than equal ones with a padded border.
    assert scores.m_u > equal.m_u
    assert scores.m_d_share < 1


def test_loope_is_measured_on_images_or_as_its_static_order():
    torch.manual_seed(0)
    encoder, images = make("loope", GRID, activation="gelu"), inputs(GRID).images
    static = loope.encoder_similarity(encoder)
    assert torch.equal(static, loope.encoder_similarity(make("gilbert", GRID)))
    with torch.no_grad():
        vectors = encoder.double().eval()(images.double())
    expected = torch.stack([torch.as_tensor(reference.cosines(one.view(*GRID, DIM))) for one in vectors]).mean(0)
    torch.testing.assert_close(loope.encoder_similarity(encoder.train(), images=images), expected, atol=1e-11, rtol=0)
    assert not torch.allclose(static, expected)


def test_autocast_does_not_round_it():
    encoder = make("rope_mixed", GRID)
    plain = loope.encoder_similarity(encoder)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(loope.encoder_similarity(encoder), plain)


def test_what_an_encoder_does_not_read_is_an_error():
    given = inputs(GRID)
    with pytest.raises(loope.LoopeError, match="'alibi2d' has no `embed` that reads `images`; leave"):
        loope.encoder_similarity(make("alibi2d", GRID), images=given.images)
    with pytest.raises(loope.LoopeError, match="'gilbert' has no `mix` that reads `tokens`"):
        loope.encoder_similarity(make("gilbert", GRID), tokens=given.tokens)
    with pytest.raises(loope.LoopeError, match=r"`tokens` must be \(B, 12, 32\) for a grid of 3x4, got \(3, 5, 32\)"):
        loope.encoder_similarity(make("peg", GRID), tokens=given.tokens[:, :5])
    with pytest.raises(loope.LoopeError, match="Expected images of"):
        loope.encoder_similarity(make("loope", GRID), images=given.images[..., :8])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda x: x * math.nan, "must be finite"),
        (lambda x: x[:0], "at least one sample"),
        (lambda x: x.to(torch.float8_e4m3fn), "got torch.float8_e4m3fn"),
        (lambda x: x > 0, "got torch.bool"),
        (lambda x: x.cfloat(), "got torch.complex64"),
        (lambda x: x.to("meta"), "device meta"),
        (lambda x: x[0], "must have shape"),
        (lambda x: x.tolist(), "must be a tensor"),
    ],
)
def test_tokens_and_images_that_cannot_be_compared(change, message):
    with pytest.raises(loope.LoopeError, match=f"`tokens` .*{message}"):
        loope.encoder_similarity(loope.create_encoder("peg", 8, 2), tokens=change(torch.rand(1, 4, 8)))
    reader = loope.create_encoder("loope", 8, 2, patch_size=4)
    with pytest.raises(loope.LoopeError, match=f"`images` .*{message}"):
        loope.encoder_similarity(reader, images=change(torch.rand(1, 3, 8, 8)))


def test_weights_that_are_nan_or_not_there():
    encoder = loope.create_encoder("learned", 8, 2)
    torch.nn.init.constant_(encoder.table, math.nan)
    with pytest.raises(loope.LoopeError, match="'learned' gives similarities that are NaN"):
        loope.encoder_similarity(encoder)
    with pytest.raises(loope.LoopeError, match="device meta"):
        loope.encoder_similarity(encoder.to("meta"))
    with pytest.raises(loope.LoopeError, match=r"must be a loope\.PositionalEncoder"):
        loope.encoder_similarity(torch.nn.Identity())
