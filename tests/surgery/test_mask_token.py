"""Patches that transformers' models replace by a mask token: they get their positions too."""

import pytest
import torch
from torch import Tensor, nn
from transformers import (
    DeiTConfig,
    DeiTForMaskedImageModeling,
    DeiTModel,
    ViTConfig,
    ViTForMaskedImageModeling,
    ViTModel,
)

import loope
from tests.surgery.matrix import same_state, state_of
from tests.surgery.models import HF, images

MODELS = {
    "ViT": lambda: ViTModel(ViTConfig(**HF), use_mask_token=True),
    "ViT, masked images": lambda: ViTForMaskedImageModeling(ViTConfig(**HF, encoder_stride=8)),
    "DeiT": lambda: DeiTModel(DeiTConfig(**HF), use_mask_token=True),
    "DeiT, masked images": lambda: DeiTForMaskedImageModeling(DeiTConfig(**HF, encoder_stride=8)),
}
every_kind = pytest.mark.parametrize("kind", MODELS)


def make(kind: str) -> nn.Module:
    torch.manual_seed(0)
    model = MODELS[kind]()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.eval()


def mask() -> Tensor:
    return torch.arange(16).expand(2, -1) % 3 == 0


@torch.no_grad()
def run(model: nn.Module, masked: Tensor | None, pixels: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The tokens that the first block gets, and the model's output."""
    seen = {}
    hook = model.base_model.layers[0].register_forward_pre_hook(lambda module, args: seen.update(tokens=args[0]))
    out = model(images(model) if pixels is None else pixels, bool_masked_pos=masked)
    hook.remove()
    return seen["tokens"], out.last_hidden_state if "last_hidden_state" in out else out.reconstruction


@every_kind
@pytest.mark.parametrize("encoder", ["gilbert", "learned", "loope"])
@pytest.mark.parametrize("prefix", ["none", "learned"])
def test_a_masked_patch_is_the_mask_token_and_its_position(kind, encoder, prefix):
    model = make(kind)
    own, state = run(model, mask())[1], state_of(model)
    loope.attach(model, encoder, prefix=prefix)
    tokens, embeddings = run(model, mask())[0], model.base_model.embeddings
    patches = tokens[:, model.loope.branches[0].prefix :]
    vectors = model.loope.encoders[0][0](images(model)).expand(2, -1, -1)
    torch.testing.assert_close(patches[mask()], embeddings.mask_token[0] + vectors[mask()])
    projected = embeddings.patch_embeddings(images(model))
    torch.testing.assert_close(patches[~mask()], projected[~mask()] + vectors[~mask()])
    loope.detach(model)
    assert torch.equal(run(model, mask())[1], own)
    assert same_state(model, state)


@pytest.mark.parametrize("kind", ["ViT", "DeiT"])
@pytest.mark.parametrize("encoder", ["sincos2d", "loope", "irpe", "rope_mixed"])
def test_without_masked_patches_the_model_is_the_one_without_a_mask_token(kind, encoder):
    model = make(kind)
    plain = type(model)(type(model.config)(**HF)).eval()
    plain.load_state_dict(model.state_dict(), strict=False)
    for each in (model, plain):
        torch.manual_seed(1)
        loope.attach(each, encoder)
    torch.testing.assert_close(run(model, None)[1], run(plain, None)[1])
    assert not torch.allclose(run(model, mask())[1], run(model, None)[1])


@every_kind
def test_learned_from_the_models_own_table_reproduces_masked_images(kind):
    model = make(kind)
    own = run(model, mask())[1]
    loope.attach(model, "learned", init="own")
    torch.testing.assert_close(run(model, mask())[1], own)


@every_kind
def test_files_keep_the_mask_token(kind, tmp_path):
    model = make(kind)
    loope.attach(model, "loope")
    loaded = loope.load(loope.save(model, tmp_path / "m.safetensors"))
    assert torch.equal(run(loaded, mask())[1], run(model, mask())[1])
