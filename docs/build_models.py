"""The page docs/models.md, from docs/models.csv, which `make models` writes."""

from collections.abc import Sequence
from pathlib import Path

from docs.models import KINDS, MOST_PREFIX, Row, read
from loope.core.files import write_atomic

PAGE = Path(__file__).with_name("models.md")
PLAIN = ("additive", "rotary", "bias")  # what a ViT-like model should take

TEXT = """\
# Supported models

What `loope.attach` does with every architecture of timm {timm} and every vision class of transformers {transformers}, if it has
attention. `make models` walks both registries and writes this page: it builds each model on the `meta` device, attaches an
encoder of each kind ({encoders}), runs the model and detaches.

| models | number | additive | rotary | bias | conditional | additive, rotary and bias |
|---|---:|---:|---:|---:|---:|---:|
{summary}

*ViT-like* are the architectures of timm whose blocks all have the same grid of patches (`feature_info` has one `reduction`)
and attend between all of its patches (some matrix of scores has as many rows and columns as there are patches, and up to
{prefix} more for other tokens).

A ✓ stands for encoders that can be attached, a number for the reason why not, below the table. For other models, see
[your own model](attach.md#your-own-model).

## timm

{timm_table}

## transformers

By the folder of the class. Each class is built from its default configuration, with two layers.

{transformers_table}
"""  # noqa: E501


def page(versions: dict[str, str], rows: Sequence[Row]) -> str:
    """Return the page."""
    timm_rows, transformers_rows = ([row for row in rows if row.library == name] for name in ("timm", "transformers"))
    groups = {
        "timm, ViT-like": vit_like(rows),
        "timm, all with attention": timm_rows,
        "transformers": transformers_rows,
    }
    return TEXT.format(
        **versions,
        encoders=", ".join(f"`{encoder}`" for encoder in KINDS.values()),
        summary="\n".join(summary(name, group) for name, group in groups.items()),
        prefix=MOST_PREFIX,
        timm_table=table(timm_rows),
        transformers_table=table(transformers_rows),
    )


def vit_like(rows: Sequence[Row]) -> list[Row]:
    """Return the ViT-like architectures."""
    return [row for row in rows if row.vit_like == "yes"]


def takes_plain(row: Row) -> bool:
    """Return whether a model takes additive, rotary and bias encoders."""
    return all(getattr(row, kind) == "yes" for kind in PLAIN)


def summary(name: str, rows: Sequence[Row]) -> str:
    """Return a row of the first table: how many models take each kind of encoder."""
    counts = [sum(getattr(row, kind) == "yes" for row in rows) for kind in KINDS]
    counts.append(sum(takes_plain(row) for row in rows))
    shares = " | ".join(f"{count} ({count / len(rows):.1%})" for count in counts)
    return f"| {name} | {len(rows)} | {shares} |"


def table(rows: Sequence[Row]) -> str:
    """Return a table with a row for each family and result, its models folded, and the reasons below."""
    groups: dict[tuple[str, str, tuple[str, ...]], list[str]] = {}
    for row in rows:
        groups.setdefault((row.family, row.vit_like, row.kinds), []).append(row.name)
    reasons = list(dict.fromkeys(cell for row in rows for cell in row.kinds if cell != "yes"))
    lines = ["| family | models | ViT-like | " + " | ".join(KINDS) + " |", "|---|---|---" + "|---" * len(KINDS) + "|"]
    for (family, alike, cells), names in sorted(groups.items()):
        marks = ["✓" if cell == "yes" else f"({reasons.index(cell) + 1})" for cell in cells]
        folded = f"<details><summary>{len(names)}</summary>{', '.join(names)}</details>"
        lines.append(f"| {family} | {folded} | {alike} | {' | '.join(marks)} |")
    return "\n".join([*lines, *(f"\n({number}) {reason}" for number, reason in enumerate(reasons, start=1))])


def write() -> Path:
    """Write the page."""
    return write_atomic(PAGE, page(*read()))
