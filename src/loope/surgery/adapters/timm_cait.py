"""CaiT: only patches in the main blocks, the class token joins later, talking-heads attention."""

from __future__ import annotations

from torch import nn

from loope.core.grid import Grid
from loope.surgery.adapters.base import register_adapter
from loope.surgery.adapters.branch import Branch
from loope.surgery.adapters.timm import TimmAdapter, is_timm


@register_adapter
class CaitAdapter(TimmAdapter):
    """One sequence without prefix tokens; the class-attention blocks at the end stay as they are."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_timm(model, "cait", "Cait")

    def branches(self) -> list[Branch]:
        return self.one_branch()

    def set_geometry(self, size: Grid) -> None:
        self.model.patch_embed.set_input_size(img_size=tuple(size))
