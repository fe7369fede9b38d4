"""The estimate of GPU-hours, against pencil and paper, and against what the preset would run."""

import pytest

from loope.lab.experiments.table import get_table
from tests.docs.test_documents import build

scaling = build.build_scaling


@pytest.mark.parametrize(
    ("size", "width", "name"),
    [
        ((224, 224), 768, "vit_base_patch16_224"),
        ((384, 384), 384, "vit_small_patch16_224"),
        ((512, 1024), 768, "deit_base_patch16_224"),
    ],
)
def test_forward_flops(size, width, name):
    patches = size[0] // 16 * size[1] // 16
    tokens = patches + 1
    linear = 4 * width * width + 2 * width * 4 * width  # query, key, value, output; the two layers of the MLP
    attention = 2 * tokens * width  # scores, and what they weigh
    multiply_adds = patches * 16 * 16 * 3 * width + 12 * tokens * (linear + attention) + width * 1000
    assert scaling.forward_flops(name, size) == 2 * multiply_adds


def test_hours():
    run = get_table("table1").select("paper", "CIFAR-100 / ViT-Base | LOOPE")[0].run
    forward = scaling.forward_flops("vit_base_patch16_224", (224, 224))
    seconds = 48_000 * 150 * (forward + 2 * forward) / 100e12
    assert scaling.hours(run) == pytest.approx(seconds / 3600)
    assert scaling.total([run, run]) == pytest.approx(2 * seconds / 3600)


def test_every_run_of_the_preset_is_counted_once():
    tables = scaling.paper_runs()
    assert {"table5", "trend", "maps"}.isdisjoint(tables)  # they train nothing
    for name, runs in tables.items():
        assert {run.key for run in runs} == {entry.run.key for entry in get_table(name).entries("paper")}
    keys = [run.key for run in scaling.once(tables)]
    assert len(keys) == len(set(keys)) == len({run.key for runs in tables.values() for run in runs})


def test_runs_that_tables_share():
    tables = {name: {run.key for run in runs} for name, runs in scaling.paper_runs().items()}
    assert tables["alignment"] < tables["table4"]
    assert len(tables["table7"] & tables["table1"]) == 4  # ViT-Base and DeiT-Base at 224 pixels
    assert len(tables["table2"] & tables["table1"]) == 3 * 2  # Static and LOOPE on DeiT-Base
