"""`loope demo`: what positions are worth, on built-in data, in a few minutes on two cores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from typing import Any

    from loope.experiments.spec import Run


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the runs and the report.")] = Path("out/demo"),
    seed: Annotated[int, typer.Option(help="Seed of weights and training.", min=0)] = 0,
    jobs: Annotated[int, typer.Option(help="Runs at a time.", min=1)] = 2,
    smoke: Annotated[bool, typer.Option("--smoke", help="Only see that it works: seconds, and scores without meaning.")] = False,
) -> None:
    """Train a small ViT on Three-Cell with five encoders, two at a time, and write a report with pictures.

    Example:
        loope demo --out out/demo
    """
    from rich.console import Console

    from loope.cli.experiments import print_failures
    from loope.cli.watching import Watch
    from loope.engine.executors import create_executor
    from loope.experiments.campaign import carry_out
    from loope.experiments.demo import TABLE
    from loope.experiments.settings import Settings

    console = Console()
    runs = [entry.run.with_seed(seed) for entry in TABLE.entries("smoke" if smoke else "laptop")]
    console.print(f"{len(runs)} encoders in the same small ViT, on Three-Cell; {jobs} at a time.")
    with create_executor("local", jobs) as executor, Watch(console, runs, out) as watch:
        outcome = carry_out(runs, out / "runs", executor, Settings(progress=False), watch)
    if outcome.failures:
        print_failures(console, outcome.failures)
        raise typer.Exit(1)
    results = {each.run.encoder.name: each.result for each in outcome.standings if each.result is not None}
    console.print(_table(results))
    console.print(f"Report with pictures: [bold]{_report(runs, results, out, smoke)}[/bold]")


HEAD = ["encoder", "distance", "orientation", "area", "vector sum", "average", "M_U", "M_D", "parameters", "images/s"]


def _rows(results: dict[str, dict[str, Any]]) -> list[list[str]]:
    rows = []
    for name, result in results.items():
        metrics = result["metrics"]
        accuracies = [f"{metrics[key]:.1%}" for key in ("distance", "orientation", "area", "vector_sum", "average")]
        pesi = [f"{metrics[key]:.3f}" if key in metrics else "—" for key in ("pesi_m_u", "pesi_m_d")]
        counts = [f"{result['parameters']['encoder']:,}", f"{result['images_per_second']:,.0f}"]
        rows.append([name, *accuracies, *pesi, *counts])
    return sorted(rows, key=lambda row: -float(row[5].rstrip("%")))


def _table(results: dict[str, dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(*HEAD, title="Three-Cell, 5x5 cells: accuracy on the test part")
    for row in _rows(results):
        table.add_row(*row)
    return table


def _report(runs: list[Run], results: dict[str, dict[str, Any]], out: Path, smoke: bool) -> Path:
    from safetensors.torch import load_file

    from loope.core.files import write_atomic
    from loope.data.three_cell import ThreeCell
    from loope.experiments.pictures import PICTURES
    from loope.experiments.results import folder_of
    from loope.orders import create_order
    from loope.reports import experiments, html, plots

    kept = {run.encoder.name: load_file(folder_of(run, out / "runs") / PICTURES) for run in runs if run.encoder.name != "none"}
    data = ThreeCell(**runs[0].data.options, seed=0, split="test")
    rates = data.majority_rates()
    constant = 100 * sum(rates.values()) / len(rates)
    curves = {
        name: [[(each["epoch"], 100 * each["metrics"]["average"]) for each in result["history"]]]
        for name, result in results.items()
    }
    grid = tuple(kept["loope"]["grid"].tolist())
    image, moved = kept["loope"]["images"][0] / 2 + 0.5, kept["loope"]["offsets"][0]
    health = results["loope"]["metrics"]
    page = html.page(
        "loope: what positions are worth",
        *([html.text("A smoke test", "These numbers mean nothing.")] if smoke else []),
        html.text(
            "Three-Cell",
            "Each image has three coloured cells on a black ground, and six yes-or-no bits about where they lie: which is "
            "nearer, which way round they go, under which line is more area, and whether their sum leaves the grid. Only "
            f"positions can answer. A constant answer scores {constant:.1f} % on average; so does a transformer without "
            "positions, because to it all images are the same bag of patches.",
        ),
        html.table(HEAD, _rows(results)),
        html.text("Learning curves", "Average accuracy on the validation part after each epoch."),
        html.picture(plots.png(experiments.learning_curves(curves, "epoch", "accuracy, %", floor=constant)), "learning curves"),
        html.text("Similarity", "How alike each position is to nine of them, after training: a column for each encoder."),
        html.picture(plots.png(plots.similarity_maps({name: each["similarity"] for name, each in kept.items()}, grid)), "similarity maps"),
        html.text(
            "The order that LOOPE learned",
            "A test image, the static Gilbert order, and how far the trained generator moves each patch along it. Patches "
            f"move by {health['offset_size']:.3f} on average; from image to image an offset varies by "
            f"{health['offset_over_images']:.4f} (0 would mean that the image plays no part).",
        ),
        html.picture(plots.png(plots.offsets(image, create_order("gilbert", *grid), moved)), "an image, its curve and the offsets"),
    )  # fmt: skip
    return write_atomic(out / "report.html", page)
