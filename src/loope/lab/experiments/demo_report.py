"""The demo's report: a page with scores, learning curves and the order that LOOPE learned."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from loope import plots
from loope.core.files import write_atomic
from loope.lab.experiments.results import Results
from loope.lab.experiments.spec import Run
from loope.lab.reports import figures, html
from loope.orders import create_order
from loope.three_cell import ThreeCell

QUESTIONS = ("distance", "orientation", "area", "vector_sum", "average")
HEAD = ["encoder", "dist.", "orient.", "area", "v. sum", "average", "M_U", "M_D", "params", "img/s"]


def rows(results: dict[str, dict[str, Any]]) -> list[list[str]]:
    """Return a table row for each encoder, the best first."""
    made = []
    for name, result in sorted(results.items(), key=lambda item: -float(item[1]["metrics"]["average"])):
        metrics = result["metrics"]
        accuracies = [f"{metrics[key]:.1%}" for key in QUESTIONS]
        pesi = [f"{metrics[key]:.3f}" if key in metrics else "—" for key in ("pesi_m_u", "pesi_m_d")]
        made.append(
            [name, *accuracies, *pesi, f"{result['parameters']['encoder']:,}", f"{result['images_per_second']:,.0f}"]
        )
    return made


def write_report(runs: list[Run], results: dict[str, dict[str, Any]], out: Path, smoke: bool) -> Path:
    """Write the report as a self-contained page."""
    found = {run.encoder.name: Results.in_folder(out / "runs").tensors(run) for run in runs}
    kept = {name: tensors for name, tensors in found.items() if tensors is not None}
    page = html.page(
        "loope: what positions are worth",
        *([html.text("A smoke test", "These numbers mean nothing.")] if smoke else []),
        _accuracies(runs[0], results),
        _similarity(kept),
        _learned_order(kept["loope"], results["loope"]["metrics"]),
    )
    return write_atomic(out / "report.html", page)


def _accuracies(run: Run, results: dict[str, dict[str, Any]]) -> str:
    rates = ThreeCell(**run.data.options, seed=0, split="val").majority_rates()
    constant = 100 * rates["average"]
    curves = {
        name: [[(each["epoch"], 100 * each["metrics"]["average"]) for each in result["history"]]]
        for name, result in results.items()
    }
    figure = figures.learning_curves(curves, "epoch", "accuracy, %", floor=constant)
    return (
        html.text(
            "Three-Cell",
            "Each image has three coloured cells on a black ground, and six bits about where they lie: which of two is "
            "nearer, which way round they go, under which line is more area, and whether their sum leaves the grid. "
            "Only positions can answer. To a transformer without positions all images are the same bag of patches, so "
            "it gives one answer to all of them and scores what a constant does.",
        )
        + html.table(HEAD, rows(results))
        + html.text("Learning curves", "Average accuracy on the validation part after each epoch.")
        + html.picture(plots.png(figure), "learning curves")
    )


def _similarity(kept: dict[str, dict[str, Any]]) -> str:
    grid = tuple(next(iter(kept.values()))["grid"].tolist())
    figure = plots.similarity_maps({name: each["similarity"] for name, each in kept.items()}, grid)
    shown = "How alike each position is to nine of them, after training; a column for each encoder."
    return html.text("Similarity", shown) + html.picture(plots.png(figure), "similarity maps")


def _learned_order(kept: dict[str, Any], metrics: dict[str, float]) -> str:
    image = kept["images"][0] / 2 + 0.5  # back from the model's range to 0..1
    figure = plots.offsets(image, create_order("gilbert", *kept["grid"].tolist()), kept["offsets"][0])
    shown = (
        "A test image, the static Gilbert order, and how far the trained generator moves each patch along it. Patches "
        f"move by {metrics['offset_size']:.3f} on average; from image to image an offset varies by "
        f"{metrics['offset_over_images']:.4f}, where 0 would mean that the image plays no part."
    )
    described = "an image, its curve and the offsets"
    return html.text("The order that LOOPE learned", shown) + html.picture(plots.png(figure), described)
