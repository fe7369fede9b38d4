"""The diagnosis of a model as rows of text, and as one HTML page."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loope.diagnostics.whole import Diagnosis
from loope.lab.reports import html
from loope.plots.layout import panels, plain_axes, png

if TYPE_CHECKING:
    from matplotlib.figure import Figure

HEAD = ("layer", "position share", "R² of places", "error, cells", "distance, cells", "to prefix", "shift kept")


def rows(found: Diagnosis) -> list[list[str]]:
    """Return a row of text for each layer, under `HEAD`."""
    share = found.shares.share
    made = [["pixels", "", f"{found.probe.r2[0]:.3f}", f"{found.probe.error[0]:.2f}", "", "", ""]]
    for number, name in enumerate(found.shares.layers):
        heads = found.attention.distance[number - 1] if number else None
        made.append(
            [
                name,
                f"{share[number]:.1%}",
                f"{found.probe.r2[number + 1]:.3f}",
                f"{found.probe.error[number + 1]:.2f}",
                "" if heads is None else f"{heads.mean():.2f} ({heads.min():.1f} to {heads.max():.1f})",
                "" if heads is None else f"{found.attention.prefix[number - 1].mean():.1%}",
                f"{found.shift.equivariance[0, number]:.3f}",
            ]
        )
    return made


def notes(found: Diagnosis) -> list[str]:
    """Return what the columns mean, and what else was found."""
    shift = found.shift
    made = [
        f"{found.shares.images} images on a grid of {found.shares.grid}. Position share: variance of tokens that is "
        "position, unbiased.",
        f"Places: ridge regression to row and column on {found.probe.test_images} held-out images; always answering "
        f"the centre has an error of {found.probe.chance:.2f} cells. Pixels: the patch itself.",
        f"Distance: mean over heads (least to most); uniform attention has {found.attention.uniform:.2f} cells. To "
        "prefix: attention of patches to class and register tokens.",
        f"Shift kept: cosine of tokens of an image and of the image shifted by {shift.cells[0]} patch.",
    ]
    if shift.outputs is not None and shift.answers is not None:
        moves = [
            f"{cells}: {output:.1%} and {answers:.0%}"
            for cells, output, answers in zip(shift.cells, shift.outputs, shift.answers, strict=True)
        ]
        made.append(
            f"Positions shifted by cells, pixels as they are: change of the output and same answers on {shift.images} "
            f"images, {', '.join(moves)}."
        )
    if found.rotary is not None:
        made += [f"Rotary: {each}." for each in found.rotary.warnings]
    return made


def page(title: str, found: Diagnosis) -> str:
    """Return a self-contained HTML page."""
    return html.page(
        title,
        html.table(HEAD, rows(found)),
        *(html.paragraph(each) for each in notes(found)),
        html.text("Position share", "How much of the variance of patch tokens is position, layer by layer."),
        html.picture(png(_lines(found)), "position share and R² by layer"),
        html.text("Artefacts", "Mean token over images at each place: three principal components."),
        html.picture(png(_maps(found)), "artefact map of each layer"),
        html.text("Attention distance", "Each dot is a head; the line is uniform attention."),
        html.picture(png(_heads(found)), "attention distance by block and head"),
    )


def _lines(found: Diagnosis) -> Figure:
    figure, ax = plain_axes("layer", "")
    across = range(len(found.shares.layers))
    ax.plot(across, found.shares.share.tolist(), "-o", markersize=3, label="position share")
    ax.plot(across, found.probe.r2[1:].tolist(), "-o", markersize=3, label="R² of places")
    ax.axhline(float(found.probe.r2[0]), color="gray", linestyle=":", linewidth=1, label="R² from pixels")
    ax.set_ylim(bottom=min(0.0, float(found.shares.share.min())))
    ax.legend(fontsize=8, frameon=False)
    return figure


def _maps(found: Diagnosis) -> Figure:
    figure, axes = panels(len(found.artifacts.layers), 5)
    colours = found.artifacts.colours()
    for number, (ax, name) in enumerate(zip(axes, found.artifacts.layers, strict=True)):
        ax.imshow(colours[number].cpu().numpy())
        ax.set_title(f"{name}, {found.artifacts.share[number]:.0%}", fontsize=9)
    return figure


def _heads(found: Diagnosis) -> Figure:
    figure, ax = plain_axes("block", "distance in cells")
    for number, heads in enumerate(found.attention.distance):
        ax.plot([number + 1] * len(heads), heads.tolist(), "o", color="C0", markersize=4, alpha=0.7)
    ax.axhline(found.attention.uniform, color="gray", linestyle=":", linewidth=1)
    return figure
