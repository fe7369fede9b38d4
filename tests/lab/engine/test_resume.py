"""Killed at any moment, a run goes on to the same bytes. Real processes, real SIGKILL."""

import itertools
from pathlib import Path

import pytest

from tests.lab.engine.processes import kill, run

FILES = ("weights.safetensors", "optimizer.safetensors")


def last_files(folder: Path) -> dict[str, bytes]:
    newest = max((folder / "checkpoints").iterdir())
    return {name: (newest / name).read_bytes() for name in FILES}


def timeless(result: dict) -> dict:
    """A result without what a clock or a folder's name decides."""
    kept = {key: result[key] for key in ("epochs", "steps", "metrics", "best", "best_epoch")}
    kept["history"] = [{key: value for key, value in entry.items() if key != "seconds"} for entry in result["history"]]
    return kept | {"best_weights": Path(result["best_weights"]).read_bytes()}


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """Results and last files of undisturbed runs, by options; each is made once."""
    made = {}

    def get(**options):
        key = repr(sorted(options.items()))
        if key not in made:
            folder = tmp_path_factory.mktemp("whole")
            made[key] = (run(folder, **options), last_files(folder))
        return made[key]

    return get


# Nine batches an epoch: 6 to train, 3 to evaluate; a checkpoint after steps 2 and 4, and after the evaluation.
# Where the processes are killed, and how many batches are then left to draw: what was saved is not done again.
KILLS = [
    ([("batch", 1)], 27),  # before anything was saved
    ([("batch", 4), ("batch", 4), ("batch", 4), ("batch", 8)], 16),  # again and again, between checkpoints
    ([("batch", 8), ("batch", 12)], 14),  # in an evaluation
    ([("write", 1), ("write", 2), ("write", 6)], 25),  # half of a file, in the first checkpoint and the second
    ([("rename", 1), ("rename", 2)], 25),
    ([("renamed", 2), ("renamed", 4)], 18),
    ([("remove", 4), ("remove", 3)], 0),  # an old checkpoint is half removed; the second time the last one exists
]


@pytest.mark.parametrize(("kills", "left"), KILLS)
def test_same_bytes_after_kill(kills, left, uninterrupted, tmp_path):
    for place, number in kills:
        kill(tmp_path, place, number)
    result, files = uninterrupted()
    again = run(tmp_path)
    assert timeless(again) == timeless(result)
    assert last_files(tmp_path) == files
    assert (result["drawn"], again["drawn"]) == (27, left)
    assert not list((tmp_path / "checkpoints").glob(".*")), "leftovers of killed writes"


VARIANTS = [
    {"accumulate": 2, "warmup": 0.75},
    {"precision": "bfloat16", "optimizer": "adam"},
    {"weight_decay": 0.1, "layer_decay": 0.7, "clip": None},
]


@pytest.mark.parametrize("options", VARIANTS, ids=str)
def test_same_bytes_with_other_recipes(options, uninterrupted, tmp_path):
    for place, number in [("batch", 5), ("write", 5), ("batch", 7)]:
        kill(tmp_path, place, number, **options)
    result, files = uninterrupted(**options)
    assert timeless(run(tmp_path, **options)) == timeless(result)
    assert last_files(tmp_path) == files


def test_recipes_matter(uninterrupted):
    """The runs compared above differ from each other: equal bytes mean something."""
    found = [uninterrupted(**options) for options in [{}, *VARIANTS]]
    for (one, files), (other, others) in itertools.combinations(found, 2):
        assert one["history"][-1]["loss"] != other["history"][-1]["loss"]
        assert files != others
