"""`loope demo`: compare encoders on built-in data, in a few minutes on two cores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from loope.cli.options import MOST_JOBS, MOST_SEED, JsonOption
from loope.cli.text import as_text
from loope.core.packages import require_packages
from loope.core.plain import to_json

if TYPE_CHECKING:
    from typing import Any


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(help="Seed of the weights and of training.", min=0, max=MOST_SEED)] = 0,
    jobs: Annotated[int, typer.Option(help="Parallel runs.", min=1, max=MOST_JOBS)] = 2,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Check that it works, in seconds; the scores mean nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a small ViT on Three-Cell with five encoders, and write a report with figures.

    Example:
        loope demo --out out/demo
    """
    from loope.cli.progress import RunProgress, interruptible
    from loope.cli.run import RUNNING_ELSEWHERE, print_elsewhere, print_failures
    from loope.lab.executors import create_executor
    from loope.lab.experiments.demo import demo_runs, write_model
    from loope.lab.experiments.demo_report import write_report
    from loope.lab.experiments.settings import Settings
    from loope.lab.experiments.sweep import run_sweep

    # Fail before training, not after it.
    require_packages("The demo", "train,plots", "accelerate", "matplotlib", "safetensors", "timm", "torchmetrics")
    console = Console(stderr=as_json)
    runs = demo_runs(smoke, seed)
    console.print(f"{len(runs)} encoders in the same small ViT on Three-Cell, {jobs} at a time.")
    with interruptible(console), create_executor("local", jobs) as executor, RunProgress(console, runs, out) as show:
        outcome = run_sweep(runs, out / "runs", executor, Settings(), show)
    if outcome.failures:
        print_failures(console, outcome.failures)
        raise typer.Exit(1)
    if outcome.elsewhere:
        print_elsewhere(console, outcome.elsewhere)
        raise typer.Exit(RUNNING_ELSEWHERE)
    results = {each.run.encoder.name: each.result for each in outcome.statuses if each.result is not None}
    report = write_report(runs, results, out, smoke)
    model = write_model(runs[0], out)  # None for runs of an earlier version
    if as_json:
        scores = {name: result["metrics"] for name, result in results.items()}
        typer.echo(to_json({"report": str(report), "model": str(model) if model else None, "scores": scores}))
        return
    console.print(_table(results))
    console.print(f"Report with figures: [bold]{as_text(report)}[/bold]")
    if model is not None:
        console.print(f"The model with LOOPE, for `loope explore`: [bold]{as_text(model)}[/bold]")


def _table(results: dict[str, dict[str, Any]]) -> Table:
    from loope.lab.experiments.demo_report import HEAD, rows

    table = Table(title="Three-Cell, 5x5 cells: accuracy on the test split", box=SIMPLE, padding=(0, 0, 0, 1))
    for head in HEAD:
        table.add_column(head, no_wrap=True, justify="left" if head == "encoder" else "right")
    for row in rows(results):
        table.add_row(*row)
    return table
