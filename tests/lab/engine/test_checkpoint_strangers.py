"""Damage and things of others among checkpoints, in any combination: nothing sound is lost, nothing foreign removed."""

import itertools
import os
import shutil
import tempfile
import warnings
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from loope import LoopeWarning
from loope.lab.engine import checkpoint, state
from loope.lab.engine.checkpoint import NAME, Checkpoints, DamageError
from loope.lab.engine.state import State
from tests.lab.engine.training_helpers import fit

TOKEN = "0123456789abcdef"  # noqa: S105


@pytest.fixture(scope="module", autouse=True)
def no_waiting():
    """Hundreds of writes: what reaches the disk, and when, is tested elsewhere."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda file: None)
        yield


def name_of(number: int) -> str:
    return State({}, epoch=number // 4, step=number % 4).name


def number_of(name: str) -> int:
    epoch, step = map(int, NAME.fullmatch(name).groups())
    return 4 * epoch + step


def write(checkpoints: Checkpoints, number: int, best: int | None) -> None:
    tensors = {"weights": {"w": torch.full((9,), float(number))}, "optimizer": {"m": torch.ones(3)}}
    best_so_far = None if best is None else {"checkpoint": name_of(best)}
    checkpoints.write(name_of(number), {"number": number, "best": best_so_far}, tensors)


def sound(folder: Path) -> dict[str, int]:
    """The numbers of sound checkpoints by name, found by reading each in full."""
    found = {}
    for path in folder.glob("epoch-*"):
        try:
            found[path.name] = Checkpoints(folder).read(path.name).state["number"]
        except DamageError:
            continue
    return found


# --- what can happen to a checkpoint


def put(path: Path, data: bytes) -> None:
    path.unlink(missing_ok=True)
    path.write_bytes(data)


def flip(folder: Path) -> None:
    data = bytearray((folder / "weights.safetensors").read_bytes())
    data[-1] ^= 1
    put(folder / "weights.safetensors", bytes(data))


def pipe(folder: Path) -> None:
    (folder / "optimizer.safetensors").unlink()
    os.mkfifo(folder / "optimizer.safetensors")


DAMAGE = {
    "empty state": lambda folder: put(folder / "state.json", b""),
    "nested state": lambda folder: put(folder / "state.json", b"[" * 100_000),
    "state of nothing": lambda folder: put(folder / "state.json", b'{"state": {"sha256": 1}, "sha256": ""}'),
    "no state": lambda folder: (folder / "state.json").unlink(),
    "a bit": flip,
    "cut off": lambda folder: put(folder / "weights.safetensors", b"1234"),
    "a file lost": lambda folder: (folder / "optimizer.safetensors").unlink(),
    "a pipe": pipe,
    "all lost": lambda folder: [(folder / name).unlink() for name in checkpoint.FILES],
}


# --- what others may put there, outside the run's own names or among them


NUMBERS = itertools.count()


def note(path: Path) -> None:
    path.mkdir(parents=True, exist_ok=True)
    (path / f"note-{next(NUMBERS)}").write_text("mine")


def folders(folder: Path) -> list[Path]:
    """Of checkpoints, sound or not."""
    return sorted(
        path for path in folder.glob("epoch-*") if NAME.fullmatch(path.name) and not path.is_symlink() and path.is_dir()
    )


def copy(folder: Path, name: str) -> None:
    """Of the newest one, be it damaged."""
    for source in folders(folder)[-1:]:
        if not (folder / name).exists() and not any(path.is_fifo() for path in source.iterdir()):
            shutil.copytree(source, folder / name)


def link(folder: Path) -> None:
    note(folder.parent / "elsewhere")
    if not os.path.lexists(folder / name_of(399)):
        (folder / name_of(399)).symlink_to(folder.parent / "elsewhere")


STRANGERS = {
    "lost+found": lambda folder: (folder / "lost+found").mkdir(exist_ok=True),
    "last by name": lambda folder: note(folder / "zzz"),
    "dot folder": lambda folder: note(folder / ".mine"),
    "dot folder like ours": lambda folder: note(folder / f".{name_of(2)}.part"),
    "notes in what looks half removed": lambda folder: note(folder / f".{name_of(2)}.{TOKEN}.gone"),
    "file": lambda folder: (folder / "notes.txt").write_text("mine"),
    "file called like ours": lambda folder: (folder / name_of(398)).write_text("mine"),
    "link called like ours": link,
    "backup": lambda folder: copy(folder, f"{name_of(1)}.bak"),
    "backup that looks newest": lambda folder: copy(folder, name_of(397)),
    "notes in a checkpoint": lambda folder: [
        note(path) for path in sorted(folder.glob("epoch-*"))[:1] if path.is_dir()
    ],
}

ACTIONS = st.one_of(
    st.tuples(st.just("write"), st.booleans()),
    st.tuples(st.just("damage"), st.sampled_from(sorted(DAMAGE)), st.integers(0, 3)),
    st.tuples(st.just("stranger"), st.sampled_from(sorted(STRANGERS))),
    st.just(("resume",)),
)


def foreign(folder: Path) -> set[tuple[str, bytes]]:
    """All that is no checkpoint: notes, wherever they are now, and everything else that is not called like one."""
    found = set()
    for path in folder.parent.rglob("*"):
        below = path.relative_to(folder.parent)
        name = below.parts[1] if len(below.parts) > 1 else ""
        if path.name.startswith("note-"):
            found.add((path.name, path.read_bytes()))
        elif path.is_symlink() or not NAME.fullmatch(name):
            found.add((str(below), path.read_bytes() if path.is_file() else b""))
    return found


@settings(max_examples=150, deadline=None)
@given(st.lists(ACTIONS, min_size=1, max_size=25))
def test_nothing_sound_is_lost_and_nothing_foreign_removed(actions):
    with tempfile.TemporaryDirectory() as root, warnings.catch_warnings():
        warnings.simplefilter("ignore", LoopeWarning)
        folder = Path(root, "run", "checkpoints")
        checkpoints, number, best = Checkpoints(folder), 0, None
        for what, *details in actions:
            if what == "damage":
                kind, place = details
                there = sorted(sound(folder))
                if there:
                    DAMAGE[kind](folder / there[place % len(there)])
                continue
            if what == "stranger":
                folder.mkdir(parents=True, exist_ok=True)
                STRANGERS[details[0]](folder)
                continue
            before, others = sound(folder), foreign(folder)
            there = {path.name for path in folder.glob("*")}
            if what == "resume":
                checkpoints = Checkpoints(folder)
                checkpoints.clean()
                saved = checkpoints.newest()
                assert (saved.state["number"] if saved else None) == max(before.values(), default=None)
                assert sound(folder) == before
                number = saved.state["number"] if saved else 0
                best = number_of(saved.state["best"]["checkpoint"]) if saved and saved.state["best"] else None
            else:
                number += 1
                best = number if details[0] else best
                write(checkpoints, number, best)
                now = sound(folder)
                assert now[name_of(number)] == number
                gone = there - {path.name for path in folder.glob("*")}
                for name in gone:  # sound, and older than two sound ones
                    assert sum(each > before[name] for each in now.values()) >= 2
                assert len(now) >= min(2, len(before | now))
                last_two = sorted(now.values())[-2:]
                for each in last_two:
                    named = Checkpoints(folder).read(name_of(each)).state["best"]
                    assert named is None or named["checkpoint"] in now or named["checkpoint"] not in before
            assert foreign(folder) >= others


def test_the_two_newest_are_damaged(tmp_path):
    """As it was found: only the damaged ones were left after the next write."""
    checkpoints = Checkpoints(tmp_path)
    for number in range(1, 5):
        write(checkpoints, number, best=1)
    for number in (3, 4):
        put(tmp_path / name_of(number) / "state.json", b"")
    with pytest.warns(LoopeWarning, match="damaged") as warned:
        assert checkpoints.newest().state["number"] == 1
    assert len(warned) == 2
    write(checkpoints, 2, best=1)
    assert set(sound(tmp_path).values()) == {1, 2}
    write(checkpoints, 3, best=1)
    write(checkpoints, 4, best=1)
    assert set(sound(tmp_path).values()) == {1, 3, 4}


def test_strangers_give_no_warning(tmp_path):
    checkpoints = Checkpoints(tmp_path)
    write(checkpoints, 1, best=None)
    for name in ("lost+found", "old", ".mine"):
        (tmp_path / name).mkdir()
    for number in (2, 3, 4):
        write(checkpoints, number, best=None)
    checkpoints.clean()
    assert checkpoints.newest().state["number"] == 4
    assert {path.name for path in tmp_path.iterdir()} == {"lost+found", "old", ".mine", name_of(3), name_of(4)}


def test_a_checkpoint_of_an_earlier_version_is_read(tmp_path):
    """Without its own name in its state."""
    checkpoints = Checkpoints(tmp_path)
    write(checkpoints, 1, best=None)
    path = tmp_path / name_of(1) / "state.json"
    state = checkpoint.json.loads(path.read_bytes())["state"]
    del state["name"]
    path.write_text(checkpoint.json.dumps({"sha256": checkpoint._digest(state), "state": state}))
    assert checkpoints.newest().state["number"] == 1


def test_names_are_read_as_they_are_given():
    early, late = State({}, epoch=99_999, step=5), State({}, epoch=100_000, step=10_000_000)
    assert checkpoint._age(early.name) == (99_999, 5)
    assert checkpoint._age(early.name) < checkpoint._age(late.name)


def test_old_ones_that_cannot_be_removed_do_not_stop_the_run(tmp_path, monkeypatch):
    checkpoints = Checkpoints(tmp_path)
    write(checkpoints, 1, best=None)
    write(checkpoints, 2, best=None)

    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr(checkpoint.shutil, "rmtree", refuse)
    with pytest.warns(LoopeWarning, match="could not be removed"):
        write(checkpoints, 3, best=None)
    assert checkpoints.newest().state["number"] == 3


@pytest.mark.parametrize("harm", ["damaged", "gone"])
def test_best_weights_that_are_named_exist(tmp_path, monkeypatch, harm):
    monkeypatch.setattr(state, "_rank", lambda score: -score)  # the first epoch is the best
    first = fit(tmp_path)
    assert (first.best_epoch, first.best_weights.is_file()) == (1, True)
    if harm == "damaged":
        put(first.best_weights, b"nothing")
    else:
        shutil.rmtree(first.best_weights.parent)
    with pytest.warns(LoopeWarning, match=first.best_weights.parent.name):
        again = fit(tmp_path)
    assert again.best_weights is None
    assert (again.best, again.best_epoch) == (first.best, first.best_epoch)
