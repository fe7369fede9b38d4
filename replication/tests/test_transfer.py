"""Hand-overs are measured, kept once each, and shown."""

import pytest
import torch

import loope
from replication import transfer
from tests.weights import weights


@pytest.fixture
def file(monkeypatch, tmp_path):
    monkeypatch.setattr(transfer, "FILE", tmp_path / "transfer.jsonl")
    return transfer.FILE


def test_a_result_takes_the_place_of_an_earlier_one(file):
    assert transfer.results() == []
    for encoder, steps, top1 in (("none", 1000, 0.1), ("none", 4000, 0.2), ("none", 1000, 0.3), ("peg", 1000, 0.4)):
        transfer.keep({"what": "hand-over", "encoder": encoder, "steps": steps, "top1": top1})
    found = {(each["encoder"], each["steps"]): each["top1"] for each in transfer.results()}
    assert found == {("none", 4000): 0.2, ("none", 1000): 0.3, ("peg", 1000): 0.4}
    lines = transfer.steps_table().splitlines()
    assert [cell.strip() for cell in lines[2].split("|")[1:-1]] == ["`none`", "30.0", "20.0"]
    assert [cell.strip() for cell in lines[3].split("|")[1:-1]] == ["`peg`", "40.0", ""]


def test_sizes_are_shown_beside_the_own_table(file):
    transfer.keep({"what": "sizes", "encoder": "own", "size": 160, "top1": 0.75, "more": 0.0, "half": 0.0})
    transfer.keep({"what": "sizes", "encoder": "gilbert", "size": 160, "top1": 0.72, "more": -0.03, "half": 0.014})
    own, *_, gilbert, loope = transfer.sizes_table().splitlines()[2:]
    assert "| 75.0 | not measured |" in own
    assert "| 72.0 (-3.0 ± 1.4) | not measured |" in gilbert
    assert loope.count("not measured") == 4


def test_a_hand_over_is_judged_on_photographs_that_it_was_not_taught(monkeypatch, tmp_path):
    monkeypatch.setenv("LOOPE_WEIGHTS", str(weights("vit_tiny_patch16_224.safetensors").parent))
    monkeypatch.setattr(transfer, "BATCH", 2)
    pixels = torch.randint(0, 256, (4, 3, 224, 224), dtype=torch.uint8)
    for encoder, alike in (("learned", 1.0), ("rope_axial", 0.0)):
        (found,) = transfer.hand_over(encoder, [0], pixels, pixels[:2], tmp_path)
        assert (found["steps"], found["agreement"]) == (0, alike)
    seen = []
    view = transfer.normalized
    monkeypatch.setattr(transfer, "normalized", lambda images: seen.append(len(images)) or view(images))
    (found,) = transfer.hand_over("rope_axial", [4], pixels, pixels[:2], tmp_path)
    assert found["steps"] == 4
    assert seen == [2, *[2] * 4, 2]  # the original is judged, then a batch for each step, then the model
    assert not loope.report(loope.load(tmp_path / "vit_tiny_patch16_224-rope_axial.safetensors")).keep_own
