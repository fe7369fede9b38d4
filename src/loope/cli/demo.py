"""`loope demo`: compare encoders on built-in data, in a few minutes on two cores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table

from loope.cli import paths
from loope.cli.options import MOST_JOBS, MOST_SEED, JsonOption
from loope.cli.text import as_text
from loope.core.packages import require_packages
from loope.core.plain import to_json

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from loope.lab.experiments.spec import Run


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(help="Seed of the weights and of training.", min=0, max=MOST_SEED)] = 0,
    jobs: Annotated[int, typer.Option(help="Parallel runs.", min=1, max=MOST_JOBS)] = 2,
    smoke: Annotated[
        bool, typer.Option("--smoke", help="Check that it works, in seconds; the scores mean nothing.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a small ViT on Three-Cell with five encoders, swap the encoder of one, and write a report with figures.

    Example:
        loope demo --out out/demo
    """
    paths.require_output_folder(out, "--out")
    # Fail before training, not after it; the imports below need some of them.
    require_packages("The demo", "train,plots", "accelerate", "matplotlib", "safetensors", "timm", "torchmetrics")
    from loope.cli.progress import RunProgress, interruptible
    from loope.cli.run import RUNNING_ELSEWHERE, print_elsewhere, print_failures
    from loope.lab.executors import create_executor
    from loope.lab.experiments.demo import demo_runs, run_demo, write_model
    from loope.lab.experiments.demo_report import constant_answer, write_report
    from loope.lab.experiments.demo_words import conclusion

    console = Console(stderr=as_json)
    runs = demo_runs(smoke, seed)
    console.print(f"{len(runs)} encoders in the same small ViT on Three-Cell, {jobs} at a time; then one is swapped.")
    with interruptible(console), create_executor("local", jobs) as executor, RunProgress(console, runs, out) as show:
        outcome, swaps = run_demo(runs, out / "runs", executor, show, smoke)
    if outcome.failures:
        print_failures(console, outcome.failures)
        raise typer.Exit(1)
    if outcome.elsewhere or swaps is None:
        print_elsewhere(console, outcome.elsewhere)
        raise typer.Exit(RUNNING_ELSEWHERE)
    results = {each.run.encoder.name: each.result for each in outcome.statuses if each.result is not None}
    sentence = conclusion(results, constant_answer(runs[0]))
    report = write_report(runs, results, swaps, out, smoke)
    model = write_model(runs[0], out)  # None for runs of an earlier version
    if as_json:
        found = {"report": str(report), "model": str(model) if model else None, "conclusion": sentence}
        scores = {name: result["metrics"] for name, result in results.items()}
        typer.echo(to_json({**found, "scores": scores, "swaps": swaps}))
        return
    console.print(_table(runs[0], results))
    console.print(_swap_table(swaps))
    console.print(f"[bold]{as_text(sentence)}[/bold] (One seed.)", highlight=False)
    console.print(f"Report with figures and explanations: [bold]{as_text(report)}[/bold]")
    if model is not None:
        console.print(f"The model with LOOPE, for `loope explore`: [bold]{as_text(model)}[/bold]")


def _table(run: Run, results: dict[str, dict[str, Any]]) -> Table:
    from loope.lab.experiments.demo_report import HEAD, references, rows

    table = _columns("Three-Cell, 7x7 cells: accuracy on the test split", HEAD)
    for row in rows(results):
        table.add_row(*row)
    table.add_section()
    for row in references(run):
        table.add_row(*row, style="dim")
    return table


def _swap_table(swaps: Mapping[str, Any]) -> Table:
    from loope.lab.experiments.demo_report import SWAP_HEAD, swap_rows

    table = _columns("The ViT trained with sincos2d, with another encoder", SWAP_HEAD)
    for row in swap_rows(swaps):
        table.add_row(*row)
    return table


def _columns(title: str, head: Sequence[str]) -> Table:
    table = Table(title=title, box=SIMPLE, padding=(0, 0, 0, 1))
    for name in head:
        table.add_column(name, no_wrap=True, justify="left" if name == "encoder" else "right")
    return table
