"""Random moves of positions while training: their formulas, seeds, and DINOv3's draws in timm and transformers."""

import inspect
import math

import pytest
import torch
from timm.layers import RotaryEmbeddingDinoV3, apply_rot_embed_cat
from transformers import DINOv3ViTConfig
from transformers.models.dinov3_vit.modeling_dinov3_vit import DINOv3ViTRopePositionEmbedding, apply_rotary_pos_emb

import loope
from loope import Positions
from loope.encoders import encoder_class
from loope.positions.augment import Augmentation, as_augmentation

GRID, DIM, HEADS = (4, 6), 48, 3
FUZZY = [name for name in loope.list_encoders() if "fuzzy" in inspect.signature(encoder_class(name)).parameters]
every_fuzzy = pytest.mark.parametrize("name", FUZZY)
AUGMENTED = [name for name in loope.list_encoders() if "augment" in inspect.signature(encoder_class(name)).parameters]


def make(name, **options):
    torch.manual_seed(0)
    return loope.create_encoder(name, DIM, GRID, heads=HEADS, depth=2, patch_size=4, **options)


def moved(augmentation, positions, seed=0):
    torch.manual_seed(seed)
    return augmentation(positions, *positions.plane(torch.float64)).coordinates


def outputs(encoder, images=None, positions=None):
    """What the encoder says, as an attached one is asked."""
    place = positions or Positions.grid(*GRID)
    if "embed" in encoder.hooks():
        return encoder.embed(images, place)
    place = encoder.refine_positions(images, place)
    q = torch.linspace(-1, 1, place.length * DIM).view(1, HEADS, place.length, DIM // HEADS)
    return encoder.rotate(q, q, place, 1)[0]


@pytest.mark.parametrize("seed", [0, 1])
def test_all_moves_are_dinov3s_formula(seed):
    """Shift, then a factor for each axis, then one for both, on coordinates from -1 to 1; cells before that."""
    ours = moved(Augmentation(shift=0.3, jitter=1.5, rescale=2.0, fuzzy=0.5), Positions.grid(*GRID), seed)
    torch.manual_seed(seed)
    fuzz = (2 * torch.rand(1, 24, 2, dtype=torch.float64) - 1) * 0.5
    shift = torch.empty(2).uniform_(-0.3, 0.3).tolist()
    jitter = torch.empty(2).uniform_(-math.log(1.5), math.log(1.5)).exp().tolist()
    rescale = torch.empty(1).uniform_(-math.log(2), math.log(2)).exp().item()
    for number in range(24):
        for axis, (cell, size) in enumerate(zip(divmod(number, 6), GRID, strict=True)):
            unit = 2 * (cell + float(fuzz[0, number, axis]) + 0.5) / size - 1
            unit = (unit + shift[axis]) * jitter[axis] * rescale
            assert float(ours[0, number, axis]) == pytest.approx((unit + 1) / 2 * size - 0.5, rel=1e-6)


@pytest.mark.parametrize(
    ("moves", "reach"),
    [({"shift": 0.3}, 0.3), ({"jitter": 1.5}, 0.5), ({"rescale": 2.0}, 1.0), ({"fuzzy": 0.25}, 0.125)],
)
def test_moves_stay_in_their_range_and_fill_it(moves, reach):
    """In halves of the image, at most `reach` for cells inside of it; factors are between 1 / f and f."""
    positions, largest = Positions.grid(*GRID), 0.0
    for seed in range(40):
        offset = (moved(Augmentation(**moves), positions, seed) - positions.coordinates.double()) / torch.tensor([2, 3])
        largest = max(largest, float(offset.abs().max()))
    assert 0.6 * reach < largest <= reach


def test_rescaling_is_uniform_in_the_logarithm():
    factors = []
    for seed in range(200):
        points = moved(Augmentation(rescale=2.0), Positions.grid(*GRID), seed)[0]
        factors.append(math.log2(float((points[23] - points[0])[1]) / 5))
    assert all(-1 <= each <= 1 for each in factors)
    assert abs(sum(factors) / 200) < 0.12
    assert 0.4 < sum(abs(each) > 0.5 for each in factors) / 200 < 0.6


def test_the_centre_of_the_image_stays_when_it_is_rescaled():
    points = moved(Augmentation(jitter=1.5, rescale=2.0), Positions.grid(*GRID))
    torch.testing.assert_close(points.mean(1), torch.tensor([[1.5, 2.5]], dtype=torch.float64))


def test_images_of_several_sizes_are_moved_alike():
    """In units of each image."""
    both = moved(Augmentation(shift=0.3, rescale=2.0), Positions.batch([(4, 6), (2, 3)]))
    for number, size in enumerate([(4, 6), (2, 3)]):
        alone = moved(Augmentation(shift=0.3, rescale=2.0), Positions.grid(size))
        torch.testing.assert_close(both[number, : size[0] * size[1]], alone[0])


@pytest.mark.parametrize("moves", [{"rescale": 2.0}, {"shift": 0.4, "jitter": 1.3, "rescale": 2.0}])
def test_seeds_give_the_draws_of_timm_and_transformers(moves):
    encoder = make("rope_dinov3", augment=moves).train()
    q = torch.randn(2, HEADS, 24, DIM // HEADS)
    torch.manual_seed(5)
    ours, _ = encoder.rotate(q, q, encoder.refine_positions(None, Positions.grid(*GRID)), 0)
    named = {f"{move}_coords": value for move, value in moves.items()}
    theirs = RotaryEmbeddingDinoV3(DIM // HEADS, feat_shape=list(GRID), **named).train()
    torch.manual_seed(5)
    torch.testing.assert_close(ours, apply_rot_embed_cat(q, theirs.get_embed(), half=True), atol=5e-5, rtol=0)
    named = {f"pos_embed_{move}": moves.get(move) for move in ("shift", "jitter", "rescale")}
    config = DINOv3ViTConfig(hidden_size=DIM, num_attention_heads=HEADS, patch_size=4, image_size=16, **named)
    torch.manual_seed(5)
    waves = DINOv3ViTRopePositionEmbedding(config).train()(torch.zeros(1, 3, 16, 24))
    torch.testing.assert_close(ours, apply_rotary_pos_emb(q, q, *waves)[0], atol=5e-5, rtol=0)


def test_dinov3_rescales_by_default_and_nothing_else():
    assert make("rope_dinov3").augmentation == Augmentation(rescale=2.0)
    assert make("rope_dinov3", augment=None).augmentation is None


def test_the_documented_encoders_are_fuzzy():
    rotary = ["rope_axial", "rope_mixed", "as2drope", "rope_dinov3", "rope_golden", "rope_spiral", "rope_simplex"]
    assert ["learned", "sincos2d", *rotary, "liere", "factorized"] == FUZZY


@every_fuzzy
def test_fuzzy_positions_are_jittered_ones_while_training(name):
    encoder = make(name, fuzzy=0.5, **({"augment": None} if name == "rope_dinov3" else {})).train()
    plain = make(name).eval()
    torch.manual_seed(3)
    ours = outputs(encoder)
    torch.manual_seed(3)
    points = Positions.grid(*GRID).coordinates.double()
    jittered = Positions.grid(*GRID)._replace(moved=points).jitter(amount=0.5)
    assert torch.equal(ours, outputs(plain, positions=jittered))
    assert not torch.allclose(ours, outputs(plain))
    assert not torch.equal(ours, outputs(encoder))  # another draw
    assert torch.equal(outputs(encoder.eval()), outputs(plain))


def test_the_documented_encoders_are_augmented():
    assert [name for name in FUZZY if name not in ("learned", "sincos2d", "factorized")] == AUGMENTED


@pytest.mark.parametrize("name", AUGMENTED)
def test_augmented_encoders_read_moved_positions_while_training(name):
    moves = {"shift": 0.3, "jitter": 1.5, "rescale": 2.0}
    encoder, plain = make(name, augment=moves).train(), make(name).eval()
    torch.manual_seed(3)
    ours = outputs(encoder)
    there = moved(Augmentation(**moves), Positions.grid(*GRID), seed=3)
    assert torch.equal(ours, outputs(plain, positions=Positions.at(there[0], GRID)))
    assert not torch.allclose(ours, outputs(plain))
    assert not torch.equal(ours, outputs(encoder))  # another draw
    assert torch.equal(outputs(encoder.eval()), outputs(plain))


@every_fuzzy
def test_similarity_is_that_of_exact_positions(name):
    torch.testing.assert_close(make(name, fuzzy=0.5).train().similarity(), make(name).similarity())


@every_fuzzy
def test_gradients_reach_the_encoder_through_fuzzy_positions(name):
    encoder = make(name, fuzzy=0.5).train()
    if list(encoder.parameters()):
        outputs(encoder).square().sum().backward()
        out = [parameter.grad.any() for parameter in encoder.parameters()]
        assert all(out)
    else:
        assert not outputs(encoder).requires_grad


@pytest.mark.parametrize("name", ["sincos2d", "rope_mixed"])
def test_the_image_moves_patches_before_chance_does(name):
    encoder = make(name, fuzzy=0.5, refine="image")
    torch.nn.init.normal_(encoder.generator.mixer.weight)
    images = torch.rand(1, 3, 16, 24)
    encoder.generator.eval()
    torch.manual_seed(3)
    ours = encoder.train(False).refine_positions(images, Positions.grid(*GRID))
    encoder.training = True
    torch.manual_seed(3)
    both = encoder.refine_positions(images, Positions.grid(*GRID))
    torch.manual_seed(3)
    assert torch.equal(both.coordinates, ours.jitter(amount=0.5).coordinates)


def test_a_fuzzy_encoder_can_be_projected():
    encoder, plain = make("sincos2d", fuzzy=0.5, project=True).train(), make("sincos2d", fuzzy=0.5).train()
    torch.manual_seed(3)
    ours = encoder(None)
    torch.manual_seed(3)
    torch.testing.assert_close(ours, plain(None))
    torch.testing.assert_close(encoder.eval()(None), make("sincos2d")(None))


@pytest.mark.parametrize("name", ["learned", "rope_mixed", "rope_dinov3"])
def test_compiled_training_draws_anew(name):
    torch._dynamo.reset()
    encoder = make(name, fuzzy=0.5).train()

    @torch.compile(backend="aot_eager", fullgraph=True)
    def run(scale):
        return outputs(encoder) * scale

    one, other = run(torch.ones(1)), run(torch.ones(1))
    assert not torch.allclose(one, other)
    assert bool(one.isfinite().all())


def test_nothing_to_move_is_no_augmentation():
    assert as_augmentation() is None
    assert as_augmentation({"jitter": 1, "shift": 0}) is None
    positions = Positions.grid(*GRID)
    assert make("rope_axial").train().refine_positions(None, positions) is positions


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"augment": {"rescale": 0.5}}, "rescale"),
        ({"augment": {"shift": -1}}, "shift"),
        ({"augment": {"jitter": float("nan")}}, "jitter"),
        ({"augment": {"rescale": True}}, "rescale"),
        ({"augment": {"blur": 1.0}}, "blur"),
        ({"augment": "rescale"}, "augment"),
        ({"fuzzy": -0.5}, "fuzzy"),
        ({"fuzzy": "0.5"}, "fuzzy"),
    ],
)
def test_bad_options(options, word):
    with pytest.raises(loope.LoopeError, match=word):
        make("rope_axial", **options)
