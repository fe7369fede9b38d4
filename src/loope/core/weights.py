"""Safetensors files, read tensor by tensor on demand; nothing is unpickled."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loope.core.errors import LoopeError, require
from loope.core.packages import require_packages

if TYPE_CHECKING:
    from torch import Tensor


class WeightsFile(Mapping[str, "Tensor"]):
    """A `.safetensors` file as a mapping that reads each tensor on access.

    Args:
        path: the file.

    Attributes:
        metadata: the file's metadata.

    Raises:
        LoopeError: if the file is missing, damaged, or in a format that can run code.
    """

    def __init__(self, path: str | Path):
        self.path = Path(path)
        require(
            self.path.suffix == ".safetensors",
            f"A checkpoint must be a .safetensors file, got {self.path.name!r}: others may run code when opened. "
            "Convert it with safetensors.torch.save_file(torch.load(path, weights_only=True), new_path).",
        )
        require(self.path.is_file(), f"There is no file {str(path)!r}.")
        require_packages("Reading checkpoints", "models", "safetensors")
        from safetensors import SafetensorError, safe_open

        try:
            file: Any = safe_open(self.path, framework="pt")
            self._file, self._keys = file, list(file.keys())
            self.metadata: dict[str, str] = file.metadata() or {}
        except SafetensorError as error:
            raise LoopeError(f"{self.path.name!r} is no whole .safetensors file: {error}; fetch it again.") from None

    def __getitem__(self, name: str) -> Tensor:
        if name not in self._keys:
            raise KeyError(name)
        try:
            tensor: Tensor = self._file.get_tensor(name)
        except Exception as error:  # a dtype that torch does not have; the exception depends on the versions
            raise LoopeError(f"{name!r} in {self.path.name!r} cannot be read: {error}.") from None
        return tensor

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Return the shape of every tensor without reading it."""
        return {name: tuple(self._file.get_slice(name).get_shape()) for name in self._keys}

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __len__(self) -> int:
        return len(self._keys)
