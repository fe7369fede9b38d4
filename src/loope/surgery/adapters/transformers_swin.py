"""transformers' Swin: a branch for each stage, whose blocks attend in shifted windows; see `timm_swin`."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from loope.core.grid import Grid
from loope.positions import Positions
from loope.surgery.adapters import transformers_attention as attentions
from loope.surgery.adapters.attention import attends
from loope.surgery.adapters.base import register_adapter
from loope.surgery.adapters.branch import Branch, PositionCall, Slot
from loope.surgery.adapters.timm import square
from loope.surgery.adapters.transformers import HuggingFaceAdapter


class NoBias(nn.Module):
    """Stands in for the relative bias of an attention module."""

    zeros: Tensor

    def __init__(self, bias: Any):
        super().__init__()
        area = bias.window_area
        zeros = bias.relative_position_bias_table.new_zeros(1, 1, area, area)
        self.register_buffer("zeros", zeros, persistent=False)

    def forward(self) -> Tensor:
        """Return zeros for all pairs of patches in a window."""
        return self.zeros


@register_adapter
class SwinAdapter(HuggingFaceAdapter):
    """SwinModel, alone or inside another model."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return HuggingFaceAdapter.matches(model) and cls(model).family.folder == "swin"

    def branches(self) -> list[Branch]:
        return [self._stage(number) for number in range(len(self.core.encoder.layers))]

    def _stage(self, number: int) -> Branch:
        embeddings, stages = self.core.embeddings, self.core.encoder.layers
        blocks = list(stages[number].blocks)
        heads = blocks[0].attention.num_attention_heads
        first: dict[str, Any] = {
            "table": Slot(embeddings, "position_embeddings"),
            "embeddings": embeddings,
            "entry": embeddings.dropout,
            "add_at_entry": True,  # the patch embedding returns the grid too
        }
        grid = Grid(*embeddings.patch_embeddings.grid_size)
        for _ in range(number):
            grid = _merged(grid)
        return Branch(
            patch_embed=stages[number - 1].downsample if number else embeddings.patch_embeddings,
            blocks=blocks,
            attentions=[block.attention for block in blocks],
            dim=blocks[0].attention.head_dim * heads,
            heads=heads,
            grid=grid,
            patch_size=square(self.core.config.patch_size) * 2**number,
            channels=self.core.config.num_channels,
            own=[_own_bias(block.attention) for block in blocks],
            additive=number == 0,
            name=f"stage_{number}",
            **({} if number else first),
        )

    def positions(self, branch: Branch, tokens: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Positions]:
        if branch.additive:
            return super().positions(branch, tokens, *args, **kwargs)
        return None, Positions((_merged(Grid(*args[1])),))

    def window(self, block: Any) -> Grid:
        return Grid(block.window_size, block.window_size)

    def set_geometry(self, size: Grid) -> None:
        super().set_geometry(size)
        embeddings, side = self.core.embeddings, square(self.core.config.patch_size)
        embeddings.patch_grid = embeddings.patch_embeddings.grid_size = (size.height // side, size.width // side)


def _merged(grid: Grid) -> Grid:
    """Return the grid after four neighbours are merged."""
    return Grid(-(-grid.height // 2), -(-grid.width // 2))


def _own_bias(attention: Any) -> Slot:
    bias = attention.relative_position_bias
    return Slot(attention, "relative_position_bias", bias if isinstance(bias, NoBias) else NoBias(bias))


@attends("transformers.models.swin.modeling_swin.SwinAttention")
def attend_swin(
    attention: Any, position: PositionCall, hidden_states: Tensor, attention_mask: Tensor | None = None, **kwargs: Any
) -> tuple[Tensor, Tensor | None]:
    """Run Swin's attention on windows `(B * windows, tokens, D)`; the mask is `(windows, tokens, tokens)`."""
    own = position.own(attention.relative_position_bias())
    if attention_mask is not None:
        own = own + attention_mask[:, None].repeat(len(hidden_states) // len(attention_mask), 1, 1, 1)
    projected = attentions.project(attention, hidden_states)
    mixed, weights = attentions.mix(attention, position, projected, own, **kwargs)
    return attention.o_proj(mixed), weights
