"""Attached models inside other modules: DDP, torch.compile, averages, timm's `features_only`."""

import pytest
import timm
import torch
from torch import nn

import loope
from tests.attach.models import TIMM, images, make, make_attached, predict
from tests.attach.test_reload import model_args


def compiled(model: nn.Module) -> nn.Module:
    return torch.compile(model, backend="eager")


@pytest.fixture(scope="module")
def ddp(tmp_path_factory):
    """DDP in one process."""
    store = tmp_path_factory.mktemp("ddp") / "store"
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield nn.parallel.DistributedDataParallel
    torch.distributed.destroy_process_group()


WRAPPERS = {
    "compiled": ("_orig_mod", compiled),
    "parallel": ("module", nn.DataParallel),
    "average": ("module", torch.optim.swa_utils.AveragedModel),
    "sequence": ("0", nn.Sequential),
}
every_wrapper = pytest.mark.parametrize(("name", "wrap"), WRAPPERS.values(), ids=WRAPPERS)


@pytest.mark.parametrize("wrap", [compiled, nn.DataParallel, lambda model: nn.DataParallel(compiled(model))])
def test_saving_takes_the_wrapper_off(wrap, tmp_path):
    model = make_attached("ViT", "rope_mixed")
    loaded = loope.load(loope.save(wrap(model), tmp_path / "m.safetensors", model_args=model_args("ViT")))
    assert torch.equal(predict(loaded), predict(model))


def test_ddp(ddp, tmp_path):
    model = make_attached("ViT", "rope_mixed")
    wrapped = ddp(model)
    loaded = loope.load(loope.save(wrapped, tmp_path / "m.safetensors", model_args=model_args("ViT")))
    assert torch.equal(predict(loaded), predict(model))
    with pytest.raises(loope.LoopeError, match=r"`model\.module`"):
        loope.detach(wrapped)
    loope.detach(model)
    with pytest.raises(loope.LoopeError, match=r"`model\.module`"):
        loope.attach(wrapped, "gilbert")


@every_wrapper
def test_what_changes_the_model_names_the_model_inside(name, wrap):
    model = make("ViT")
    with pytest.raises(loope.LoopeError, match=rf"VisionTransformer.* `model\.{name}`"):
        loope.attach(wrap(model), "gilbert")
    loope.attach(model, "gilbert")
    before = predict(model)
    for call in (
        loope.detach,
        lambda each: loope.resize(each, (64, 64)),
        lambda each: loope.freeze(each, (32, 32)),
    ):
        with pytest.raises(loope.LoopeError, match=rf"VisionTransformer.* `model\.{name}`"):
            call(wrap(model))
    assert torch.equal(predict(model), before)


def test_saving_other_wrappers_names_the_model_inside(tmp_path):
    model = make_attached("ViT", "gilbert")
    with pytest.raises(loope.LoopeError, match=r"VisionTransformer.* `model\.1`"):
        loope.save(nn.Sequential(nn.Identity(), model), tmp_path / "m.safetensors")


@pytest.mark.parametrize("encoder", ["loope", "peg", "rope_mixed", "alibi2d"])
@pytest.mark.parametrize("name", ["vit_tiny_patch16_224", "beit_base_patch16_224", "eva02_base_patch14_224"])
def test_features_only(name, encoder, tmp_path):
    options = {**TIMM, "depth": 3, "features_only": True, "out_indices": (0, 1)}
    torch.manual_seed(0)
    model = timm.create_model(name, **options).eval()
    pixels = torch.randn(2, 3, 32, 32)
    before = features(model, pixels)
    loope.attach(model, encoder)
    attached = features(model, pixels)
    assert not torch.allclose(attached, before)
    args = {key: value for key, value in options.items() if key not in ("img_size", "num_classes")}
    loaded = loope.load(loope.save(model, tmp_path / "m.safetensors", model_args=args))
    assert torch.equal(features(loaded, pixels), attached)
    loope.resize(model, (64, 32))
    assert features(model, torch.randn(2, 3, 64, 32)).shape[-2:] == (8, 4)
    loope.resize(model, (32, 32))
    loope.detach(model)
    assert torch.equal(features(model, pixels), before)


@torch.no_grad()
def features(model: nn.Module, pixels: torch.Tensor) -> torch.Tensor:
    return torch.stack(model(pixels))


def test_a_plain_model_that_is_given_an_attached_state_says_what_to_do():
    state = make_attached("ViT", "rope_mixed").state_dict()
    with pytest.raises(RuntimeError, match=r"loope_load.*loope_attach"):
        make("ViT").load_state_dict(state)


def test_state_dicts_from_before_the_hint_are_read():
    source, target = make_attached("ViT", "rope_mixed"), make_attached("ViT", "rope_mixed")
    with torch.no_grad():
        source.loope.encoders[0][0].frequencies.mul_(2)
    state = {key: value for key, value in source.state_dict().items() if "loope_load" not in key}
    assert len(state) == len(source.state_dict()) - 1
    target.load_state_dict(state)
    assert torch.equal(predict(target, images(target)), predict(source, images(source)))
