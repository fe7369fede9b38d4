"""SigLIP 2: images of any size and aspect ratio in one batch, as patches with the size of each image's grid."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor, nn

from loope.core.grid import Grid
from loope.positions import Positions
from loope.surgery.adapters.base import register_adapter
from loope.surgery.adapters.branch import Branch
from loope.surgery.adapters.patches import join_patches
from loope.surgery.adapters.transformers import HuggingFaceAdapter


@register_adapter
class Siglip2Adapter(HuggingFaceAdapter):
    """The embedding takes patches `(B, N, p * p * C)` and `spatial_shapes` `(B, 2)`; the rest of a row is padding."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return HuggingFaceAdapter.matches(model) and cls(model).family.folder == "siglip2"

    def own_size(self, entry: str = "") -> Grid:
        side = math.isqrt(self.core.config.num_patches) * self.core.config.patch_size
        return Grid(side, side)

    def positions(self, branch: Branch, tokens: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Positions]:
        patches, shapes = _arguments(*args, **kwargs)
        positions = _layout(shapes, tokens.shape[1])
        return join_patches(patches, positions, branch.patch_size, branch.channels), positions.to(tokens.device)

    def images_at(self, images: Any, branch: Branch, positions: Positions, *args: Any, **kwargs: Any) -> Any:
        patches, _ = _arguments(*args, **kwargs)
        return join_patches(patches, positions, branch.patch_size, branch.channels)


def _arguments(pixel_values: Tensor, spatial_shapes: Tensor) -> tuple[Tensor, Tensor]:
    """Name the arguments of the embedding."""
    return pixel_values, spatial_shapes


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _layout(shapes: Tensor, length: int) -> Positions:
    """Return positions for images of these sizes, `(B, 2)`, each padded to `length` patches."""
    grids = [Grid(*size) for size in shapes.tolist()]
    if len(set(grids)) == 1 and grids[0].size == length:
        return Positions((grids[0],))
    counts = torch.tensor([grid.size for grid in grids])[:, None]
    cells = torch.arange(length).expand(len(grids), -1)
    valid = cells < counts
    return Positions(tuple(grids), cells=cells.masked_fill(~valid, 0), valid=valid)
