"""Draws the pictures and writes the tables of README.md and docs/; `make docs` runs it, a test finds stale tables."""

import re
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parent.parent))

from loope.core.files import write_atomic
from loope.core.grid import Grid
from loope.data.three_cell import ThreeCell
from loope.data.three_cell.ceilings import ceilings
from loope.data.three_cell.sampling import count_triples
from loope.encoders import create_encoder
from loope.encoders.describe import describe
from loope.orders import create_order, list_orders
from loope.reports import plots, three_cell
from tests.attach import matrix

ROOT = Path(__file__).parent.parent
GRID = Grid(14, 14)
KNOWN = {"constant": "nothing", "relative": "relative positions"}
SHOWN = ("sinusoid", "gilbert", "sincos2d", "fourier", "alibi2d", "rope_mixed")


def orders_table() -> str:
    """Locality of every order on three grids."""
    grids = (GRID, Grid(7, 28), Grid(16, 16))
    lines = [
        "| order | " + " | ".join(f"{grid}: distance | kept | correlation" for grid in grids) + " |",
        "|---" * (1 + 3 * len(grids)) + "|",
    ]
    for name in list_orders():
        scores = [create_order(name, *grid).locality() for grid in grids]
        cells = [f"{s.neighbour_distance:.2f} | {s.kept:.0%} | {s.rank_correlation:.3f}" for s in scores]
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


def encoders_table() -> str:
    """The encoders of the README."""
    lines = ["| name | acts as | what it does | parameters | paper |", "|---|---|---|---:|---|"]
    for row in describe(GRID):
        lines.append(f"| `{row.name}` | {row.kind} | {row.summary} | {row.parameters:,} | {row.paper} |")
    return "\n".join(lines)


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
    """Triples of some grids, and what can be scored on Three-Cell without absolute positions."""
    head = "| grid | equal | shorter | longer | knows | distance | orientation | area | vector sum | average |"
    lines = [head, "|---|---:|---:|---:|---" + "|---:" * 5 + "|"]
    for grid in (Grid(7, 7), GRID):
        counts = " | ".join(f"{count:,}" for count in count_triples(grid))
        for knows, scores in ceilings(grid)._asdict().items():
            rates = " | ".join(f"{rate:.1%}" for rate in scores.values())
            lines.append(f"| {grid} | {counts} | {KNOWN[knows]} | {rates} |")
    return "\n".join(lines)


TABLES = {
    ("docs/orders.md", "orders"): orders_table,
    ("README.md", "encoders"): encoders_table,
    ("docs/three-cell.md", "samplers"): samplers_table,
    ("docs/three-cell.md", "ceilings"): ceilings_table,
    ("docs/attach.md", "matrix"): matrix.table,
}


def with_table(page: str, mark: str, table: str) -> str:
    """`page` with what stands between the marks replaced."""
    return re.sub(
        rf"(<!-- {mark} -->\n).*?(<!-- /{mark} -->)", lambda m: f"{m[1]}{table}\n{m[2]}", page, flags=re.DOTALL
    )


def main() -> None:
    """Write everything."""
    torch.manual_seed(0)
    for (page, mark), table in TABLES.items():
        write_atomic(ROOT / page, with_table((ROOT / page).read_text(), mark, table()))
    images = ROOT / "docs" / "images"
    write_atomic(images / "orders.png", plots.png(plots.orders([create_order(name, *GRID) for name in list_orders()])))
    for name in list_orders():
        order = create_order(name, *GRID)
        write_atomic(images / f"order-{name}.png", plots.png(plots.orders([order], scores=False), dpi=110))
    maps = {name: create_encoder(name, 768, GRID, heads=12, depth=12).similarity() for name in SHOWN}
    probe = ThreeCell(grid=GRID, seed=7)
    write_atomic(
        images / "three-cell.png", plots.png(three_cell.samples(probe.cells[:4], probe.labels[:4], GRID), dpi=110)
    )
    write_atomic(images / "three-cell-samplers.png", plots.png(three_cell.samplers(sampler_cells(), GRID), dpi=110))
    write_atomic(images / "similarity.png", plots.png(plots.similarity(maps, GRID, (4, 9), columns=6)))


if __name__ == "__main__":
    main()
