"""Read CIFAR-100 as published.

Its files are pickles, and a pickle can run any code. torchvision first compares their checksums with the
published ones.
"""

from __future__ import annotations

from pathlib import Path

import torch
from torchvision.datasets import CIFAR100
from torchvision.datasets.utils import check_integrity

from loope.core.errors import LoopeError, require
from loope.lab.data.images.collection import Images
from loope.lab.data.images.readers import Memory


def read_cifar100(root: Path) -> Images:
    """Read `root/cifar-100-python` into memory with torchvision: 60,000 images of 32x32 take 184 MB.

    Raises:
        LoopeError: if a file is not the published one.
    """
    folder = root / CIFAR100.base_folder
    again = f"delete {folder} and download it again (download=True, --download)."
    files = [*CIFAR100.train_list, *CIFAR100.test_list, [CIFAR100.meta["filename"], CIFAR100.meta["md5"]]]
    try:
        wrong = [str(folder / name) for name, checksum in files if not check_integrity(folder / name, checksum)]
        require(
            not wrong,
            f"{', '.join(wrong)} must be as published, by MD5, but is not, and is not read, as a pickle can run code; "
            f"{again}",
        )
        parts = {"train": CIFAR100(root, train=True), "test": CIFAR100(root, train=False)}
    except (OSError, RuntimeError) as error:
        raise LoopeError(f"Cannot read {folder}: {error}; {again}") from error
    pixels = torch.cat([torch.from_numpy(part.data) for part in parts.values()]).contiguous()
    names = [f"{name}/{number}" for name, part in parts.items() for number in range(len(part))]
    labels = [label for part in parts.values() for label in part.targets]
    official = [name for name, part in parts.items() for _ in part.targets]
    return Images(Memory(names, pixels), labels, official, parts["train"].classes)
