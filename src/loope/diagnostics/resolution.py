"""How a model does at other image sizes."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import require
from loope.core.grid import Grid, GridLike, as_grid
from loope.diagnostics.tokens import Watched
from loope.surgery.attach import resize
from loope.surgery.find import unwrapped


class ResolutionCurve(NamedTuple):
    """How a model does at other sizes.

    Attributes:
        sizes: height and width in pixels.
        agreement: `(sizes,)` float64, share of the images with the same largest output as at the model's own size.
        cosine: `(sizes,)`, mean cosine of the outputs with those at the model's own size.
        accuracy: `(sizes,)`, share of the images whose largest output is their label; None without labels.
        own: the model's own size.
        images: number of images.
    """

    sizes: list[Grid]
    agreement: Tensor
    cosine: Tensor
    accuracy: Tensor | None
    own: Grid
    images: int


def resolution_curve(model: nn.Module, images: Iterable[Any], sizes: Sequence[GridLike]) -> ResolutionCurve:
    """Measure agreement with the model at its own size and, with labels, accuracy at other image sizes.

    Every size is a copy of the model that `loope.resize` moves there from its own size: the own table is resampled, and
    attached encoders follow. Images are resized with antialiasing; give them at least as large as the largest size.

    Args:
        model: a model that `loope.attach` supports, with or without encoders, whose output has one row per image.
        images: batches `(B, C, H, W)`, or (images, labels) with int64 labels `(B,)`. They are kept in memory.
        sizes: image sizes in pixels, a number or (height, width) each, such as half to four times the model's own.

    Raises:
        LoopeError: if there are no images, or a size is not a multiple of the patch size.

    Examples:
        >>> import timm, torch, loope
        >>> model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=2)
        >>> curve = loope.resolution_curve(model, [torch.rand(4, 3, 64, 64)], sizes=[32, 64, 128])
        >>> curve.agreement[1].item(), curve.accuracy
        (1.0, None)
    """
    batches = [images] if isinstance(images, Tensor) else list(images)
    pixels = list(Watched(model).batches(batches))
    require(bool(pixels), "There are no images: pass a list or loader of batches.")
    labels = _labels(batches, [len(each) for each in pixels])
    own = Watched(model).branch.pixels
    wanted = [as_grid(size, "size") for size in sizes]
    require(bool(wanted), "Give at least one size in pixels.")
    at_home = _outputs(model, pixels, own)
    made = [at_home if size == own else _outputs(model, pixels, size) for size in wanted]
    answers = [each.argmax(-1) for each in made]
    return ResolutionCurve(
        wanted,
        torch.stack([(each == at_home.argmax(-1)).double().mean() for each in answers]),
        torch.stack([F.cosine_similarity(each, at_home, dim=-1).mean() for each in made]),
        None if labels is None else torch.stack([(each == labels).double().mean() for each in answers]),
        own,
        len(at_home),
    )


def _outputs(model: nn.Module, batches: Sequence[Tensor], size: Grid) -> Tensor:
    """Return the outputs of a copy of the model at a size, `(images, classes)` float64."""
    twin = copy.deepcopy(unwrapped(model))
    resize(twin, size)
    watched = Watched(twin)
    made = [watched.run(_resized(batch, size)).output for batch in batches]
    require(
        all(each.dim() == 2 for each in made),
        f"Expected a model with one row of outputs per image, got {tuple(made[0].shape)}; use a classifier.",
    )
    return torch.cat(made).double().cpu()


def _resized(images: Tensor, size: Grid) -> Tensor:
    if tuple(images.shape[-2:]) == tuple(size):
        return images
    return F.interpolate(images.float(), tuple(size), mode="bicubic", antialias=True).to(images)


def _labels(batches: Sequence[Any], counts: Sequence[int]) -> Tensor | None:
    """Return the labels of all images, or None if batches are images alone."""
    found = [each[1] if isinstance(each, tuple | list) and len(each) > 1 else None for each in batches]
    if any(each is None for each in found):
        return None
    for each, count in zip(found, counts, strict=True):
        require(
            isinstance(each, Tensor) and not each.is_floating_point() and tuple(each.shape) == (count,),
            f"Labels must be class numbers, one for each of the {count} images of a batch.",
        )
    return torch.cat([each for each in found if each is not None]).cpu()
