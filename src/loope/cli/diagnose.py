"""`loope audit` and `loope diagnose`: what a whole model does with positions."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from loope.cli import names
from loope.cli.options import JsonOption, busy, read_encoder_options
from loope.cli.text import as_text
from loope.core.errors import require
from loope.core.files import write_atomic
from loope.core.packages import require_packages
from loope.core.plain import to_json

if TYPE_CHECKING:
    from torch import nn

    from loope.lab.reports.diagnosis import Diagnosis

BATCH = 32
MOST_IMAGES = 100_000


def audit(
    model: Annotated[str, typer.Argument(help="A timm model, or a .safetensors file of loope.save.")],
    as_json: JsonOption = False,
) -> None:
    """Check that a model treats positions right: its wiring, not its weights. Exits with 1 if something is wrong.

    Examples:
        loope audit vit_tiny_patch16_224

        loope audit vit-rope.safetensors --json
    """
    require_packages("An audit", "models", "timm")
    if model.endswith(".safetensors"):
        require(Path(model).exists(), f"There is no file {model}.")
    else:
        names.require_timm_model(model)
    from loope.diagnostics.audit import audit as check

    with busy("Checking"):
        found = check(_model(model))
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
    model: Annotated[str, typer.Argument(help="A timm model; its pretrained weights are used.")],
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

    Examples:
        loope diagnose vit_tiny_patch16_224 --images photos --to vit.html

        loope diagnose vit_tiny_patch16_224 --images photos --encoder sincos2d
    """
    require_packages("A diagnosis", "train", "timm", "torchvision", "safetensors")
    names.require_timm_model(model)
    names.require_encoders([] if encoder is None else [encoder])
    require(encoder is not None or not option, "--option is for the encoder; name one with --encoder.")
    if to is not None:
        require(to.suffix == ".html", f"The report is an HTML file, such as report.html; got {as_text(to)}.")
        require(to.parent.is_dir(), f"There is no folder {to.parent}; make it first.")
        require_packages("A report", "plots", "matplotlib")
    from loope.lab.data.folders import read_unlabelled
    from loope.lab.experiments.spec import Model
    from loope.lab.experiments.timm_models import create_timm, preparation
    from loope.lab.reports.diagnosis import STEPS, page
    from loope.lab.reports.diagnosis import diagnose as measure
    from loope.pesi_metric.position_table import require_timm_model
    from loope.surgery.attach import attach
    from loope.surgery.report import report

    with busy("Reading the model and the images"):
        files = read_unlabelled(images)
        require_timm_model(model)
        made = create_timm(Model(name=model, weights="pretrained"))
        if encoder is not None:
            options: dict[str, Any] = read_encoder_options(option or [])
            attach(made, encoder, init="own", **options)
            require(
                not report(made).keep_own,
                f"{encoder!r} cannot be fitted to the model's own table; hand the model over with loope swap first.",
            )
        batches = _batches(files, preparation(model), most)
    with Progress(console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(STEPS[0], total=len(STEPS))
        following = dict(zip(STEPS, (*STEPS[1:], ""), strict=True))
        found = measure(made, batches, lambda step: bar.update(task, advance=1, description=following[step]))
    title = f"{model}, {encoder or 'its own positions'}"
    if to is not None:
        write_atomic(to, page(title, found))
    if as_json:
        typer.echo(to_json(_document(model, encoder, found)))
        return
    _print(title, found)
    if to is not None:
        Console().print(f"Written: [bold]{as_text(to)}[/bold]")


def _model(name: str) -> nn.Module:
    """Return a model by its timm name, with new weights, or from a file of `loope.save`."""
    from loope.lab.experiments.spec import Model
    from loope.lab.experiments.timm_models import create_timm
    from loope.pesi_metric.position_table import require_timm_model
    from loope.surgery.checkpoint import load

    if name.endswith(".safetensors"):
        return load(name)
    require_timm_model(name)
    return create_timm(Model(name=name))


def _batches(files: object, prepare: object, most: int) -> list:  # type: ignore[type-arg]
    """Return batches of prepared images, at equal steps through the folder."""
    from loope.lab.data.classification import Files, Images, ImageSource

    assert isinstance(files, Files)  # noqa: S101  (for the type checker)
    step = -(-len(files.names) // most)
    names = list(files.names)[::step]
    chosen = Images(Files(files.folder, names), range(len(names)), ["train"] * len(names), names)
    source = ImageSource(chosen, BATCH, prepare)  # type: ignore[arg-type]
    return [images for images, _ in source.batches(0)]


def _print(title: str, found: Diagnosis) -> None:
    from loope.lab.reports.diagnosis import HEAD, notes, rows

    table = Table(*HEAD, box=SIMPLE_HEAD, title=as_text(title))
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
