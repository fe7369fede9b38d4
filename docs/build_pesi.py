"""Tables and pictures of docs/pesi.md."""

from functools import partial
from pathlib import Path

import torch

from loope import plots
from loope.core.files import write_atomic
from loope.core.grid import Grid
from loope.encoders import create_encoder, list_encoders
from loope.encoders.similarity import encoder_similarity
from loope.orders import create_order
from loope.pesi_metric.functional import directed_monotonicity, m_d_ceiling
from loope.pesi_metric.published import published
from loope.pesi_metric.summary import summarize

GRID = Grid(14, 14)
COMPARED = ("sinusoid", "learned", "fourier", "gilbert", "sincos2d", "rope_mixed", "peg")
DIRECTIONS = (1, 2, 4, 8, 16, 32, 60, 120, 240)


def draw_image(seed: int) -> torch.Tensor:
    """`(3, 224, 224)` in 0..1: a plain ground with three discs, all of random colours."""
    generator = torch.Generator().manual_seed(seed)
    axis = torch.arange(224) / 224
    image = torch.rand(3, 1, 1, generator=generator).expand(-1, 224, 224)
    for _ in range(3):
        y, x, radius = torch.rand(3, generator=generator) * torch.tensor([1, 1, 0.25]) + torch.tensor([0, 0, 0.1])
        inside = (axis[:, None] - y) ** 2 + (axis - x) ** 2 < radius**2
        image = torch.where(inside, torch.rand(3, 1, 1, generator=generator), image)
    return image


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
    ("docs/pesi.md", "pesi-14x14"): partial(pesi_table, GRID),
    ("docs/pesi.md", "pesi-24x24"): partial(pesi_table, Grid(24, 24)),
}


def draw(images: Path) -> None:
    """The pictures of docs/pesi.md, but for the one of its speed, which `benchmarks/pesi.py --draw` measures."""
    maps = {name: untrained_similarity(name, GRID) for name in COMPARED}
    write_atomic(images / "pesi-maps.png", plots.png(plots.similarity_maps(maps, GRID)))
    scores = {
        name: {n: directed_monotonicity(similarity, GRID, n).mean().item() for n in DIRECTIONS}
        for name, similarity in maps.items()
    }
    ceiling = {n: m_d_ceiling(GRID, n) for n in DIRECTIONS}
    write_atomic(images / "pesi-directions.png", plots.png(plots.directions(scores, ceiling)))
    image = draw_image(seed=3)
    curves = [create_order(name, *GRID) for name in ("raster", "gilbert", "spiral")]
    write_atomic(images / "pesi-curves.png", plots.png(plots.orders(curves, scores=False, image=image)))
    lightness = 2 * image.unflatten(1, (14, 16)).unflatten(3, (14, 16)).mean((0, 2, 4)).flatten() - 1
    write_atomic(images / "pesi-arrows.png", plots.png(plots.offset_arrows(image, curves[1], lightness)))
