"""All diagnostics in one pass are those of the functions."""

import pytest
import torch

import loope
from loope.diagnostics import whole
from tests.surgery.models import vit

PIXELS = torch.randn(9, 3, 32, 32, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("encoder", [None, "rope_mixed"])
def test_a_diagnosis_is_what_the_functions_return(encoder, monkeypatch):
    monkeypatch.setattr(whole, "FEW", 7)
    model = vit() if encoder is None else loope.attach(vit(), encoder)
    batches = PIXELS.split(4)
    found = whole.diagnose(model, batches)
    order = [0, 2, 3, 4, 6, 7, 8]  # those to fit come first
    wanted = [
        (found.shares, loope.position_share(model, batches)),
        (found.artifacts, loope.position_artifacts(model, batches)),
        (found.probe, loope.position_probe(model, batches)),
        (found.attention, loope.attention_distance(model, batches)),
        (found.shift, loope.shift_sensitivity(model, PIXELS[order])),
    ]
    for one, other in wanted:
        for name, value in one._asdict().items():
            if isinstance(value, torch.Tensor):
                torch.testing.assert_close(
                    value, getattr(other, name), rtol=1e-5, atol=1e-6, msg=lambda text, n=name: n + text
                )
            else:
                assert value == getattr(other, name), name
    assert (found.rotary is None) == (encoder is None)


def test_every_image_passes_once_and_once_more_for_every_shift(monkeypatch):
    monkeypatch.setattr(whole, "FEW", 2)
    model = vit()
    passes, counted = [], []
    model.register_forward_pre_hook(lambda module, args: passes.append(len(args[0])))
    whole.diagnose(model, PIXELS.split(4), counted.append)
    shifts, rotary = 2 * 2, 1  # by 1 and 2 cells: positions, then pixels
    assert sum(passes) == len(PIXELS) + 2 * shifts + rotary
    assert sum(counted) == len(PIXELS)


def test_attention_is_reduced_block_by_block(monkeypatch):
    """All weights of a large model at once would not fit into memory."""
    model, kept = vit(), []
    real = torch.Tensor.softmax

    def softmax(scores, *args, **kwargs):
        kept.append(scores)
        return real(scores, *args, **kwargs)

    monkeypatch.setattr(torch.Tensor, "softmax", softmax)
    held = []
    model.blocks[1].register_forward_pre_hook(lambda module, args: held.append(len(kept)))
    loope.attention_distance(model, PIXELS[:2])
    assert held == [1]  # that of the first block is done before the second one runs
