"""Refined encoders in a model: images move patches in every block, and files bring them back."""

import copy

import pytest
import timm
import torch

import loope
from loope.surgery.state import Attachment

REFINED = ["sincos2d", "fourier", "gilbert", "rope_axial", "rope_mixed", "as2drope"]


def vit(depth=2):
    torch.manual_seed(0)
    size = {"patch_size": 4, "embed_dim": 16, "depth": depth, "num_heads": 2}
    model = timm.create_model("vit_tiny_patch16_224", img_size=(12, 16), num_classes=2, **size)
    for block in model.blocks:  # attention that notices positions: timm starts with weights of about 0.02
        torch.nn.init.normal_(block.attn.qkv.weight, std=0.5)
        torch.nn.init.normal_(block.attn.proj.weight, std=0.5)
    torch.nn.init.normal_(model.head.weight)
    return model


def refined(name="rope_mixed", refine="image", **options):
    model = vit()
    torch.manual_seed(1)
    return loope.attach(model, name, refine=refine, **options)


def encoder_of(model):
    return model.loope.encoders[0][0]


def move(model):
    """Give the generator's last layer weights that are not zero."""
    torch.nn.init.normal_(encoder_of(model).generator.mixer.weight, std=2.0)
    return model.eval()


IMAGES = torch.rand(3, 3, 12, 16, generator=torch.Generator().manual_seed(5))


@pytest.mark.parametrize("name", REFINED)
def test_a_model_starts_as_with_the_static_encoder(name):
    model, static = refined(name).eval(), refined(name, refine=None).eval()
    assert torch.equal(model(IMAGES), static(IMAGES))
    assert not torch.allclose(move(model)(IMAGES), static(IMAGES))


@pytest.mark.parametrize("name", [name for name in REFINED if name != "gilbert"])
def test_offsets_are_applied_once(name):
    """The model is the static one with patches where the offsets put them; for all that move them in the plane."""
    model = move(refined(name))
    static = refined(name, refine=None).eval()
    grid = loope.Positions.grid(3, 4)
    moved = grid._replace(moved=grid.coordinates + encoder_of(model).offsets(IMAGES))
    with loope.use_positions(static, moved):
        expected = static(IMAGES)
    torch.testing.assert_close(model(IMAGES), expected)


@pytest.mark.parametrize("name", REFINED)
@pytest.mark.parametrize("checkpointing", [False, True])
def test_training_changes_the_generator(name, checkpointing):
    model = refined(name).train()
    model.set_grad_checkpointing(checkpointing)
    before = copy.deepcopy(encoder_of(model).generator.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for _ in range(2):  # the last layer moves first, then all
        optimizer.zero_grad()
        torch.nn.functional.cross_entropy(model(IMAGES), torch.tensor([0, 1, 0])).backward()
        optimizer.step()
    after = encoder_of(model).generator.state_dict()
    for key in ("mixer.weight", "patches.weight"):
        assert not torch.equal(before[key], after[key]), key
        assert after[key].isfinite().all()


def test_checkpointed_blocks_give_the_same_gradients():
    gradients = []
    for checkpointing in (False, True):
        model = move(refined())
        model.set_grad_checkpointing(checkpointing)
        torch.manual_seed(3)
        torch.nn.init.normal_(encoder_of(model).generator.mixer.weight)
        model(IMAGES).square().sum().backward()
        gradients.append(encoder_of(model).generator.patches.weight.grad)
    torch.testing.assert_close(*gradients)


def test_reentrant_checkpointing_is_refused():
    model = move(refined())
    tokens = model._pos_embed(model.patch_embed(IMAGES))
    for block in model.blocks:
        tokens = torch.utils.checkpoint.checkpoint(block, tokens, use_reentrant=True)
    with pytest.raises(loope.LoopeError, match="use_reentrant=False"):
        tokens.sum().backward()


@pytest.mark.parametrize(
    "refine", ["image", {"mixer": "linear", "reach": 2}, loope.ImageRefinement(inputs="rgb", zero_init=False)]
)
@pytest.mark.parametrize("name", ["rope_mixed", "sincos2d", "gilbert"])
def test_files_bring_it_back(tmp_path, name, refine):
    model = move(refined(name, refine=refine))
    loope.save(
        model, tmp_path / "model.safetensors", model_args={"patch_size": 4, "embed_dim": 16, "depth": 2, "num_heads": 2}
    )
    again = loope.load(tmp_path / "model.safetensors")
    assert torch.equal(again(IMAGES), model(IMAGES))
    assert torch.equal(encoder_of(again).offsets(IMAGES), encoder_of(model).offsets(IMAGES))
    other = refined(name, refine=refine).eval()
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(IMAGES), model(IMAGES))


def test_a_checkpoint_with_other_options_is_refused():
    with pytest.raises(loope.LoopeError, match="other options"):
        refined(refine={"reach": 2}).load_state_dict(refined(refine={"reach": 3}).state_dict())


def test_bake_leaves_it_alone():
    model = move(refined())
    expected = model(IMAGES)
    loope.bake(model, (12, 16))
    assert torch.equal(model(IMAGES), expected)
    assert encoder_of(model).name == "rope_mixed"


def test_each_encoder_has_its_own_positions():
    model = vit()
    loope.attach(model, [("rope_axial", {"refine": "image"}), "alibi2d", ("sincos2d", {"refine": "image"})])
    move(model)
    attachment = model.loope
    assert isinstance(attachment, Attachment)
    places = attachment.refined(0, IMAGES, loope.Positions.grid(3, 4))
    assert [place.whole is None for place in places] == [True, False, False]  # `embed` refines by itself
    torch.testing.assert_close(places[0].moved - places[1].coordinates, encoder_of(model).offsets(IMAGES).double())
    assert model(IMAGES).isfinite().all()


def test_some_patches_are_moved_as_among_all():
    model = move(refined())
    index = torch.tensor([[0, 5, 6], [1, 2, 11], [3, 4, 7]])
    whole = encoder_of(model).refine_positions(IMAGES, loope.Positions.grid(3, 4))
    some = encoder_of(model).refine_positions(IMAGES, loope.Positions.grid(3, 4).take(index))
    assert torch.equal(some.moved, whole.taken(index).moved)


def test_it_compiles():
    torch._dynamo.reset()
    model = move(refined())
    with torch.no_grad():
        expected = model(IMAGES)
        compiled = torch.compile(model, backend="eager", fullgraph=True)(IMAGES)
    torch.testing.assert_close(compiled, expected)


def test_resized_models_refine_on():
    model = move(refined(refine={"mixer": "linear"}))
    loope.resize(model, (20, 24))
    assert model(torch.rand(2, 3, 20, 24)).isfinite().all()
    assert encoder_of(model).offsets(torch.rand(2, 3, 20, 24)).shape == (2, 30, 2)
