"""Checkpoints that survive a crash at any moment: folders of safetensors and JSON, all there or not at all.

A checkpoint is written under a name that starts with a dot, forced to disk, and renamed. Its state.json has the SHA-256
of every file and of itself. Nothing in it can run code. What others put beside or into checkpoints is never removed.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from loope.core.errors import LoopeError, LoopeWarning
from loope.core.files import make_folder, sync_folder, write_new

STATE, WEIGHTS = "state.json", "weights.safetensors"
FILES = {STATE, WEIGHTS, "optimizer.safetensors"}  # all that a checkpoint has
LAST = 2  # how many are kept besides the best
NAME = re.compile(r"epoch-(\d+)-step-(\d+)")  # of a checkpoint, as `State.name` gives it
TEMPORARY = re.compile(rf"\.{NAME.pattern}\.[0-9a-f]{{16}}\.(part|gone)")  # half written, or half removed
CHUNK = 1 << 20


class Saved(NamedTuple):
    """A checkpoint that was read and found sound.

    Attributes:
        name: of its folder.
        state: what state.json holds.
        tensors: the tensors of each file, by the file's name without its ending.
    """

    name: str
    state: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]]


class DamageError(Exception):
    """A checkpoint that is not what was written."""


class Checkpoints:
    """The checkpoints of a run, in `folder`; other things there are left alone.

    Args:
        folder: made when the first one is written.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def write(self, name: str, state: Mapping[str, Any], tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Write a checkpoint and drop those no longer needed: kept are the last two sound ones and the best of each.

        Args:
            name: as `State.name` gives it, later than all sound ones.
            state: goes to state.json. Its entry `best`, if not None, names the best so far in its entry `checkpoint`.
            tensors: "weights" and "optimizer", a safetensors file each.

        Raises:
            LoopeError: if the disk does not take it; earlier checkpoints stay as they are.
        """
        files = {f"{file}.safetensors": save(_copies(content)) for file, content in tensors.items()}
        digests = {file: hashlib.sha256(data).hexdigest() for file, data in files.items()}
        told = {**state, "name": name, "sha256": digests}
        files[STATE] = json.dumps({"sha256": _digest(told), "state": told}, indent=1).encode()
        size = sum(map(len, files.values()))
        try:
            self._publish(name, files)
        except OSError as error:
            raise LoopeError(
                f"The checkpoint {self.folder / name}, {size / 1e6:.1f} MB, could not be written: "
                f"{error.strerror or error}. Earlier checkpoints are as they were; make room and run the same command "
                "again to go on."
            ) from error
        try:
            self._prune(name)
        except OSError as error:  # the new one is there: no reason to stop
            warnings.warn(
                f"Old checkpoints in {self.folder} could not be removed: {error}.", LoopeWarning, stacklevel=2
            )

    def newest(self) -> Saved | None:
        """The newest sound checkpoint, or None; for each damaged one before it a `LoopeWarning`."""
        for name in reversed(self._names()):
            try:
                return self.read(name)
            except DamageError as damage:
                warnings.warn(
                    f"The checkpoint {self.folder / name} is damaged ({damage}); going on from the one before it.",
                    LoopeWarning,
                    stacklevel=2,
                )
        return None

    def read(self, name: str) -> Saved:
        """Read a checkpoint.

        Raises:
            DamageError: if it is not what was written.
        """
        state = self._state(name)
        tensors = {}
        for file, expected in state.pop("sha256").items():
            data = b"".join(_chunks(self.folder / name / file))
            if hashlib.sha256(data).hexdigest() != expected:
                raise DamageError(f"{file} has changed")
            try:
                tensors[Path(file).stem] = load(data)
            except SafetensorError as error:
                raise DamageError(f"{file}: {error}") from None
        return Saved(name, state, tensors)

    def is_sound(self, name: str) -> bool:
        """Whether a checkpoint is there and what was written; its files are read, but not kept in memory."""
        try:
            for file, expected in self._state(name)["sha256"].items():
                _check(self.folder / name / file, expected)
        except DamageError:
            return False
        return True

    def clean(self) -> None:
        """Remove what an interrupted write or removal left behind."""
        for path in self.folder.glob(".*"):
            if TEMPORARY.fullmatch(path.name) and _is_ours(path):
                shutil.rmtree(path, ignore_errors=True)

    def _publish(self, name: str, files: Mapping[str, bytes]) -> None:
        make_folder(self.folder)
        part = self._temporary(name, "part")
        part.mkdir()
        try:
            for file, data in files.items():
                write_new(part / file, data)
            sync_folder(part)
            if os.path.lexists(self.folder / name):
                self._remove(name)  # only a damaged one can have this name
            os.replace(part, self.folder / name)
            sync_folder(self.folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise

    def _prune(self, written: str) -> None:
        """Remove what is sound and older than `LAST` sound ones, unless it is the best of one of these.

        Args:
            written: a checkpoint that need not be read to know that it is sound.
        """
        sound, needed = 0, set()
        for name in reversed(self._names()):
            if sound < LAST and (name == written or self.is_sound(name)):
                sound += 1
                best = self._state(name)["best"]
                needed.add(best["checkpoint"] if best else name)
            elif sound == LAST and name not in needed and _is_ours(self.folder / name) and self.is_sound(name):
                self._remove(name)

    def _remove(self, name: str) -> None:
        """Renamed first: what is half removed must not look like a checkpoint. Files of others stay, renamed."""
        gone = (self.folder / name).rename(self._temporary(name, "gone"))
        if _is_ours(gone):
            shutil.rmtree(gone)

    def _temporary(self, name: str, kind: str) -> Path:
        return self.folder / f".{name}.{secrets.token_hex(8)}.{kind}"

    def _names(self) -> list[str]:
        """Of all checkpoints, sound or not, by age."""
        found = (path.name for path in self.folder.glob("*") if NAME.fullmatch(path.name) and path.is_dir())
        return sorted(found, key=_age)

    def _state(self, name: str) -> dict[str, Any]:
        """What state.json holds, if it is what was written."""
        try:
            content = json.loads(b"".join(_chunks(self.folder / name / STATE)))
            state, expected = content["state"], content["sha256"]
            files = state["sha256"].keys()
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
            raise DamageError(f"{STATE} is no longer JSON") from None
        if _digest(state) != expected:
            raise DamageError(f"{STATE} has changed")
        if state.pop("name", name) != name:  # earlier versions wrote none
            raise DamageError("it is a copy of another one")
        if not files <= FILES:
            raise DamageError(f"{STATE} names other files")
        return dict(state)


def _age(name: str) -> tuple[int, ...]:
    """Epoch and step: checkpoints are sorted by them."""
    match = NAME.fullmatch(name)
    return tuple(map(int, match.groups())) if match else ()


def _is_ours(path: Path) -> bool:
    """Whether it is a folder, not a link to one, that has nothing in it but the files of a checkpoint."""
    if path.is_symlink() or not path.is_dir():
        return False
    return all(each.name in FILES and each.is_file() and not each.is_symlink() for each in path.iterdir())


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On the CPU, each with memory of its own, as safetensors wants them."""
    return {key: value.detach().to("cpu", copy=True).contiguous() for key, value in tensors.items()}


def _chunks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, some at a time."""
    try:
        if not path.is_file():  # a pipe would keep us waiting
            raise DamageError(f"there is no file {path.name}")
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except OSError as error:
        raise DamageError(f"{path.name}: {error.strerror}") from None


def _check(path: Path, expected: str) -> None:
    """Compare a file's SHA-256."""
    found = hashlib.sha256()
    for chunk in _chunks(path):
        found.update(chunk)
    if found.hexdigest() != expected:
        raise DamageError(f"{path.name} has changed")


def _digest(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
