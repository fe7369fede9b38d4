"""Crash-safe checkpoints: folders of safetensors and JSON that are either complete or absent.

A checkpoint is written under a temporary name that starts with a dot, synced to disk, then renamed. Its state.json
holds the SHA-256 of every file and of itself. Nothing in it can run code. Files of other programs are never removed.
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
FILES = {STATE, WEIGHTS, "optimizer.safetensors"}  # every file of a checkpoint
LAST = 2  # checkpoints kept besides the best
NAME = re.compile(r"epoch-(\d+)-step-(\d+)")  # as returned by `State.name`
TEMPORARY = re.compile(rf"\.{NAME.pattern}\.[0-9a-f]{{16}}\.(part|gone)")  # half written, or half removed
CHUNK = 1 << 20


class Saved(NamedTuple):
    """A checkpoint that was read and verified.

    Attributes:
        name: name of its folder.
        state: contents of state.json.
        tensors: tensors of each file, by file name without suffix.
    """

    name: str
    state: dict[str, Any]
    tensors: dict[str, dict[str, Tensor]]


class DamageError(Exception):
    """A checkpoint does not match what was written."""


class Checkpoints:
    """Read and write the checkpoints of a run; other files in the folder are left alone.

    Args:
        folder: created when the first checkpoint is written.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def write(self, name: str, state: Mapping[str, Any], tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Write a checkpoint and remove old ones: the last two valid ones, and the best of each, are kept.

        Args:
            name: as returned by `State.name`, later than all valid checkpoints.
            state: contents of state.json; `state["best"]["checkpoint"]`, unless `best` is None, names the best one.
            tensors: "weights" and "optimizer", one safetensors file each.

        Raises:
            LoopeError: if it cannot be written; earlier checkpoints are kept.
        """
        files = {f"{file}.safetensors": save(_copies(content)) for file, content in tensors.items()}
        digests = {file: hashlib.sha256(data).hexdigest() for file, data in files.items()}
        shown = {**state, "name": name, "sha256": digests}
        files[STATE] = json.dumps({"sha256": _digest(shown), "state": shown}, indent=1).encode()
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
        except OSError as error:  # the new checkpoint exists: no reason to stop
            warnings.warn(
                f"Old checkpoints in {self.folder} could not be removed: {error}.", LoopeWarning, stacklevel=2
            )

    def newest(self) -> Saved | None:
        """Return the newest valid checkpoint, or None; warn about each damaged one that is skipped."""
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
            DamageError: if it does not match what was written.
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
        """Return whether a checkpoint exists and is valid; its files are read in chunks."""
        try:
            for file, expected in self._state(name)["sha256"].items():
                _check(self.folder / name / file, expected)
        except DamageError:
            return False
        return True

    def clean(self) -> None:
        """Remove leftovers of interrupted writes and removals."""
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
        """Remove valid checkpoints older than the last `LAST`, unless one of these names them as its best.

        Args:
            written: the checkpoint just written, known to be valid without reading it.
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
        """Rename, then remove, so that a partial removal never looks like a checkpoint. Foreign files are kept."""
        gone = (self.folder / name).rename(self._temporary(name, "gone"))
        if _is_ours(gone):
            shutil.rmtree(gone)

    def _temporary(self, name: str, kind: str) -> Path:
        return self.folder / f".{name}.{secrets.token_hex(8)}.{kind}"

    def _names(self) -> list[str]:
        """Return the names of all checkpoints, valid or not, oldest first."""
        found = (path.name for path in self.folder.glob("*") if NAME.fullmatch(path.name) and path.is_dir())
        return sorted(found, key=_age)

    def _state(self, name: str) -> dict[str, Any]:
        """Return the verified contents of state.json."""
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
    """Return epoch and step, the sort key of checkpoints."""
    match = NAME.fullmatch(name)
    return tuple(map(int, match.groups())) if match else ()


def _is_ours(path: Path) -> bool:
    """Return whether this is a real folder that holds only files of a checkpoint."""
    if path.is_symlink() or not path.is_dir():
        return False
    return all(each.name in FILES and each.is_file() and not each.is_symlink() for each in path.iterdir())


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors to the CPU, each with its own memory, as safetensors requires."""
    return {key: value.detach().to("cpu", copy=True).contiguous() for key, value in tensors.items()}


def _chunks(path: Path) -> Iterator[bytes]:
    """Yield the bytes of a file in chunks."""
    try:
        if not path.is_file():  # reading a pipe would block
            raise DamageError(f"there is no file {path.name}")
        with path.open("rb") as file:
            while chunk := file.read(CHUNK):
                yield chunk
    except OSError as error:
        raise DamageError(f"{path.name}: {error.strerror}") from None


def _check(path: Path, expected: str) -> None:
    """Check the SHA-256 of a file."""
    found = hashlib.sha256()
    for chunk in _chunks(path):
        found.update(chunk)
    if found.hexdigest() != expected:
        raise DamageError(f"{path.name} has changed")


def _digest(state: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(state, sort_keys=True).encode()).hexdigest()
