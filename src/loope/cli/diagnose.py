"""`loope audit` and `loope diagnose`: what a whole model does with positions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from loope.cli import names, paths
from loope.cli.options import JsonOption, busy, read_encoder_options
from loope.cli.text import as_text
from loope.core.errors import require
from loope.core.files import write_atomic
from loope.core.packages import require_packages
from loope.core.plain import to_json

if TYPE_CHECKING:
    from torch import Tensor

    from loope.diagnostics.whole import Diagnosis
    from loope.lab.data.classification import Files
    from loope.lab.data.transforms import Preparation

BATCH = 32
MOST_IMAGES = 100_000
ModelArgument = Annotated[
    str, typer.Argument(help="A timm model, a file of loope.save, or a folder of transformers' save_pretrained.")
]


def audit(
    model: ModelArgument,
    as_json: JsonOption = False,
) -> None:
    """Check that a model treats positions right: its wiring, not its weights. Exits with 1 if something is wrong.

    Examples:
        loope audit vit_tiny_patch16_224

        loope audit vit-rope.safetensors --json
    """
    require_packages("An audit", "models", "timm")
    names.require_model(model)
    paths.require_whole(model)
    from loope.diagnostics.audit import audit as check
    from loope.lab.experiments.any_model import open_model

    with busy("Checking"):
        found = check(open_model(model, weights="scratch"))
    if as_json:
        document = {"model": model, "class": found.model, "ok": found.ok, "passed": found.passed}
        findings = [each._asdict() for each in found.findings]
        typer.echo(to_json(document | {"findings": findings, "skipped": found.skipped}))
    else:
        for line in str(found).split("\n"):
            Console().print(as_text(line), highlight=False)
    if not found.ok:
        raise typer.Exit(1)


def diagnose(
    model: ModelArgument,
    images: Annotated[Path, typer.Option(help="Folder of images, at any depth. No labels are needed.")],
    encoder: Annotated[
        str | None, typer.Option(help="An encoder to attach first, fitted to the model's own table if it can be.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Option of the encoder. Repeatable.")
    ] = None,
    most: Annotated[int, typer.Option(help="Maximum number of images, at equal steps.", min=2, max=MOST_IMAGES)] = 256,
    to: Annotated[Path | None, typer.Option(help="HTML file to write, with pictures.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Measure what a model knows of positions, layer by layer: tokens, attention, and what a shift does.

    A timm model has its pretrained weights.

    Examples:
        loope diagnose vit_tiny_patch16_224 --images photos --to vit.html

        loope diagnose vit-rope.safetensors --images photos

        loope diagnose vit_tiny_patch16_224 --images photos --encoder sincos2d
    """
    require_packages("A diagnosis", "train", "timm", "torchvision", "safetensors")
    names.require_model(model)
    names.require_encoders([] if encoder is None else [encoder])
    require(encoder is not None or not option, "--option is for the encoder; name one with --encoder.")
    options: dict[str, Any] = read_encoder_options(option or [])
    paths.require_images(images)
    if to is not None:
        require(to.suffix == ".html", f"The report is an HTML file, such as report.html; got {as_text(to)}.")
        require(to.parent.is_dir(), f"There is no folder {to.parent}; make it first.")
        require_packages("A report", "plots", "matplotlib")
    paths.require_whole(model)
    from loope.diagnostics.whole import diagnose as measure
    from loope.lab.data.folders import read_unlabelled
    from loope.lab.experiments.any_model import open_model, preparation_of
    from loope.lab.reports.diagnosis import page
    from loope.surgery.attach import attach
    from loope.surgery.find import attachment_of
    from loope.surgery.report import report

    with busy("Reading the model and the images"):
        files = _some(read_unlabelled(images), most)
        made = open_model(model)
        if encoder is not None:
            attach(made, encoder, init="own", **options)
            require(
                not report(made).keep_own,
                f"{encoder!r} cannot be fitted to the model's own table; hand the model over with loope swap first.",
            )
        batches = _batches(files, preparation_of(model, made))
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("Images", total=len(files.names))
        found = measure(made, batches, lambda count: bar.advance(task, count))
    attached = attachment_of(made)
    encoders = None if attached is None else ", ".join(each.name for each in attached.encoders_of(0))
    title = f"{model}, {encoders or 'its own positions'}"
    if to is not None:
        write_atomic(to, page(title, found))
    if as_json:
        typer.echo(to_json(_document(model, encoders, found)))
        return
    _print(title, found)
    if to is not None:
        Console().print(f"Written: [bold]{as_text(to)}[/bold]")


def _some(files: Files, most: int) -> Files:
    """Return `most` of the files, at equal steps."""
    number = len(files.names)
    return files.take([index * number // most for index in range(most)] if number > most else range(number))


def _batches(files: Files, prepare: Preparation) -> Iterator[Tensor]:
    """Yield batches of prepared images."""
    from loope.lab.data.classification import Images, ImageSource

    names = files.names
    source = ImageSource(Images(files, range(len(names)), ["train"] * len(names), names), BATCH, prepare)
    return (images for images, _ in source.batches(0))


def _print(title: str, found: Diagnosis) -> None:
    from loope.lab.reports.diagnosis import HEAD, notes, rows

    table = Table(box=SIMPLE_HEAD, title=as_text(title))
    for name in HEAD:
        table.add_column("\n".join(name.rsplit(" ", 1)), no_wrap=True)  # fits 80 columns
    for row in rows(found):
        table.add_row(*row)
    console = Console()
    console.print(table)
    for note in notes(found):
        console.print(note, style="dim", highlight=False)


def _document(model: str, encoder: str | None, found: Diagnosis) -> dict[str, object]:
    shift, rotary = found.shift, found.rotary
    return {
        "model": model,
        "encoder": encoder,
        "images": found.shares.images,
        "grid": list(found.shares.grid),
        "layers": found.shares.layers,
        "position_share": found.shares.share.tolist(),
        "probe_r2": found.probe.r2.tolist(),
        "probe_error": found.probe.error.tolist(),
        "probe_layers": found.probe.layers,
        "probe_chance": found.probe.chance,
        "attention_distance": found.attention.distance.tolist(),
        "attention_uniform": found.attention.uniform,
        "shift_cells": shift.cells,
        "shift_equivariance": shift.equivariance.tolist(),
        "shift_outputs": None if shift.outputs is None else shift.outputs.tolist(),
        "shift_answers": None if shift.answers is None else shift.answers.tolist(),
        "rotary_warnings": [] if rotary is None else rotary.warnings,
    }
