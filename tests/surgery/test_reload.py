"""Every encoder in every model, saved and loaded."""

import torch

import loope
from tests.surgery.matrix import every_encoder, every_model, same_state, state_of
from tests.surgery.models import SEGMENTERS, TIMM_MODELS, images, make, make_attached, predict


def model_args(name: str) -> dict:
    """Return the arguments that `save` cannot find out by itself."""
    _, options = TIMM_MODELS.get("ViT" if name in SEGMENTERS else name, ("", {}))
    return {key: value for key, value in options.items() if key not in ("img_size", "num_classes")}


@every_model
@every_encoder
def test_one_file_rebuilds_model_and_encoder(name, encoder, tmp_path):
    model = make_attached(name, encoder, prefix="learned")
    height, width = images(model).shape[-2:]
    loope.resize(model, (2 * height, width))
    loaded = loope.load(loope.save(model, tmp_path / "model.safetensors", model_args=model_args(name)))
    assert type(loaded) is type(model)
    assert same_state(loaded, state_of(model))
    assert not loaded.training
    pixels = images(model, (2 * height, width))
    assert torch.equal(predict(loaded, pixels), predict(model, pixels))
    loope.resize(loaded, (height, width))
    loope.detach(loaded)
    assert torch.equal(predict(loaded), predict(make(name)))  # the model's own encoding was saved too


@every_model
def test_several_encoders_with_options_beside_the_models_own(name, tmp_path):
    model = make_attached(name, ["loope", ("rope_mixed", {"temperature": 20.0})], keep_own=True)
    loaded = loope.load(loope.save(model, tmp_path / "m.safetensors", model_args=model_args(name)))
    assert same_state(loaded, state_of(model))
    assert torch.equal(predict(loaded), predict(model))
