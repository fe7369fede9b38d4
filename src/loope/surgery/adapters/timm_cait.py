"""CaiT: patches alone in the main blocks, the class token enters late, heads talk."""

from __future__ import annotations

from typing import Any

from torch import nn

from loope.core.grid import Grid
from loope.surgery.adapters import timm_attention
from loope.surgery.adapters.base import Branch, register_adapter
from loope.surgery.adapters.timm_vit import TimmAdapter, is_timm


@register_adapter
class CaitAdapter(TimmAdapter):
    """One sequence without prefix; the class attention at the end has no positions and is left alone."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        """All CaiT."""
        return is_timm(model, "cait", "Cait")

    def branches(self) -> list[Branch]:
        """One."""
        return self.one_branch()

    def attend(self, attention: nn.Module, position: Any, *args: Any, **kwargs: Any) -> Any:
        """Talking-heads attention, with positions."""
        return timm_attention.attend_talking_heads(attention, position, *args, **kwargs)

    def known_attentions(self) -> tuple[type, ...]:
        """Talking heads."""
        from timm.models.cait import TalkingHeadAttn

        return (TalkingHeadAttn,)

    def set_geometry(self, size: Grid) -> None:
        """The patch embedding's size."""
        self.model.patch_embed.set_input_size(img_size=tuple(size))
