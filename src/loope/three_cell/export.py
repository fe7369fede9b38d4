"""Export Three-Cell for use without loope: images with a table, or one .npz, and a data card.

Files are written atomically, and `export.json`, written first, describes the content of the folder. So an interrupted
export can be resumed, and a folder never mixes two datasets.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from loope.core.errors import LoopeError, one_of, require
from loope.core.files import write_atomic
from loope.three_cell.bits import BITS
from loope.three_cell.files import pixels, png, table, write_npz
from loope.three_cell.sampling import count_triples

if TYPE_CHECKING:
    from loope.three_cell.dataset import ThreeCell

FORMATS = ("png", "npz")
PLAN = "export.json"
PART = 500  # images rendered at once


def export(
    data: ThreeCell, folder: Path, file_format: str = "png", progress: Callable[[float], None] = lambda share: None
) -> Path:
    """Write a dataset to a folder, or resume an interrupted export of it.

    Args:
        data: the dataset.
        folder: the target, created if missing.
        file_format: "png" for `images/*.png` and `labels.csv`, "npz" for `three-cell.npz`.
        progress: called with the completed share, from 0 to 1.

    Returns:
        The data card, `README.md` in the folder.

    Raises:
        LoopeError: if the folder has other content, such as an export with another seed.
    """
    one_of("format", file_format, FORMATS)
    # "missing/.." resolves to an existing folder, though the system reports it missing; circular links raise below.
    folder = Path(os.path.realpath(folder))
    plan = describe(data, file_format)
    _claim(folder, plan)
    write = _write_png if file_format == "png" else _write_npz
    write(data, folder, progress)
    return write_atomic(folder / "README.md", card(data, plan))


def describe(data: ThreeCell, file_format: str) -> dict[str, Any]:
    """Return all settings that determine the content of an export, and a checksum of the cells."""
    return {
        "data": "three-cell",
        "format": file_format,
        "size": data.size,
        "samples": len(data),
        "grid": list(data.grid),
        "cell": data.cell,
        "seed": data.seed,
        "split": data.split,
        "sampler": data.sampler,
        "fractions": list(data.fractions),
        "share_configurations": data.share_configurations,
        "sha256": hashlib.sha256(data.cells.numpy().astype("<i8").tobytes()).hexdigest(),
    }


def card(data: ThreeCell, plan: dict[str, Any]) -> str:
    """Return the data card: content, settings and frequency of each answer."""
    settings = "\n".join(f"| {name} | {value} |" for name, value in plan.items())
    ones = data.labels.sum(0).tolist()
    bits = "\n".join(
        f"| {place} | {name} | {ones[place]:,} | {ones[place] / len(data):.4f} |" for place, name in enumerate(BITS)
    )
    rates = "\n".join(f"| {task} | {rate:.4f} |" for task, rate in data.majority_rates().items())
    triples = count_triples(data.grid)
    files = (
        "`images/*.png` and `labels.csv` (row and column of each cell from the top left, then the six bits)."
        if plan["format"] == "png"
        else "`three-cell.npz` with `images` (n, H, W, 3) uint8, `cells` (n, 3, 2) and `labels` (n, 6) int64; "
        "no pickles."
    )
    return f"""# Three-Cell

{len(data):,} synthetic images of a black {data.grid} grid with one red, one green and one blue cell, and six bits about
where they are. Made by `loope three-cell export`; no real image, person or place is in it.

Files: {files}

| setting | value |
|---|---|
{settings}

A grid of {data.grid} has {triples.equal:,} valid triples with RG as long as RB, {triples.shorter:,} with RG shorter and
{triples.longer:,} with RG longer.

| bit | it is 1 if | images | share |
|---:|---|---:|---:|
{bits}

What the best constant answer scores here:

| sub-task | accuracy |
|---|---:|
{rates}
"""


def _claim(folder: Path, plan: dict[str, Any]) -> None:
    """Write the plan into an empty folder, or check that the folder has the same plan."""
    path = folder / PLAN
    if not path.exists():
        require(
            not folder.exists() or (folder.is_dir() and not any(folder.iterdir())),
            f"An export needs a folder of its own, and {folder} holds something else; use a new or empty folder.",
        )
        write_atomic(path, json.dumps(plan, indent=2) + "\n")
        return
    try:
        found = json.loads(path.read_text())
        other = [f"{key} {found.get(key)!r} instead of {plan[key]!r}" for key in plan if found.get(key) != plan[key]]
    except (ValueError, AttributeError):
        raise LoopeError(f"{path} cannot be read; remove the folder, or use another one.") from None
    if len(other) > 1:  # other settings imply other cells
        other = [difference for difference in other if not difference.startswith("sha256")]
    require(
        not other,
        f"{folder} holds another export, with {', '.join(other)}; use another folder, or the same settings.",
    )
    for left in [*folder.glob(".*.part"), *folder.glob("*/.*.part")]:  # left by a killed process
        left.unlink()


def _write_png(data: ThreeCell, folder: Path, progress: Callable[[float], None]) -> None:
    """Write `images/*.png` and `labels.csv`; existing images are kept."""
    digits = len(str(len(data) - 1))
    names = [f"{number:0{digits}}.png" for number in range(len(data))]
    # Syncing ten thousand files would take minutes; files left empty by a power cut are written again instead.
    there = {path.name for path in (folder / "images").glob("*.png") if path.stat().st_size}
    for start in range(0, len(data), PART):
        part = names[start : start + PART]
        images = () if there.issuperset(part) else pixels(data, start, start + PART)
        for number, (name, image) in enumerate(zip(part, images, strict=False)):
            if name not in there:
                write_atomic(folder / "images" / name, png(image), durable=False)
            progress((start + number) / len(data))
    write_atomic(folder / "labels.csv", table(data, (f"images/{name}" for name in names)))
    progress(1)


def _write_npz(data: ThreeCell, folder: Path, progress: Callable[[float], None]) -> None:
    """Write `three-cell.npz`, unless it is there: it is written whole or not at all."""

    def images() -> Iterator[Any]:
        for start in range(0, len(data), PART):
            yield pixels(data, start, start + PART)
            progress(min(start + PART, len(data)) / len(data))

    target = folder / "three-cell.npz"
    if not target.exists():
        shape = (len(data), data.grid.height * data.cell, data.grid.width * data.cell, 3)
        write_npz(target, shape, images(), cells=data.cells.numpy(), labels=data.labels.numpy())
    progress(1)
