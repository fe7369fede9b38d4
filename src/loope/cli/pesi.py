"""`loope pesi`: measure PESI of encoders, checkpoint files and timm models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from loope.cli.names import require_encoders, require_timm_model
from loope.cli.options import MOST_SEED, JsonOption, busy, read_grid
from loope.cli.text import as_text
from loope.core.errors import require
from loope.core.grid import Grid, as_grid
from loope.core.limits import MOST_DIM, require_comparable
from loope.core.plain import to_json
from loope.core.weights import WeightsFile

if TYPE_CHECKING:
    from loope.pesi_metric.published import Row
    from loope.pesi_metric.summary import Summary
    from loope.surgery.acting import EncodingInUse


class Measured(NamedTuple):
    """A row of the table."""

    name: str
    grid: Grid
    dim: int
    scores: Summary
    paper: Row | None


def pesi(
    encoders: Annotated[
        list[str] | None,
        typer.Argument(help="Encoders to measure; by default all, or none with --checkpoint or --model."),
    ] = None,
    grid: Annotated[
        str | None, typer.Option(help="HEIGHTxWIDTH of the grid; by default 14x14, or the position table's own.")
    ] = None,
    dim: Annotated[int, typer.Option(help="Width of the tokens, for encoders.", min=1, max=MOST_DIM)] = 768,
    directions: Annotated[int, typer.Option(help="Number of direction buckets for M_D.", min=1)] = 60,
    checkpoint: Annotated[
        Path | None, typer.Option(help="A .safetensors file whose position encoding is measured.")
    ] = None,
    table: Annotated[
        str | None,
        typer.Option(help="Name of the tensor to measure, if the file or model has several, or an unused one."),
    ] = None,
    model: Annotated[
        str | None, typer.Option(help="Name of a timm model, with the weights of --checkpoint or its pretrained ones.")
    ] = None,
    seed: Annotated[
        int,
        typer.Option(help="Seed of the encoders' initial weights; they are measured untrained.", min=0, max=MOST_SEED),
    ] = 0,
    as_json: JsonOption = False,
) -> None:
    """Measure how well encodings preserve geometry (PESI), beside the paper's numbers where it has them.

    Examples:
        loope pesi gilbert sinusoid sincos2d --grid 14x14

        loope pesi --checkpoint vit.safetensors

        loope pesi --model vit_tiny_patch16_224 --directions 8 --json
    """
    require_encoders(encoders or ())
    if model is not None:
        require_timm_model(model)
    require(
        table is None or model is not None or checkpoint is not None,
        "--table names a tensor of a file or model; give --checkpoint or --model too.",
    )
    size = None if grid is None else read_grid(grid)
    if size is not None:
        require_comparable(size)
    file = None if checkpoint is None else WeightsFile(checkpoint)  # last: if the file is good, it loads torch
    import torch

    from loope.encoders import create_encoder, list_encoders
    from loope.encoders.describe import usual_heads
    from loope.pesi_metric.published import published
    from loope.surgery.acting import EncodingInUse

    rows: list[Measured] = []
    unused: list[str] = []
    with busy("Measuring"):
        if file is not None or model is not None:
            found, unused = _trained(file, model, size, table)
            rows = [_row(each, directions) for each in found]
        cells = size or Grid(14, 14)
        for name in encoders or ([] if rows else list_encoders()):
            torch.manual_seed(seed)  # per encoder, so that a row does not depend on those above it
            encoder = create_encoder(name, dim, cells, patch_size=16, heads=usual_heads(dim), depth=12)
            paper = published(name, cells, dim, directions)
            rows.append(_row(EncodingInUse(name, encoder, cells, dim), directions, paper))
    if as_json:
        document = {"directions": directions, "rows": [_as_json(row) for row in rows], "set_aside": unused}
        typer.echo(to_json(document))
        return
    _print(rows, directions)
    if unused and table is None:
        typer.echo(f"In the file but unused: {', '.join(unused)}. Measure with --table {unused[0]}.")


def _trained(
    file: WeightsFile | None, model: str | None, grid: Grid | None, table: str | None
) -> tuple[list[EncodingInUse], list[str]]:
    """Return the position encodings in use in a file or a timm model, and the names of the unused position tables."""
    from loope.pesi_metric.position_table import model_table
    from loope.surgery.acting import EncodingInUse, acting

    if file is None:
        assert model is not None  # noqa: S101  (for the type checker: one of both is given)
        own = model_table(model, grid, table)
        return [EncodingInUse(model, own, as_grid(tuple(own.shape[:2])), own.shape[-1])], []
    found = acting(file, file.metadata, grid=grid, name=table, model=model)
    title = model or file.path.name
    plain = len(found.positions) == 1 and not found.set_aside
    named = [each._replace(name=title if plain else f"{title}: {each.name}") for each in found.positions]
    return named, found.set_aside


def _row(measured: EncodingInUse, directions: int, paper: Row | None = None) -> Measured:
    from loope.pesi_metric.summary import summarize

    scores = summarize(measured.similarity(), measured.grid, directions)
    return Measured(measured.name, measured.grid, measured.dim, scores, paper)


def _as_json(row: Measured) -> dict[str, object]:
    paper = None if row.paper is None else row.paper._asdict()
    return {"name": row.name, "grid": list(row.grid), "dim": row.dim, **row.scores._asdict(), "published": paper}


def _print(rows: list[Measured], directions: int) -> None:

    grids = {row.grid for row in rows}
    where = f" at {rows[0].grid}: M_D is at most {rows[0].scores.m_d_ceiling:.4f}" if len(grids) == 1 else ""
    # Fit into 80 columns: narrow padding, and the paper's rows below ours.
    out = Table(
        box=SIMPLE_HEAD, title=f"PESI with {directions} directions{where}", padding=(0, 1, 0, 0), pad_edge=False
    )
    out.add_column("", min_width=18, overflow="fold")
    for head in ("M_U", "M_D", "of most", "A_SU", "bounded", "shift", "near"):
        out.add_column(head, justify="right", no_wrap=True)
    for row in rows:
        s, mark = row.scores, "*" if row.scores.a_su_says_little else ""
        numbers = (s.m_u, s.m_d, s.m_d_share, s.a_su, s.a_su_bounded, s.translation_consistency, s.nearness_correlation)
        cells = [f"{number:.4f}" for number in numbers[:4]] + [f"{number:.3f}" for number in numbers[4:]]
        cells[2], cells[3] = f"{s.m_d_share:.1%}", cells[3] + mark
        out.add_row(as_text(row.name if len(grids) == 1 else f"{row.name} {row.grid}"), *cells)
        if row.paper is not None:
            p = row.paper
            out.add_row(f" paper: {p.called}", f"{p.m_u:.4f}", f"{p.m_d:.4f}", "", f"{p.a_su:.4f}", style="dim italic")
    console = Console()
    console.print(out)
    console.print(
        "of most: M_D over its ceiling. bounded: A_SU as std over range. shift: how far similarity depends on the "
        "offset alone. near: rank correlation of similarity and nearness over all pairs.",
        style="dim",
    )
    if any(row.scores.a_su_says_little for row in rows):
        console.print("* divides by a mean near zero and is unreliable; use 'bounded'.", style="dim")
