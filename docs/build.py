"""Draw the pictures and write the tables of README.md and docs/; `make docs` runs it, a test finds stale tables."""

import csv
import os
import sys
from pathlib import Path

import torch

ROOT = Path(__file__).parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

import build_explorer
import build_pesi
import build_scaling
import build_three_cell
import build_walkthrough
from docs import build_models
from loope import plots
from loope.core.files import write_atomic
from loope.core.grid import Grid
from loope.encoders import create_encoder
from loope.encoders.describe import describe, grouped
from loope.explorer.export import export
from loope.orders import create_order, list_orders
from loope.pesi_metric.functional import pesi_from_similarity
from loope.pesi_metric.published import published
from replication import diagnosis, figures, pets, segmentation, transfer
from replication import page as replication_page
from replication.page import with_table

GRID = Grid(14, 14)
COSTS = ROOT / "docs" / "costs.csv"
SWAPPED = ("sincos2d", "fourier", "sinusoid", "loope")
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


# What each kind of encoder does; the key is that of `loope.encoders.describe`.
KINDS = {
    "none": "no positions",
    "additive": "vectors that are added to the patch tokens (`embed`)",
    "conditional": "a transformation of the tokens after a block (`mix`)",
    "rotary": "queries and keys are turned (`rotate`)",
    "bias": "a number added to each attention score (`bias`; `pape` through channels of queries and keys)",
}


def encoders_summary() -> str:
    """The names of the encoders by kind, for the README."""
    kinds = {kind: ", ".join(f"`{row.name}`" for row in rows) for kind, rows in grouped(describe(GRID)).items()}
    none = kinds.pop("none")
    return (
        "\n".join(f"- **{kind.capitalize()}**: {names}." for kind, names in kinds.items())
        + f"\n- No positions: {none}."
    )


def swap_summary() -> str:
    """Top-1 of the swapped model at its own size, for the README."""
    found = {each["encoder"]: each for each in transfer.results() if each["what"] == "sizes" and each["size"] == 224}
    names = ["own table", *(f"`{name}`" for name in SWAPPED)]
    scores = [f"{100 * found['own']['top1']:.1f}"]
    for name in SWAPPED:
        each = found[name]
        scores.append(f"{100 * each['top1']:.1f} ({100 * each['more']:+.1f} ± {100 * each['half']:.1f})")
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (names, ["---:"] * len(names), scores))


def pesi_summary() -> str:
    """PESI of two encoders, for the README."""
    lines = ["| 14x14, width 768 | M_U (of 2) | M_D (share of its maximum) | A_SU |", "|---|---:|---:|---:|"]
    for name in ("gilbert", "sincos2d"):
        scores = pesi_from_similarity(create_encoder(name, 768, GRID).similarity(), GRID)
        share = f"{scores.m_d:.4f} ({scores.m_d_share:.0%})"
        lines.append(f"| `{name}` | {scores.m_u:.4f} | {share} | {scores.a_su:.4f} |")
        paper = published(name, GRID, 768, 60)
        if paper is not None:
            lines.append(f"| paper: {paper.called} | {paper.m_u:.4f} | {paper.m_d:.4f} | {paper.a_su:.4f} |")
    return "\n".join(lines)


def encoders_table() -> str:
    """All that is known of each encoder, a table for each kind."""
    measured = costs()
    lines = []
    for kind, rows in grouped(describe(GRID)).items():
        lines += [f"**{kind.capitalize()}**: {KINDS[kind]}.", ""]
        lines.append("| name | what it does | parameters | training | inference | flash | other sizes | ONNX | paper |")
        lines.append("|---|---|---:|---:|---:|---|---|---|---|")
        for row in rows:
            train, infer = measured.get(row.name, ("", ""))
            cells = [f"{row.parameters:,}", train, infer, "yes" if row.flash else "no", row.sizes, row.onnx, row.paper]
            lines.append(f"| `{row.name}` | {row.summary} | {' | '.join(cells)} |")
        lines.append("")
    return "\n".join(lines[:-1])


def costs() -> dict[str, tuple[str, str]]:
    """Cost of a training step and of inference by encoder, which `python benchmarks/attach.py --write` measures."""
    if not COSTS.exists():
        return {}
    with COSTS.open(newline="") as file:
        return {row["encoder"]: (row["train"], row["infer"]) for row in csv.DictReader(file)}


def matrix_table() -> str:
    """Model x encoder, from docs/matrix.csv, which `make matrix` writes."""
    with (ROOT / "docs" / "matrix.csv").open(newline="") as file:
        header, *rows = csv.reader(file)
    failures = list(dict.fromkeys(cell for row in rows for cell in row[1:] if cell != "yes"))
    lines = ["| model | " + " | ".join(f"`{name}`" for name in header[1:]) + " |", "|---" * len(header) + "|"]
    for model, *cells in rows:
        marks = ["✓" if cell == "yes" else f"({failures.index(cell) + 1})" for cell in cells]
        lines.append(f"| {model} | {' | '.join(marks)} |")
    return "\n".join([*lines, *(f"\n({number}) {failure}" for number, failure in enumerate(failures, start=1))])


TABLES = {
    ("docs/orders.md", "orders"): orders_table,
    ("README.md", "encoders"): encoders_summary,
    ("README.md", "swap"): swap_summary,
    ("README.md", "pesi"): pesi_summary,
    ("docs/encoders.md", "encoders"): encoders_table,
    ("docs/attach.md", "matrix"): matrix_table,
    ("docs/guides/swap.md", "sizes"): transfer.sizes_table,
    ("docs/guides/swap.md", "steps"): transfer.steps_table,
    **{("README.md", mark): made for mark, made in replication_page.IN_README.items()},
    ("docs/results/segmentation.md", "table3"): segmentation.table3,
    ("docs/results/segmentation.md", "classes"): segmentation.classes,
    ("docs/results/segmentation.md", "minutes"): segmentation.minutes,
    **build_pesi.TABLES,
    **build_scaling.TABLES,
    **build_three_cell.TABLES,
    **diagnosis.TABLES,
}


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
    torch.manual_seed(0)  # the same picture, whatever was drawn before
    maps = {name: create_encoder(name, 768, GRID, heads=12, depth=12).similarity() for name in SHOWN}
    write_atomic(images / "similarity.png", plots.png(plots.similarity(maps, GRID, (4, 9), columns=6)))
    build_pesi.draw(images)
    build_three_cell.draw(images)
    build_explorer.draw(images)
    replication_page.write()
    build_models.write()
    figures.draw(images)
    pets.draw(images)
    if (Path(os.environ.get("LOOPE_WEIGHTS", "")) / build_walkthrough.WEIGHTS).is_file():
        build_walkthrough.draw(images)
    else:
        print(f"No {build_walkthrough.WEIGHTS} in the folder that LOOPE_WEIGHTS names: the walkthrough stays as it is.")
    export(ROOT / "docs" / "explore")


if __name__ == "__main__":
    main()
