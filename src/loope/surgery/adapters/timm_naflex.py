"""timm's NaFlexVit: images of any size and aspect ratio in one batch, as patches with coordinates."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import require
from loope.core.grid import Grid
from loope.positions import Positions
from loope.surgery.adapters.base import register_adapter
from loope.surgery.adapters.branch import Branch, Slot
from loope.surgery.adapters.patches import join_patches
from loope.surgery.adapters.timm import TimmAdapter, attentions_of, heads_of, is_timm, patch_drop, square


@register_adapter
class NaFlexAdapter(TimmAdapter):
    """One sequence, prefix tokens before the patches; `model.embeds` adds both the prefix and the own table.

    Positions are added at the end of `model.embeds`, before its dropout.
    """

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_timm(model, "naflexvit", "NaFlexVit")

    def branches(self) -> list[Branch]:
        model, embeds = self.model, self.model.embeds
        require(
            embeds.pos_embed_grid_size is not None,
            "This NaFlexVit has no size to start from; create it with pos_embed_grid_size=(rows, columns) or img_size.",
        )
        return [
            Branch(
                patch_embed=embeds,
                blocks=list(model.blocks),
                attentions=[attentions_of(block) for block in model.blocks],
                dim=model.embed_dim,
                heads=heads_of(model.blocks[0]),
                grid=Grid(*embeds.pos_embed_grid_size),
                patch_size=square(embeds.patch_size),
                channels=embeds.in_chans,
                prefix=model.num_prefix_tokens,
                table=Slot(embeds, "pos_embed"),
                table_square=embeds.pos_embed_ar_preserving,
                entry=embeds.pos_drop,
                add_at_entry=True,
                patch_drop=patch_drop(model),
                axis_tables=[Slot(embeds, "pos_embed_y"), Slot(embeds, "pos_embed_x")],
                own=[Slot(model, "rope")],
            )
        ]

    def positions(self, branch: Branch, tokens: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Positions]:
        return self._positions(branch, tokens, *args, **kwargs)

    def _positions(
        self,
        branch: Branch,
        tokens: Tensor,
        x: Tensor,
        patch_coord: Tensor | None = None,
        patch_valid: Tensor | None = None,
    ) -> tuple[Any, Positions]:
        """Return images and positions; the arguments after `tokens` are those of `model.embeds`."""
        if patch_coord is None:
            return super().positions(branch, tokens, x)
        require(
            not patch_coord.is_floating_point(),
            f"`patch_coord` must hold whole numbers, got {patch_coord.dtype}; give other positions with "
            "loope.use_positions.",
        )
        valid = None if patch_valid is None else patch_valid.bool()
        grids, whole = _layout(patch_coord, valid)
        if whole:
            positions = Positions(grids[:1])
        else:
            widths = torch.tensor([grid.width for grid in grids], device=patch_coord.device)
            cells = patch_coord[..., 0] * widths[:, None] + patch_coord[..., 1]
            cells = cells if valid is None else cells.masked_fill(~valid, 0)
            positions = Positions(grids, cells=cells, valid=valid)
        return self._images(branch, x, positions), positions

    def images_at(self, images: Any, branch: Branch, positions: Positions, *args: Any, **kwargs: Any) -> Any:
        coordinates = kwargs.get("patch_coord", args[1] if len(args) > 1 else None)
        return images if coordinates is None else self._images(branch, args[0], positions)

    def _images(self, branch: Branch, patches: Tensor, positions: Positions) -> Tensor | list[Tensor] | None:
        """Put patches `(B, N, ...)` together to images; None if patch interpolation will change their size."""
        last = getattr(self.model.embeds, "channels_last", True)
        return join_patches(patches, positions, branch.patch_size, branch.channels, last)

    def sync_own(self) -> None:
        embeds = self.model.embeds
        kinds = {"learned": embeds.pos_embed, "factorized": embeds.pos_embed_y}
        # Zeros in place of a table are no parameter.
        embeds.pos_embed_type = next((kind for kind in kinds if isinstance(kinds[kind], nn.Parameter)), "none")

    def set_geometry(self, size: Grid) -> None:
        """Set the grid of the model's own tables; the model itself accepts images of any size."""
        embeds = self.model.embeds
        side = square(embeds.patch_size)
        embeds.pos_embed_grid_size = size.height // side, size.width // side
        for name, length in zip(("pos_embed_y", "pos_embed_x"), embeds.pos_embed_grid_size, strict=True):
            table = getattr(embeds, name)
            if table is not None and table.shape[1] != length:
                with torch.no_grad():
                    moved = F.interpolate(table.transpose(1, 2).float(), length, mode="linear").transpose(1, 2)
                setattr(embeds, name, nn.Parameter(moved.to(table.dtype), table.requires_grad))

    def size_args(self, size: Grid) -> dict[str, Any]:
        side = square(self.model.embeds.patch_size)
        found: dict[str, Any] = {"pos_embed_grid_size": [size.height // side, size.width // side]}
        architecture = (getattr(self.model, "pretrained_cfg", None) or {}).get("architecture", "")
        return found if architecture.startswith("naflexvit") else {**found, "use_naflex": True}


@torch.compiler.disable  # type: ignore[untyped-decorator]
def _layout(coordinates: Tensor, valid: Tensor | None) -> tuple[tuple[Grid, ...], bool]:
    """Return the grid of each image, and whether each has all cells of the same grid in row-major order.

    Args:
        coordinates: `(B, N, 2)` integer, row and column of each patch.
        valid: `(B, N)` bool, False for padding.
    """
    shown = coordinates if valid is None else coordinates.masked_fill(~valid[..., None], 0)
    require(bool((shown >= 0).all()), "`patch_coord` must hold rows and columns from 0.")
    grids = tuple(Grid(*size) for size in (shown.amax(dim=1) + 1).tolist())
    if len(set(grids)) > 1 or grids[0].size != coordinates.shape[1]:
        return grids, False
    cells = shown[..., 0] * grids[0].width + shown[..., 1]
    in_order = cells == torch.arange(grids[0].size, device=cells.device)
    return grids, bool((in_order if valid is None else in_order & valid).all())
