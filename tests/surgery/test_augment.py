"""Attached encoders that move positions at random: while training only, all blocks alike, also when run again."""

import pytest
import timm
import torch

import loope
from tests.surgery.models import TIMM, images

ENCODERS = [("rope_dinov3", {}), ("rope_mixed", {"fuzzy": 0.5}), ("learned", {"fuzzy": 0.5})]
every_augmented = pytest.mark.parametrize(("encoder", "options"), ENCODERS)


def attached(encoder, options, **model_options):
    torch.manual_seed(0)
    model = timm.create_model("vit_tiny_patch16_224", **TIMM, **model_options)
    loope.attach(model, encoder, **options)
    torch.nn.init.normal_(model.head.weight)
    return model.train()


@every_augmented
def test_seeds_determine_the_moves_and_evaluation_has_none(encoder, options):
    model, pixels = attached(encoder, options), images(None, (32, 32))
    outputs = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        outputs.append(model(pixels))
    assert torch.equal(outputs[0], outputs[1])
    assert not torch.allclose(outputs[0], outputs[2])
    still = attached(encoder, {"augment": None} if encoder == "rope_dinov3" else {}).eval()
    assert torch.equal(model.eval()(pixels), still(pixels))


def test_all_blocks_get_the_same_positions():
    model, seen = attached("rope_dinov3", {}), []
    rotary = model.loope.encoders[0][0]
    plain = rotary.rotate
    rotary.rotate = lambda q, k, positions, layer: seen.append(positions) or plain(q, k, positions, layer)
    model(images(None, (32, 32)))
    assert len(seen) == TIMM["depth"]
    assert all(each.moved is seen[0].moved is not None for each in seen)


@every_augmented
def test_gradient_checkpointing_runs_with_the_same_moves(encoder, options):
    gradients = []
    for again in (False, True):
        model = attached(encoder, options)
        model.set_grad_checkpointing(again)
        torch.manual_seed(1)
        model(images(None, (32, 32))).square().sum().backward()
        gradients.append([parameter.grad for parameter in model.parameters() if parameter.grad is not None])
    for one, other in zip(*gradients, strict=True):
        torch.testing.assert_close(one, other)


def test_the_options_are_saved(tmp_path):
    model = attached("rope_axial", {"augment": {"rescale": 2.0}, "fuzzy": 0.25}).eval()
    args = {key: value for key, value in TIMM.items() if key not in ("img_size", "num_classes")}
    loope.save(model, tmp_path / "m.safetensors", model_args=args)
    again = loope.load(tmp_path / "m.safetensors")
    assert again.loope.encoders[0][0].augmentation == model.loope.encoders[0][0].augmentation
