"""A pretrained ViT-Tiny on real photographs; skipped if they are not available."""

import os
from pathlib import Path

import pytest
import timm
import torch
from PIL import Image
from safetensors.torch import load_file
from torchvision.transforms import v2

import loope

WEIGHTS = Path(os.environ.get("LOOPE_WEIGHTS", "")) / "vit_tiny_patch16_224.safetensors"
SAMPLES = Path(os.environ.get("LOOPE_DATA", "")) / "imagenet-samples"
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not WEIGHTS.is_file(), reason="LOOPE_WEIGHTS has no vit_tiny_patch16_224.safetensors"),
    pytest.mark.skipif(not SAMPLES.is_dir(), reason="LOOPE_DATA has no imagenet-samples"),
    pytest.mark.xdist_group("real_vit"),
]
COUNT = 500  # of 200, chance alone can move an accuracy by more than the three points allowed below
FITTED = {
    "sincos2d": 0.01,
    "sinusoid": 0.01,
    "fourier": 0.01,
    "gilbert": 0.03,
    "loope": 0.03,
}  # largest loss without training


def photographs(side: int, count: int = COUNT) -> tuple[torch.Tensor, torch.Tensor]:
    """Samples at equal steps; sorted file order is the class index."""
    prepare = v2.Compose(
        [v2.Resize(int(side / 0.9), interpolation=v2.InterpolationMode.BICUBIC), v2.CenterCrop(side), v2.ToImage(),
         v2.ToDtype(torch.float32, scale=True), v2.Normalize([0.5] * 3, [0.5] * 3)]
    )  # fmt: skip
    chosen = list(enumerate(sorted(SAMPLES.iterdir())))[:: 1000 // count]
    return torch.stack([prepare(Image.open(path).convert("RGB")) for _, path in chosen]), torch.tensor(
        [n for n, _ in chosen]
    )


@pytest.fixture(scope="module")
def model():
    made = timm.create_model("vit_tiny_patch16_224", pretrained=False)
    made.load_state_dict(load_file(WEIGHTS))
    return made.eval()


@pytest.fixture(scope="module")
def at_224():
    return photographs(224)


@torch.inference_mode()
def predictions(model, pixels):
    with torch.autocast("cpu", torch.bfloat16):
        return torch.cat([model(batch).float() for batch in pixels.split(50)])


def accuracy(model, data) -> float:
    return (predictions(model, data[0]).argmax(-1) == data[1]).float().mean().item()


def test_attach_and_detach_keep_its_predictions(model, at_224):
    before = predictions(model, at_224[0])
    own = (before.argmax(-1) == at_224[1]).float().mean().item()
    assert own > 0.7  # it is the real thing
    loope.attach(model, "none")
    without = accuracy(model, at_224)
    loope.detach(model)
    assert without < own - 0.1
    loope.attach(model, "learned", init="own")
    assert torch.equal(predictions(model, at_224[0][:50]), before[:50])
    loope.detach(model)
    assert torch.equal(predictions(model, at_224[0]), before)


def test_a_larger_image_with_its_own_table_resampled(model, at_224):
    own = accuracy(model, at_224)
    loope.attach(model, "learned", init="own")
    loope.resize(model, (288, 288))
    larger = accuracy(model, photographs(288))
    loope.resize(model, (224, 224))
    loope.detach(model)
    assert abs(larger - own) <= 0.03


def test_a_fitted_encoder_keeps_what_the_model_knows(model):
    data = photographs(224, 1000)
    own = accuracy(model, data)
    for encoder, most in FITTED.items():
        torch.manual_seed(0)
        loope.attach(model, encoder, init="own")
        fitted = accuracy(model, data)
        loope.detach(model)
        assert fitted >= own - most, (encoder, fitted, own)


def test_others_start_as_the_model_is(model, at_224):
    before = predictions(model, at_224[0][:50])
    for encoder in ("rope_mixed", "alibi2d", "irpe", "peg", "none"):
        loope.attach(model, encoder, init="own")
        assert torch.equal(predictions(model, at_224[0][:50]), before)
        loope.detach(model)
