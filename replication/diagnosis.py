"""What ViT-Tiny knows of positions: its own table, an encoder fitted to it, and encoders that it was handed over to.

    python -m replication.diagnosis

ViT-Tiny, from LOOPE_WEIGHTS; every fourth of 1,000 ImageNet photographs from LOOPE_DATA/imagenet-samples: hand-overs
were taught on others. Models after transfer are read from LOOPE_WEIGHTS, if they are there:

    python -m replication.transfer hand-over rope_mixed none --steps 500 --to $LOOPE_WEIGHTS
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import torch
from rich.progress import Progress
from torch import Tensor, nn

import loope
from loope.core.files import write_atomic
from loope.diagnostics.whole import Diagnosis, diagnose
from loope.lab.experiments.provenance import provenance
from loope.lab.experiments.timm_models import local_weights
from replication.results import FOLDER, table
from replication.transfer import MODEL, normalized, original, photographs

FILE = FOLDER / "diagnosis.jsonl"
EVERY, BATCH = 4, 25
ROWS = {
    "own": "own table",
    "sincos2d": "`sincos2d`, fitted to it",
    "rope_mixed": "`rope_mixed`, after transfer",
    "none": "`none`, after transfer",
}
DIGITS = 5


def models() -> Iterator[tuple[str, nn.Module]]:
    """Yield the model with each encoder; those after transfer only if their files are there."""
    torch.manual_seed(0)
    yield "own", original()
    yield "sincos2d", loope.attach(original(), "sincos2d", init="own")
    for encoder in list(ROWS)[2:]:
        file = local_weights(f"{MODEL}-{encoder}")
        if file is None:
            print(f"{MODEL}-{encoder}.safetensors is not in LOOPE_WEIGHTS: its row stays as it is.")
        else:
            yield encoder, loope.load(file)


def summary(found: Diagnosis) -> dict[str, Any]:
    """Return the numbers of a diagnosis that the page shows."""
    inside, channel, of_channel = artefacts(found.artifacts.maps)
    shift = found.shift
    return {
        "images": found.shares.images,
        "layers": found.shares.layers,
        "share": _rounded(found.shares.share),
        "r2": _rounded(found.probe.r2[1:]),
        "r2_pixels": round(float(found.probe.r2[0]), DIGITS),
        "chance": round(found.probe.chance, DIGITS),
        "distance": _rounded(found.attention.distance.mean(1)),
        "uniform": round(found.attention.uniform, DIGITS),
        "equivariance": _rounded(shift.equivariance[0]),
        "cells": shift.cells,
        "shifted": shift.images,
        "outputs": None if shift.outputs is None else _rounded(shift.outputs),
        "answers": None if shift.answers is None else _rounded(shift.answers),
        "corners": _rounded(inside),
        "channel": channel.tolist(),
        "of_channel": _rounded(of_channel),
    }


def artefacts(maps: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return where the energy of artefact maps `(layers, h, w, D)` is, by layer.

    Returns:
        The share of it in the four corners, the channel with most of it, and that channel's share.
    """
    energy = maps.square()
    every = energy.sum((1, 2, 3))
    corners = energy[:, [0, 0, -1, -1], [0, -1, 0, -1]].sum((1, 2))
    most, channel = energy.sum((1, 2)).max(-1)
    return corners / every, channel, most / every


def results() -> dict[str, dict[str, Any]]:
    """Return what the file has, by encoder."""
    lines = FILE.read_text().splitlines() if FILE.is_file() else []
    return {each["encoder"]: each for each in map(json.loads, lines)}


def keep(encoder: str, found: dict[str, Any]) -> None:
    """Add a result to the file, in place of an earlier one of this encoder."""
    every = {**results(), encoder: {"encoder": encoder, **found}}
    write_atomic(FILE, "".join(json.dumps(every[name]) + "\n" for name in ROWS if name in every))


def layers_table(what: str, form: str) -> str:
    """A row for each encoder, a column for each layer that the values are of."""
    found = results()
    names = next(iter(found.values()))["layers"][-len(next(iter(found.values()))[what]) :]
    rows = [
        (title, *(_cells(found[encoder][what], form) if encoder in found else _missing(len(names))))
        for encoder, title in ROWS.items()
    ]
    return table(("positions", *(name.removeprefix("block ") for name in names)), rows)


def shift_table() -> str:
    """Change of the logits and same answers, for each shift."""
    found = results()
    cells = next(iter(found.values()))["cells"]
    rows = []
    for encoder, title in ROWS.items():
        here = found.get(encoder)
        if here is None or here["outputs"] is None:
            rows.append((title, *_missing(2 * len(cells))))
        else:
            pairs = zip(_cells(here["outputs"], ".1%"), _cells(here["answers"], ".0%"), strict=True)
            rows.append((title, *(each for pair in pairs for each in pair)))
    head = [each for number in cells for each in (f"{number}: change", "same answer")]
    return table(("positions", *head), rows)


def artefacts_table() -> str:
    """Where the artefact map of the layer with the largest position share is."""
    found, rows = results(), []
    for encoder, title in ROWS.items():
        if encoder not in found:
            rows.append((title, *_missing(5)))
            continue
        here = found[encoder]
        layer = here["share"].index(max(here["share"]))
        shares = [f"{here[name][layer]:.1%}" for name in ("share", "corners", "of_channel")]
        rows.append((title, here["layers"][layer], *shares[:2], str(here["channel"][layer]), shares[2]))
    return table(("positions", "layer", "position share", "in the corners", "channel", "in that channel"), rows)


def conditions() -> str:
    """What the numbers are of."""
    here = results()["own"]
    return (
        f"{here['images']} photographs, one of four held out for the probe, {here['shifted']} for shifts. From the "
        f"pixels of a patch alone, R² is {here['r2_pixels']:.3f}; always answering the centre has an error of "
        f"{here['chance']:.2f} cells. Uniform attention has a distance of {here['uniform']:.2f} cells."
    )


def _missing(columns: int) -> list[str]:
    return ["not measured", *[""] * (columns - 1)]


def _cells(values: Sequence[float], form: str) -> list[str]:
    return [format(value, form) for value in values]


def _rounded(values: Tensor) -> list[float]:
    return [round(float(value), DIGITS) for value in values]


TABLES = {
    ("docs/results/vit-tiny.md", "conditions"): conditions,
    ("docs/results/vit-tiny.md", "share"): lambda: layers_table("share", ".1%"),
    ("docs/results/vit-tiny.md", "r2"): lambda: layers_table("r2", ".3f"),
    ("docs/results/vit-tiny.md", "distance"): lambda: layers_table("distance", ".2f"),
    ("docs/results/vit-tiny.md", "equivariance"): lambda: layers_table("equivariance", ".3f"),
    ("docs/results/vit-tiny.md", "shift"): shift_table,
    ("docs/results/vit-tiny.md", "artefacts"): artefacts_table,
}


def main() -> None:
    """Measure, and add the results to the file."""
    pixels = normalized(photographs()[::EVERY])
    for encoder, model in models():
        began = time.time()
        with Progress() as bar:
            task = bar.add_task(encoder, total=len(pixels))
            found = diagnose(model, torch.split(pixels, BATCH), partial(bar.advance, task))
        keep(encoder, {**summary(found), **provenance(began)})


if __name__ == "__main__":
    main()
