"""Tables and pictures of docs/three-cell.md."""

from pathlib import Path

import torch

from loope import plots
from loope.core.files import write_atomic
from loope.core.grid import Grid
from loope.three_cell import ThreeCell, drawing
from loope.three_cell.ceilings import ceiling_if_alike, ceilings
from loope.three_cell.sampling import count_triples

GRID = Grid(14, 14)
KNOWN = {"constant": "nothing", "relative": "relative positions"}
UNORDERED = "row and column of each cell, not which is which"


def sampler_cells() -> dict[str, torch.Tensor]:
    """100,000 triples from each sampler of Three-Cell."""
    return {name: ThreeCell(100_000, GRID, sampler=name).cells for name in ("exact", "paper")}


def samplers_table() -> str:
    """What the two samplers of Three-Cell draw: cases, lengths, places, and what a constant answer scores."""
    lines = ["| in 100,000 samples | exact | paper |", "|---|---:|---:|"]
    rows: dict[str, list[str]] = {}
    for name in ("exact", "paper"):
        data = ThreeCell(100_000, GRID, sampler=name)
        longer, shorter = data.labels[:, :2].double().mean(0).tolist()
        equal = (data.labels[:, :2] == 0).all(1)
        steps = data.cells[:, 1] - data.cells[:, 0]
        length = steps.double().norm(dim=1)
        red = data.cells[:, 0]
        border = ((red == 0) | (red == torch.tensor(GRID) - 1)).any(1).double()
        values = {
            "RG as long as RB, shorter, longer": f"{1 - longer - shorter:.1%}, {shorter:.1%}, {longer:.1%}",
            "different configurations": f"{len(data.cells.unique(dim=0)):,}",
            "RG along a row or a column": f"{(steps == 0).any(1).double().mean():.1%}",
            "mean length of RG; if equal": f"{length.mean():.2f}; {length[equal].mean():.2f}",
            "red on the border; if equal": f"{border.mean():.1%}; {border[equal].mean():.1%}",
        }
        values |= {f"constant answer: {task}": f"{rate:.1%}" for task, rate in data.majority_rates().items()}
        for what, value in values.items():
            rows.setdefault(what, []).append(value)
    return "\n".join([*lines, *(f"| {what} | {' | '.join(values)} |" for what, values in rows.items())])


def ceilings_table() -> str:
    """Triples of some grids, and what can be scored on Three-Cell without seeing all of where the cells are."""
    head = "| grid | equal | shorter | longer | knows | distance | orientation | area | vector sum | average |"
    lines = [head, "|---|---:|---:|---:|---" + "|---:" * 5 + "|"]
    for grid in (Grid(7, 7), GRID):
        counts = " | ".join(f"{count:,}" for count in count_triples(grid))
        row, column = grid.coordinates()
        unordered = grid.size * torch.maximum(row, column) + torch.minimum(row, column)
        best = {KNOWN[knows]: scores for knows, scores in ceilings(grid)._asdict().items()}
        best[UNORDERED] = ceiling_if_alike(grid, unordered)
        for knows, scores in best.items():
            rates = " | ".join(f"{rate:.1%}" for rate in scores.values())
            lines.append(f"| {grid} | {counts} | {knows} | {rates} |")
    return "\n".join(lines)


TABLES = {("docs/three-cell.md", "samplers"): samplers_table, ("docs/three-cell.md", "ceilings"): ceilings_table}


def draw(images: Path) -> None:
    """Samples with their answers, and where the two samplers put cells."""
    probe = ThreeCell(grid=GRID, seed=7)
    write_atomic(
        images / "three-cell.png", plots.png(drawing.samples(probe.cells[:4], probe.labels[:4], GRID), dpi=110)
    )
    write_atomic(images / "three-cell-samplers.png", plots.png(drawing.samplers(sampler_cells(), GRID), dpi=110))
