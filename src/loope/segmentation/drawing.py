"""Plots of segmentations: masks over images, legends, and examples with marked errors."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from loope.core.errors import require
from loope.core.text import printable
from loope.plots.layout import panels
from loope.segmentation.labels import VOID, Labels

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STRIPE = 3  # pixels: width of the white stripes that mark errors, and of their gaps


def overlay(image: Tensor, mask: Tensor, labels: Labels, strength: float = 0.5) -> Tensor:
    """Blend the class colours with the image.

    Args:
        image: `(H, W, 3)` uint8.
        mask: `(H, W)` classes; void shows the image only.
        labels: names and colours.
        strength: weight of the colours, from 0 to 1.

    Returns:
        `(H, W, 3)` uint8.
    """
    mixed = (1 - strength) * image + strength * labels.paint(mask)
    return torch.where((mask == VOID)[..., None], image, mixed.round().to(torch.uint8))


def mark_errors(mask: Tensor, truth: Tensor, labels: Labels) -> Tensor:
    """Paint the mask with white stripes over errors; void pixels are black.

    Args:
        mask: `(H, W)` classes.
        truth: `(H, W)` classes, or 255 for void.
        labels: names and colours.

    Returns:
        `(H, W, 3)` uint8.
    """
    painted = labels.paint(mask.masked_fill(truth == VOID, VOID))
    rows, columns = (torch.arange(side) for side in mask.shape)
    stripes = (rows[:, None] + columns) // STRIPE % 2 == 0
    return painted.masked_fill(((mask != truth) & (truth != VOID) & stripes)[..., None], 255)


def legend(labels: Labels, shares: Sequence[float] | None = None, columns: int = 3) -> Figure:
    """Draw a legend of the classes, optionally with the share of each in an image."""
    from matplotlib.patches import Patch

    figure, (ax,) = panels(1, 1)
    names = [
        name if shares is None else f"{name}  {share:.1%}"
        for name, share in zip(labels.names, shares or [0.0] * len(labels), strict=True)
    ]
    patches = [
        Patch(facecolor=(colour[0] / 255, colour[1] / 255, colour[2] / 255), edgecolor="0.4", label=name)
        for name, colour in zip(names, labels.colours, strict=True)
    ]
    ax.set_axis_off()
    shown = ax.legend(handles=patches, ncols=columns, loc="center", frameon=False, fontsize=9)
    shown.set_title(printable(labels.name))
    for text, name in zip((shown.get_title(), *shown.get_texts()), (labels.name, *names), strict=True):
        text.set_parse_math(False)  # a dollar sign in a name is not a formula
        text.set_text(printable(name))
    rows = -(-len(labels) // columns)
    figure.set_size_inches(2.2 * columns, 0.6 + 0.24 * rows)
    return figure


def examples(images: Tensor, truths: Tensor, masks: Mapping[str, Tensor], labels: Labels) -> Figure:
    """Plot images, ground truth and predictions, one row per image, with white stripes over errors.

    Args:
        images: `(n, H, W, 3)` uint8.
        truths: `(n, H, W)` classes, or 255 for void.
        masks: `(n, H, W)` predicted classes by name of the model or encoder.
        labels: names and colours.

    Raises:
        LoopeError: if shapes do not match.
    """
    for name, mask in (("truths", truths), *masks.items()):
        require(
            mask.shape == images.shape[:3],
            f"{name!r} must be {tuple(images.shape[:3])} as the images are, got {tuple(mask.shape)}.",
        )
    columns = 2 + len(masks)
    figure, axes = panels(len(images) * columns, columns, side=2.4)
    for row, (image, truth) in enumerate(zip(images, truths, strict=True)):
        cells = axes[row * columns : (row + 1) * columns]
        shown = {"image": image, "truth": labels.paint(truth)}
        shown |= {name: mark_errors(mask[row], truth, labels) for name, mask in masks.items()}
        for ax, (title, picture) in zip(cells, shown.items(), strict=True):
            ax.imshow(picture.numpy(), interpolation="nearest")
            if row == 0:
                ax.set_title(title, fontsize=9)
        for ax, mask in zip(cells[2:], masks.values(), strict=True):
            known = truth != VOID
            ax.set_xlabel(f"{(mask[row] == truth)[known].double().mean():.1%} right", fontsize=7)
    height, width = images.shape[1:3]
    figure.set_size_inches(2.4 * columns, len(images) * (2.4 * height / width + 0.25) + 0.3)
    return figure
