"""`loope swap`: give a pretrained model another encoder, on images without labels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from loope.cli import paths
from loope.cli.names import require_encoders, require_timm_model
from loope.cli.options import MOST_SEED, JsonOption, busy, read_encoder_options
from loope.cli.text import as_text
from loope.core.packages import require_packages
from loope.core.plain import to_json
from loope.core.processes import world_size

if TYPE_CHECKING:
    from loope.lab.experiments.swap import Swapped

MOST_STEPS = 10**9
MOST_BATCH = 2**16
FEW = 0.5  # share of the same answers below which the result is called out


def swap(
    model: Annotated[str, typer.Argument(help="A timm model; its pretrained weights are used.")],
    encoder: Annotated[str, typer.Argument(help="An encoder of `loope encoders`.")],
    images: Annotated[Path, typer.Option(help="Folder of images, at any depth. No labels are needed.")],
    to: Annotated[Path, typer.Option(help="New file to write, .safetensors, for loope.load.")],
    steps: Annotated[
        int, typer.Option(help="Training steps; 0 to attach and fit the encoder only.", min=0, max=MOST_STEPS)
    ] = 1000,
    freeze_backbone: Annotated[bool, typer.Option("--freeze-backbone", help="Train the encoder only.")] = False,
    labels: Annotated[
        Path | None, typer.Option(help="Lines 'relative/path index' with classes of images, to show top-1 accuracy.")
    ] = None,
    option: Annotated[
        list[str] | None, typer.Option(metavar="NAME=VALUE", help="Option of the encoder. Repeatable.")
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Images per step.", min=1, max=MOST_BATCH)] = 16,
    lr: Annotated[float, typer.Option(help="Peak learning rate.")] = 1e-3,
    precision: Annotated[
        str, typer.Option(help="Of training: float32, bfloat16 (twice as fast on many machines), float16 on a GPU.")
    ] = "float32",
    seed: Annotated[
        int, typer.Option(help="Seed of new weights, held-out images and batches.", min=0, max=MOST_SEED)
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Swap the position encoding of a pretrained model: attach an encoder, and train to reproduce the original tokens.

    A tenth of the images is held out to compare the answers. Rerun the same command to resume.

    Examples:
        loope swap vit_tiny_patch16_224 rope_mixed --images photos --to vit-rope.safetensors

        loope swap vit_tiny_patch16_224 sincos2d --images photos --to vit-sincos.safetensors --steps 0
    """
    require_packages("Swapping an encoder", "train", "accelerate", "safetensors", "timm", "torchmetrics", "torchvision")
    require_timm_model(model)
    require_encoders([encoder])
    options = read_encoder_options(option or [])
    paths.require_images(images)
    paths.require_new_model(to)
    if labels is not None:
        paths.require_labels(labels)
    world_size()  # must make sense
    from loope.lab.engine.recipe import Recipe

    Recipe(epochs=1, batch_size=batch_size, lr=lr, min_lr=0, precision=precision)  # as `Swap` does
    from loope.cli.progress import TrainingBar, interruptible
    from loope.lab.data.folders import read_labels, read_unlabelled
    from loope.lab.engine.signals import Interrupted
    from loope.lab.experiments.swap import Swap, SwapRun

    first = os.environ.get("RANK", "0") == "0"  # of the processes that share a run, only one prints
    console = Console(stderr=as_json, quiet=not first)
    chosen = Swap(
        model=model,
        encoder=encoder,
        options=options,
        steps=steps,
        batch_size=batch_size,
        lr=lr,
        precision=precision,
        freeze_backbone=freeze_backbone,
        seed=seed,
    )
    with interruptible(console):
        with busy("Reading the model and the images"):
            files = read_unlabelled(images)
            known = read_labels(labels, files) if labels is not None else {}
            work = SwapRun(chosen, files, known, to)
        try:
            result = work.execute(TrainingBar if Console(stderr=True).is_terminal else True)
        except Interrupted:
            raise KeyboardInterrupt from None
    if as_json and first:
        document = {"file": str(to), "model": model, "encoder": encoder, "steps": steps, **result._asdict()}
        comparisons = {"before": result.before._asdict(), "after": result.after._asdict()}
        typer.echo(to_json(document | comparisons))
    if as_json:
        return
    console.print(_table(result))
    if labels is not None and not result.labelled:
        console.print("None of the labelled images is held out, so there is no top-1; label more of them.")
    if not result.strength:
        console.print(
            "The encoder has strength 0 beside the model's own encoding: train it with --steps and "
            "another --to, or raise it with loope.set_strength."
        )
    elif result.after.agreement < FEW:
        console.print(
            f"It answers as the original on only {result.after.agreement:.0%} of these images: train with more "
            "--steps or images and another --to, or choose an encoder that can be fitted, such as sincos2d."
        )
    console.print(f"Written: [bold]{as_text(to)}[/bold]")


def _table(result: Swapped) -> Table:
    title = f"Compared with the original on {result.held_out} held-out images"
    table = Table("", "same answer", "cosine of tokens", box=SIMPLE_HEAD, title=title)
    top1 = result.labelled > 0
    if top1:
        table.add_column(f"top-1 on {result.labelled}")
        table.add_row("original", "", "", f"{result.original_top1:.1%}")
    for name, each in (("encoder alone, untrained", result.before), ("written", result.after)):
        table.add_row(name, f"{each.agreement:.1%}", f"{each.tokens:.4f}", *([f"{each.top1:.1%}"] if top1 else []))
    return table
