"""Draws the pictures and writes the tables of README.md and docs/; `make docs` runs it, a test finds stale tables."""

import re
from functools import partial
from pathlib import Path

import torch

from loope.cli.demo import draw_images
from loope.core.files import write_atomic
from loope.core.grid import Grid
from loope.encoders import create_encoder, list_encoders
from loope.encoders.describe import describe
from loope.encoders.similarity import encoder_similarity
from loope.metrics.pesi import directed_monotonicity, m_d_ceiling
from loope.metrics.published import published
from loope.metrics.summary import summarize
from loope.orders import create_order, list_orders
from loope.reports import plots

ROOT = Path(__file__).parent.parent
GRID = Grid(14, 14)
SHOWN = ("sinusoid", "gilbert", "sincos2d", "fourier", "alibi2d", "rope_mixed")
COMPARED = ("sinusoid", "learned", "fourier", "gilbert", "sincos2d", "rope_mixed", "peg")
DIRECTIONS = (1, 2, 4, 8, 16, 32, 60, 120, 240)


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


def untrained_similarity(name: str, grid: Grid) -> torch.Tensor:
    """E of an encoder as it starts, the same whatever was made before it."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return encoder_similarity(create_encoder(name, 768, grid, patch_size=16, heads=12, depth=12))


def number(value: float, digits: int) -> str:
    """Without a sign if nothing else is left."""
    return f"{round(value, digits) + 0.0:.{digits}f}"


def pesi_table(grid: Grid) -> str:
    """PESI of every encoder, with the paper's numbers where it has them."""
    paper = " paper: M_U, M_D, A_SU |" if grid == GRID else ""
    head = f"| {grid} | M_U | M_D | of most | A_SU | bounded | shift | near |{paper}"
    lines = [head, "|---" + "|---:" * 7 + "|---" * bool(paper) + "|"]
    for name in list_encoders():
        s, row = summarize(untrained_similarity(name, grid), grid), published(name, grid, 768, 60)
        # Where A_SU divides by next to nothing, its further digits are those of the processor's last bits.
        asymmetry = f"{number(s.a_su, 1)}*" if s.a_su_says_little else number(s.a_su, 4)
        cells = [number(s.m_u, 4), number(s.m_d, 4), f"{s.m_d_share:.1%}", asymmetry]
        cells += [number(v, 3) for v in (s.a_su_bounded, s.translation_consistency, s.nearness_correlation)]
        if paper:
            cells.append(f"{row.called}: {row.m_u:.4f}, {row.m_d:.4f}, {row.a_su:.4f}" if row else "")
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return "\n".join(lines)


TABLES = {
    ("docs/orders.md", "orders"): orders_table,
    ("README.md", "encoders"): encoders_table,
    ("docs/pesi.md", "pesi-14x14"): partial(pesi_table, GRID),
    ("docs/pesi.md", "pesi-24x24"): partial(pesi_table, Grid(24, 24)),
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
    write_atomic(images / "similarity.png", plots.png(plots.similarity(maps, GRID, (4, 9), columns=6)))
    draw_pesi(images)


def draw_pesi(images: Path) -> None:
    """The pictures of docs/pesi.md, but for the one of its speed, which `benchmarks/pesi.py --draw` measures."""
    maps = {name: untrained_similarity(name, GRID) for name in COMPARED}
    write_atomic(images / "pesi-maps.png", plots.png(plots.similarity_maps(maps, GRID)))
    scores = {
        name: {n: directed_monotonicity(similarity, GRID, n).mean().item() for n in DIRECTIONS}
        for name, similarity in maps.items()
    }
    ceiling = {n: m_d_ceiling(GRID, n) for n in DIRECTIONS}
    write_atomic(images / "pesi-directions.png", plots.png(plots.directions(scores, ceiling)))
    image = draw_images(1, torch.Generator().manual_seed(3))[0]
    curves = [create_order(name, *GRID) for name in ("raster", "gilbert", "spiral")]
    write_atomic(images / "pesi-curves.png", plots.png(plots.curves(image, curves)))
    lightness = 2 * image.unflatten(1, (14, 16)).unflatten(3, (14, 16)).mean((0, 2, 4)).flatten() - 1
    write_atomic(images / "pesi-arrows.png", plots.png(plots.offset_arrows(image, curves[1], lightness)))


if __name__ == "__main__":
    main()
