"""Checkpoints that survive a crash at any moment: folders of safetensors and JSON, all there or not at all.

A checkpoint is written under a name that starts with a dot, forced to disk, and renamed. Its state.json has the SHA-256
of every file and of itself. Nothing in it can run code.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from torch import Tensor

from loope.core.errors import LoopeError, LoopeWarning

STATE = "state.json"
LAST = 2  # how many are kept besides the best


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
    """The checkpoints of a run, in `folder`; their names sort by age.

    Args:
        folder: made when the first one is written.
    """

    def __init__(self, folder: Path):
        self.folder = folder

    def write(self, name: str, state: Mapping[str, Any], tensors: Mapping[str, Mapping[str, Tensor]]) -> None:
        """Write a checkpoint and drop those no longer needed: kept are the last two and the best of each.

        Args:
            name: sorts after all earlier ones.
            state: goes to state.json. Its entry `best`, if not None, names the best so far in its entry `checkpoint`.
            tensors: goes to a safetensors file for each key.

        Raises:
            LoopeError: if the disk does not take it; earlier checkpoints stay as they are.
        """
        from safetensors.torch import save

        files = {f"{file}.safetensors": save(_copies(content)) for file, content in tensors.items()}
        told = {**state, "sha256": {file: _sha256(data) for file, data in files.items()}}
        files[STATE] = json.dumps({"sha256": _sha256(_canonical(told)), "state": told}, indent=1).encode()
        size = sum(map(len, files.values()))
        try:
            self._publish(name, files)
        except OSError as error:
            raise LoopeError(
                f"The checkpoint {self.folder / name}, {size / 1e6:.1f} MB, could not be written: "
                f"{error.strerror or error}. Earlier checkpoints are as they were; make room and run the same command "
                "again to go on."
            ) from error
        self._prune()

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
        from safetensors.torch import load

        state = self._state(name)
        tensors = {}
        for file, expected in state.pop("sha256").items():
            data = _bytes(self.folder / name / file)
            if _sha256(data) != expected:
                raise DamageError(f"{file} has changed")
            tensors[Path(file).stem] = load(data)
        return Saved(name, state, tensors)

    def clean(self) -> None:
        """Remove what an interrupted write or removal left behind."""
        for path in self._all():
            if path.name.startswith("."):
                shutil.rmtree(path)

    def _publish(self, name: str, files: Mapping[str, bytes]) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        part = self.folder / f".{name}.part"
        try:
            part.mkdir()
            for file, data in files.items():
                _write(part / file, data)
            _sync_folder(part)
            self._remove(name)  # only a damaged one can have this name
            os.replace(part, self.folder / name)
            _sync_folder(self.folder)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise

    def _prune(self) -> None:
        last = self._names()[-LAST:]
        keep = set(last)
        for name in last:
            try:
                keep.add((self._state(name)["best"] or {"checkpoint": name})["checkpoint"])
            except DamageError:  # which is said when it is to be read
                continue
        for name in self._names():
            if name not in keep:
                self._remove(name)

    def _remove(self, name: str) -> None:
        path = self.folder / name
        if path.exists():  # renamed first: what is half removed must not look like a checkpoint
            shutil.rmtree(path.rename(self.folder / f".{name}.gone"))

    def _names(self) -> list[str]:
        return sorted(path.name for path in self._all() if not path.name.startswith("."))

    def _all(self) -> Iterator[Path]:
        return (path for path in self.folder.glob("*") if path.is_dir())

    def _state(self, name: str) -> dict[str, Any]:
        try:
            content = json.loads(_bytes(self.folder / name / STATE))
            state, expected = content["state"], content["sha256"]
        except (ValueError, KeyError, TypeError):
            raise DamageError(f"{STATE} is no longer JSON") from None
        if _sha256(_canonical(state)) != expected:
            raise DamageError(f"{STATE} has changed")
        return dict(state)


def _copies(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """On the CPU, each with memory of its own, as safetensors wants them."""
    return {key: value.detach().to("cpu", copy=True).contiguous() for key, value in tensors.items()}


def _write(path: Path, data: bytes) -> None:
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(path: Path) -> None:
    """Force a folder's own entries to disk: without it a rename may be lost with the power."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DamageError(f"{path.name}: {error.strerror}") from None


def _canonical(state: Mapping[str, Any]) -> bytes:
    return json.dumps(state, sort_keys=True).encode()


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
