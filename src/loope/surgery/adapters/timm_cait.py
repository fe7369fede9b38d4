"""CaiT: only patches in the main blocks, the class token joins later, talking-heads attention."""

from __future__ import annotations

from typing import Any

from torch import nn

from loope.core.grid import Grid
from loope.surgery.adapters import attention as attentions
from loope.surgery.adapters.base import register_adapter
from loope.surgery.adapters.branch import Branch, PositionCall
from loope.surgery.adapters.timm import TimmAdapter, is_timm


@register_adapter
class CaitAdapter(TimmAdapter):
    """One sequence without prefix tokens; the class-attention blocks at the end stay as they are."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_timm(model, "cait", "Cait")

    def branches(self) -> list[Branch]:
        return self.one_branch()

    def attend(self, attention: nn.Module, position: PositionCall, *args: Any, **kwargs: Any) -> Any:
        return attentions.attend_talking_heads(attention, position, *args, **kwargs)

    def known_attentions(self) -> tuple[type, ...]:
        from timm.models.cait import TalkingHeadAttn

        return (TalkingHeadAttn,)

    def set_geometry(self, size: Grid) -> None:
        self.model.patch_embed.set_input_size(img_size=tuple(size))
