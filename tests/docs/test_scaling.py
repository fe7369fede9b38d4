"""The estimate of GPU-hours, against pencil and paper."""

import pytest

from tests.docs.test_documents import build

scaling = build.build_scaling


@pytest.mark.parametrize(
    ("size", "width", "name"), [(224, 768, "vit_base_patch16_224"), (384, 384, "vit_small_patch16_224")]
)
def test_forward_flops(size, width, name):
    patches = (size // 16) ** 2
    tokens = patches + 1
    linear = 4 * width * width + 2 * width * 4 * width  # query, key, value, output; the two layers of the MLP
    attention = 2 * tokens * width  # scores, and what they weigh
    multiply_adds = patches * 16 * 16 * 3 * width + 12 * tokens * (linear + attention) + width * 1000
    assert scaling.forward_flops(name, size) == 2 * multiply_adds


def test_hours():
    runs = scaling.Runs(5, "ViT-Base", "CIFAR-100")
    forward = scaling.forward_flops("vit_base_patch16_224", 224)
    seconds = 48_000 * 150 * (forward + 2 * forward) / 100e12
    assert runs.hours == pytest.approx(seconds / 3600)
    assert scaling.total([runs, runs._replace(count=2)]) == pytest.approx(7 * seconds / 3600)


def test_the_runs_of_the_paper():
    counts = {name: sum(runs.count for runs in table) for name, table in scaling.PAPER.items()}
    assert counts["table1"] == 5 * 3 * 5
    assert counts["table2"] == 7 * 3
    assert counts["table3"] == 2 * 7
    assert counts["table4"] == 2 + 9
    assert counts["table6"] == 4 * 3
    assert counts["table7"] == 2 * 3 * 2
    assert counts["scratch"] == 2 * 5
    assert counts["inputs"] == 4
