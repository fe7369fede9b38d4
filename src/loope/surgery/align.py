"""Make room for rotations: queries and keys move what they compare into the channels that turn least.

A rotary encoder destroys the scores of a model that was trained without it: it turns channels that compare content.
The scores are q' k = x' Q' K x, so Q and K can be replaced by M Q and M^-T K without any change. M is chosen so that
the channels that matter most for the scores are those that the encoder turns least over the grid.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from loope.positions import Positions
from loope.surgery.own import evaluating
from loope.surgery.state import Attachment
from loope.surgery.watch import watched

PROJECTIONS = ("q_proj", "k_proj"), ("query", "key")
SMALLEST = 1e-6  # variances below this share of the largest are raised to it


class Moments(NamedTuple):
    """Second moments over patches and images, `(heads, d, d)` float64 each, on the CPU.

    Attributes:
        queries: of the queries.
        keys: of the keys, minus their mean in each image, which a softmax does not see.
    """

    queries: Tensor
    keys: Tensor


@torch.no_grad()
def align(model: nn.Module, attachment: Attachment, images: Tensor) -> bool:
    """Change the weights of queries and keys so that the attached rotary encoder disturbs the scores least.

    Without the encoder the model computes the same as before. If a module prevents this, such as a norm of queries and
    keys, the tokens show it, and all weights stay.

    Args:
        model: the model.
        attachment: with its rotary encoder.
        images: `(B, C, H, W)`, a batch to see what is compared.

    Returns:
        Whether the weights were changed.
    """
    rotary = [each for number in range(len(attachment.branches)) for each in attachment.encoders_of(number, "rotate")]
    if not rotary or any(each.widens for each in rotary):  # those that widen do not rotate
        return False
    strengths, before = attachment.strengths, []
    with evaluating(model):
        attachment.set_strengths(0.0, 1.0)
        try:
            with _moments(attachment) as moments, watched(model) as wanted:
                model(images)
            changed = [
                change
                for (number, layer), found in moments.items()
                if all(bool(each.isfinite().all()) for each in found)
                for change in _aligned(attachment, number, layer, found)
            ]
            before = [(parameter, parameter.clone()) for parameter, _, _ in changed]
            for parameter, rows, value in changed:
                parameter[rows] = value.to(parameter)
            with watched(model) as given:
                model(images)
            if _same(given[-1], wanted[-1]):
                before.clear()
                return bool(changed)
        finally:
            for parameter, value in reversed(before):
                parameter.copy_(value)
            attachment.set_strengths(*strengths)
    return False


def _same(given: Tensor, wanted: Tensor) -> bool:
    """Return whether tokens differ by no more than rounding."""
    most = max(2e-5, torch.finfo(wanted.dtype).eps)  # in ViT-Tiny rounding makes 1e-6 in float32
    return bool((given.float() - wanted.float()).norm() <= most * wanted.float().norm())


@contextmanager
def _moments(attachment: Attachment) -> Iterator[dict[tuple[int, int], Moments]]:
    """Collect the moments of the queries and keys of each block, by the numbers of branch and block."""
    seen: dict[tuple[int, int], Moments] = {}
    rotate = attachment.rotate

    def watch(number: int, q: Tensor, k: Tensor, positions: Any, layer: int) -> tuple[Tensor, Tensor]:
        queries, keys = q.float(), k.float() - k.float().mean(-2, keepdim=True)
        count = q.shape[0] * q.shape[2]
        seen[number, layer] = Moments(
            *(torch.einsum("bhnc,bhnd->hcd", each, each).cpu().double() / count for each in (queries, keys))
        )
        return rotate(number, q, k, positions, layer)

    attachment.rotate = watch  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        del attachment.rotate


def _aligned(attachment: Attachment, number: int, layer: int, moments: Moments) -> list[tuple[Tensor, slice, Tensor]]:
    """Return the new values of the weights and biases of a block's queries and keys, with the rows they are for."""
    modules = attachment.branches[number].attentions_of(layer)
    heads, width = moments.queries.shape[:2]
    found = _projections(modules[0], heads * width) if len(modules) == 1 else []
    if not found or not all(parameter.requires_grad for part in found for parameter, _ in part):
        return []  # what was frozen stays
    frame = _stillest(attachment, number, layer, heads, width)
    made = []
    for matrices, parts in zip(_bases(moments, frame), found, strict=True):
        for parameter, rows in parts:
            old = parameter[rows].cpu().double().view(heads, width, -1)
            made.append((parameter, rows, (matrices.mT @ old).view(parameter[rows].shape)))
    return made


def _bases(moments: Moments, frame: Tensor) -> tuple[Tensor, Tensor]:
    """Return the matrices `(heads, d, d)` that queries and keys are multiplied with from the right.

    The scores' parts are uncorrelated in the new channels: their variance falls from the first column of `frame` to
    the last, and queries and keys have the same share of it.
    """
    left, right = _root(moments.queries), _root(moments.keys)
    u, sizes, v = torch.linalg.svd(left.mT @ right)
    queries, keys = torch.linalg.solve(left.mT, u), torch.linalg.solve(right.mT, v.mT)
    scale = sizes.sqrt()[:, None]
    return queries * scale @ frame.mT, keys * scale @ frame.mT


def _root(moment: Tensor) -> Tensor:
    """Return L with L L' = the moment."""
    values, vectors = torch.linalg.eigh(moment)
    least = SMALLEST * values[:, -1:]
    least = torch.where(least > 0, least, 1.0)  # of a head that is all zeros
    root: Tensor = vectors * values.clamp(min=least).sqrt()[:, None]
    return root


def _stillest(attachment: Attachment, number: int, layer: int, heads: int, width: int) -> Tensor:
    """Return directions as the columns of `(heads, d, d)` float64, from the one that the encoder turns least.

    With the rotation of each patch, and M their mean, q' M' M k is the mean score of q and k over pairs of patches.
    """
    branch = attachment.branches[number]
    grid = attachment.host.adapter.window(branch.blocks[layer]) or branch.grid
    unit = torch.eye(width, device=next(branch.patch_embed.parameters()).device)
    unit = unit[:, None, None].expand(width, heads, grid.size, width)
    turned, _ = attachment.encoders_of(number, "rotate")[0].rotate(unit, unit, Positions((grid,)), layer)
    mean = turned.cpu().double().mean(2).transpose(0, 1)  # rows: the mean of each unit vector over patches
    directions: Tensor = torch.linalg.eigh(mean @ mean.mT)[1]
    return directions.flip(-1)


def _projections(attention: Any, width: int) -> list[list[tuple[Tensor, slice]]]:
    """Return weights and biases of queries and of keys with their rows; empty if the module has others.

    Modules are taken only if they are plain linear layers: others may hold their weights in another form.
    """
    packed = getattr(attention, "qkv", None)
    if type(packed) is nn.Linear and packed.out_features == 3 * width:
        parts = [
            [(each, slice(start, start + width)) for each in (packed.weight, packed.bias) if each is not None]
            for start in (0, width)
        ]
    else:
        layers = [getattr(attention, name, None) for names in PROJECTIONS for name in names]
        plain = [layer for layer in layers if type(layer) is nn.Linear and layer.out_features == width]
        if len(plain) != 2:
            return []
        parts = [
            [(each, slice(0, width)) for each in (layer.weight, layer.bias) if each is not None] for layer in plain
        ]
    for name, part in zip(("q_bias", "k_bias"), parts, strict=True):  # EVA and BEiT store the bias outside of the layer
        bias = getattr(attention, name, None)
        if isinstance(bias, nn.Parameter):
            part.append((bias, slice(0, width)))
    return parts
