"""Checkpoints: all there or not at all, damage found, the right ones kept, a full disk survived."""

import errno
import json
import resource
import shutil

import pytest
import torch

from loope import LoopeError, LoopeWarning
from loope.lab.engine import checkpoint
from loope.lab.engine.checkpoint import Checkpoints
from loope.lab.engine.state import State
from tests.lab.engine.processes import CONTEXT


def step(number: int) -> str:
    return State({}, step=number).name


def write(checkpoints: Checkpoints, number: int, best: int | None = None) -> None:
    tensors = {"weights": {"w": torch.full((100,), float(number)), "n": torch.tensor(number)}, "optimizer": {}}
    state = {"number": number, "best": None if best is None else {"checkpoint": step(best)}}
    checkpoints.write(step(number), state, tensors)


@pytest.fixture
def three(tmp_path) -> Checkpoints:
    """Steps 1 to 3 were written; 2 and 3 are kept."""
    checkpoints = Checkpoints(tmp_path / "run" / "checkpoints")
    for number in (1, 2, 3):
        write(checkpoints, number)
    return checkpoints


def names(checkpoints: Checkpoints) -> list[str]:
    return sorted(path.name for path in checkpoints.folder.iterdir())


def test_read_what_was_written(three):
    saved = three.newest()
    assert (saved.name, saved.state) == (step(3), {"number": 3, "best": None})
    assert torch.equal(saved.tensors["weights"]["w"], torch.full((100,), 3.0))
    assert saved.tensors["weights"]["n"].dtype == torch.int64
    assert saved.tensors["optimizer"] == {}
    assert Checkpoints(three.folder / "none").newest() is None


def test_shared_and_sliced_tensors(tmp_path):
    """Tied weights and views, which safetensors by itself refuses."""
    checkpoints, tied = Checkpoints(tmp_path), torch.arange(6.0).view(2, 3)
    checkpoints.write(
        step(1), {"best": None}, {"weights": {"one": tied, "other": tied, "turned": tied.T, "row": tied[0]}}
    )
    weights = checkpoints.newest().tensors["weights"]
    assert torch.equal(weights["one"], tied)
    assert torch.equal(weights["other"], tied)
    assert torch.equal(weights["turned"], tied.T)
    assert torch.equal(weights["row"], tied[0])


@pytest.mark.parametrize(
    ("bests", "kept"),
    [
        ([None, None, None, None], [3, 4]),
        ([1, 1, 1, 1], [1, 3, 4]),
        ([1, 2, 2, 2], [2, 3, 4]),
        ([1, 2, 3, 4], [3, 4]),
        ([1, 1, 1, 4], [1, 3, 4]),  # 3 may be needed yet, and its best with it
    ],
)
def test_the_last_two_and_their_best_are_kept(tmp_path, bests, kept):
    checkpoints = Checkpoints(tmp_path / "c")
    for number, best in enumerate(bests, start=1):
        write(checkpoints, number, best)
    assert names(checkpoints) == list(map(step, kept))


def truncate(folder):
    path = folder / "weights.safetensors"
    path.write_bytes(path.read_bytes()[:-1])


def flip(folder):
    path = folder / "weights.safetensors"
    data = bytearray(path.read_bytes())
    data[-7] ^= 1  # one bit of one number
    path.write_bytes(data)


def alter(folder):
    path = folder / "state.json"
    content = json.loads(path.read_text())
    content["state"]["number"] = 4
    path.write_text(json.dumps(content))


def empty(folder):
    (folder / "state.json").write_text("")


def swap(folder):
    shutil.copy(folder.with_name(step(2)) / "weights.safetensors", folder)


def lose(folder):
    (folder / "optimizer.safetensors").unlink()


def nonsense(folder):
    (folder / "state.json").write_text("[1]")


@pytest.mark.parametrize("damage", [truncate, flip, alter, empty, swap, lose, nonsense])
def test_damage_is_found_and_the_one_before_used(three, damage):
    damage(three.folder / step(3))
    with pytest.warns(LoopeWarning, match=rf"{step(3)} is damaged \(.*\); going on from the one before it"):
        assert three.newest().name == step(2)
    write(three, 3)  # as a run that goes on from 2 will
    assert three.newest().state["number"] == 3


def test_all_damaged(three):
    for name in names(three):
        flip(three.folder / name)
    with pytest.warns(LoopeWarning) as warned:
        assert three.newest() is None
    assert len(warned) == 2


def test_leftovers_are_removed(three):
    token = "0123456789abcdef"  # noqa: S105
    (three.folder / f".{step(4)}.{token}.part").mkdir()
    (three.folder / f".{step(4)}.{token}.part" / "weights.safetensors").write_bytes(b"half")
    (three.folder / f".{step(1)}.{token}.gone").mkdir()
    assert three.newest().name == step(3)
    three.clean()
    assert names(three) == [step(2), step(3)]


@pytest.mark.parametrize("fails", [1, 2, 3])
def test_full_disk(three, monkeypatch, fails):
    """At each of the three files."""
    before = {path: path.read_bytes() for path in three.folder.rglob("*.*") if path.is_file()}
    calls, real = [], checkpoint.write_new

    def no_room(path, data):
        calls.append(path)
        if len(calls) == fails:
            path.write_bytes(data[:3])
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, data)

    monkeypatch.setattr(checkpoint, "write_new", no_room)
    with pytest.raises(
        LoopeError, match=rf"{step(4)}, 0\.0 MB, could not be written: No space left on device\. Earlier"
    ):
        write(three, 4)
    assert {path: path.read_bytes() for path in three.folder.rglob("*.*") if path.is_file()} == before
    assert names(three) == [step(2), step(3)]


def _write_large(pipe, folder):
    resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))  # the system's own refusal of larger files
    checkpoints = Checkpoints(folder)
    write(checkpoints, 1)
    try:
        checkpoints.write(step(2), {"best": None}, {"weights": {"w": torch.zeros(100_000)}})
    except LoopeError as error:
        pipe.send((str(error), names(checkpoints), checkpoints.newest().name))


def test_real_refusal_of_the_system(tmp_path):
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=_write_large, args=(theirs, tmp_path))
    process.start()
    theirs.close()
    message, left, newest = ours.recv()
    process.join()
    assert f"{step(2)}, 0.4 MB, could not be written: File too large" in message
    assert (left, newest) == ([step(1)], step(1))


def test_everything_is_on_disk_before_the_rename(three, monkeypatch):
    """Each file, then their folder, is synced; then the rename; then the folder it is in."""
    done, sync, replace = [], checkpoint.os.fsync, checkpoint.os.replace

    def note_sync(file):
        done.append(checkpoint.os.readlink(f"/proc/self/fd/{file}").rpartition("/")[2])
        sync(file)

    def note_replace(old, new):
        done.append("rename")
        replace(old, new)

    monkeypatch.setattr(checkpoint.os, "fsync", note_sync)
    monkeypatch.setattr(checkpoint.os, "replace", note_replace)
    write(three, 4)
    files = ["weights.safetensors", "optimizer.safetensors", "state.json"]
    part = done.pop(3)
    assert part.startswith(f".{step(4)}.")
    assert done == [*files, "rename", "checkpoints"]
