"""`loope demo`: what the library does, on built-in data, in about a minute on two cores."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from loope.core.grid import Grid

if TYPE_CHECKING:
    from rich.console import Console
    from torch import Tensor

    from loope.encoders.loope import Loope

GRID = Grid(14, 14)
PATCH = 16
CENTRE = (4, 9)


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report.")] = Path("out/demo"),
    steps: Annotated[int, typer.Option(help="Training steps for LOOPE's offsets.", min=1)] = 300,
    seed: Annotated[int, typer.Option(help="Seed of data and weights.")] = 0,
) -> None:
    """Compare orders and encoders, train LOOPE's offsets on drawn images, and write a report with pictures.

    Example:
        loope demo --out out/demo
    """
    import torch
    from rich.console import Console

    from loope.core.files import write_atomic
    from loope.reports import html, plots

    out.mkdir(parents=True, exist_ok=True)  # a folder that cannot be is an error now, not after the work
    torch.manual_seed(seed)
    console = Console()
    head, rows, curves, maps = _measure(console)
    learned = _learn(console, steps, seed)

    _print_table(console, "Encoders at 14x14, width 768", head, rows)
    console.print(
        f"LOOPE's offsets: squared error on new images {learned.before:.4f} as the static order, "
        f"{learned.after:.4f} after {steps} steps of training."
    )
    report = html.page(
        "loope: where patches are",
        html.text("Orders", "In which sequence patches are numbered. Neighbours on the grid should stay close by."),
        html.picture(plots.png(plots.orders(curves)), "the nine patch orders"),
        html.text(
            "Encoders",
            "How alike each patch is to the marked one, before any training. M_U (most 2): does similarity fall with "
            "distance? M_D, as a share of the most it can be: in each direction? A_SU, bounded: does it differ on a "
            "ring? Near: rank correlation of similarity and nearness over all pairs of patches.",
        ),
        html.table(head, rows),
        html.picture(plots.png(plots.similarity(maps, GRID, CENTRE)), "similarity maps of the encoders"),
        html.text(
            "LOOPE learns an order",
            "Trained to move light patches ahead on the curve and dark ones back. Squared error on images not trained "
            f"on: {learned.before:.4f} as the static order (X_C = 0), {learned.after:.4f} after {steps} steps.",
        ),
        html.picture(
            plots.png(plots.offsets(learned.image, curves[-1], learned.moved)), "an image, its curve and the offsets"
        ),
    )
    path = write_atomic(out / "report.html", report)
    console.print(f"Report with pictures: [bold]{path}[/bold]")


def _measure(console: Console) -> tuple[list[str], list[list[str]], list, dict[str, Tensor]]:  # type: ignore[type-arg]
    """Orders with their scores (printed), then a row and a similarity map for each encoder."""
    from rich.progress import track

    from loope.encoders import create_encoder
    from loope.encoders.describe import describe
    from loope.encoders.similarity import encoder_similarity
    from loope.metrics.summary import summarize
    from loope.orders import create_order, list_orders

    curves, scores = [], []
    for name in track(list_orders(), "Orders", console=console):
        order = create_order(name, *GRID)
        score = order.locality()
        curves.append(order)
        scores.append([name, f"{score.neighbour_distance:.2f}", f"{score.kept:.0%}", f"{score.rank_correlation:.3f}"])
    _print_table(console, "Orders at 14x14", ["order", "neighbour distance", "kept", "rank correlation"], scores)

    maps, rows = {}, []
    for row in track(describe(GRID), "Encoders", console=console):
        encoder = create_encoder(row.name, 768, GRID, patch_size=PATCH, heads=12, depth=12)
        maps[row.name] = encoder_similarity(encoder)
        told = summarize(maps[row.name], GRID)
        shown = [
            f"{told.m_u:.3f}",
            f"{told.m_d_share:.0%}",
            f"{told.a_su_bounded:.3f}",
            f"{told.nearness_correlation:.2f}",
        ]
        rows.append([row.name, row.kind, f"{row.parameters:,}", *shown])
    return ["encoder", "kind", "params", "M_U", "M_D", "A_SU", "near"], rows, curves, maps


class _Learned(NamedTuple):
    before: float
    after: float
    image: Tensor
    moved: Tensor


def _learn(console: Console, steps: int, seed: int) -> _Learned:
    """Train the offsets so that light patches move ahead on the curve and dark ones back: like stays with like."""
    import torch
    from rich.progress import track

    from loope.encoders.loope import Loope

    encoder = Loope(768, GRID, PATCH, mixer="conv", zero_init=True)
    data = torch.Generator().manual_seed(seed)
    unseen = draw_images(32, data)
    optimizer = torch.optim.Adam(encoder.parameters(), lr=2e-3)

    def evaluate() -> float:
        encoder.eval()
        with torch.no_grad():
            return offset_error(encoder, unseen).item()

    before = evaluate()  # zero_init: the static order, X_C = 0
    for _ in track(range(steps), "LOOPE learns", console=console):
        encoder.train()
        optimizer.zero_grad()
        offset_error(encoder, draw_images(8, data)).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    after = evaluate()
    with torch.no_grad():
        moved = encoder.offsets(unseen[:1])[0]
    return _Learned(before, after, unseen[0], moved)


def offset_error(encoder: Loope, images: Tensor) -> Tensor:
    """Mean squared difference between X_C and the lightness of the patches, black at -1 and white at 1."""
    from torch.nn import functional as F

    lightness = F.avg_pool2d(images, PATCH).mean(1).flatten(1)
    return F.mse_loss(encoder.offsets(images), 2 * lightness - 1)


def draw_images(count: int, generator: object) -> Tensor:
    """`(count, 3, 224, 224)` in 0..1: a plain ground with three discs, all of random colours."""
    import torch

    rand = {"generator": generator}
    side = GRID.height * PATCH
    axis = torch.arange(side) / side
    images = torch.rand(count, 3, 1, 1, **rand).expand(-1, -1, side, side)  # type: ignore[call-overload]
    for _ in range(3):
        y, x, radius = (torch.rand(count, 3, **rand) * torch.tensor([1, 1, 0.25]) + torch.tensor([0, 0, 0.1])).T  # type: ignore[call-overload]
        inside = (axis[:, None] - y[:, None, None]) ** 2 + (axis - x[:, None, None]) ** 2 < radius[:, None, None] ** 2
        images = torch.where(inside[:, None], torch.rand(count, 3, 1, 1, **rand), images)  # type: ignore[call-overload]
    return images  # type: ignore[no-any-return]


def _print_table(console: Console, title: str, head: list[str], rows: list[list[str]]) -> None:
    from rich.table import Table

    table = Table(*head, title=title)
    for row in rows:
        table.add_row(*row)
    console.print(table)
