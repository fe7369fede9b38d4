"""What the adapters of timm's models share, among them how `timm.create_model` builds a model again."""

from __future__ import annotations

import sys
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import MissingPackageError, require
from loope.core.grid import Grid, as_grid
from loope.encoders.resample import resample
from loope.surgery.adapters import attention as attentions
from loope.surgery.adapters.base import Adapter, WrapperAdapter, register_adapter
from loope.surgery.adapters.branch import Branch, PositionCall, Slot

OFFSETS = ("rel_pos_h", "rel_pos_w")  # a vector for each offset along an axis, in the attention of SAM and ViTDet


def is_timm(model: nn.Module, module: str, *classes: str) -> bool:
    """Return whether `model` is an instance of one of timm's classes, without importing timm."""
    home = sys.modules.get(f"timm.models.{module}")
    return home is not None and isinstance(model, tuple(getattr(home, name) for name in classes))


def square(patch_size: Any) -> int:
    """Return the side of a patch.

    Raises:
        LoopeError: if patches are not square.
    """
    height, width = as_grid(patch_size, "patch_size")
    require(height == width, f"Patches must be square, got {height}x{width}.")
    return height


def patch_drop(model: Any) -> nn.Module | None:
    """Return the module that drops patches in training, if the model has one."""
    from timm.layers.patch_dropout import PatchDropout, PatchDropoutWithIndices

    found = getattr(model, "patch_drop", None)
    return found if isinstance(found, (PatchDropout, PatchDropoutWithIndices)) else None


def check_timm(name: Any, args: dict[str, Any]) -> None:
    """Check a model of an untrusted file: a name with a scheme, or an argument that names a file, would be read.

    Raises:
        LoopeError: if `timm.create_model` would read files or addresses.
    """
    import timm

    require(timm.is_model(name), f"timm has no model {name!r}.")
    outside = [key for key in args if key.startswith(("pretrained", "checkpoint", "cache"))]
    require(not outside, f"A model cannot be built with {', '.join(outside)} from a checkpoint.")


def attentions_of(block: Any) -> nn.Module | list[nn.Module]:
    """Return the attention of a block: one module, several in parallel, or the block itself if it is no part."""
    if hasattr(block, "attns"):
        return [each.attn for each in block.attns]
    attention: nn.Module = getattr(block, "attn", block)
    return attention


def heads_of(block: Any) -> int:
    """Return the number of attention maps of a block: one for each head, or two in differential attention."""
    found = attentions_of(block)
    attention: Any = found[0] if isinstance(found, list) else found
    return getattr(attention, "num_heads", 1) * (2 if hasattr(attention, "lambda_init") else 1)


def resized_bias(table: Tensor, old: tuple[int, int], new: tuple[int, int]) -> nn.Parameter:
    """Resample a table of biases: one row per offset, which form a grid, then those of the class token, if any."""
    offsets = [Grid(2 * height - 1, 2 * width - 1) for height, width in (old, new)]
    with torch.no_grad():
        moved = torch.cat((resample(table[: offsets[0].size], *offsets), table[offsets[0].size :]))
    return nn.Parameter(moved, table.requires_grad)


def resized_offsets(table: nn.Parameter, length: int) -> nn.Parameter:
    """Resample one vector per offset, `(old, d)`, as the model itself does in its forward pass."""
    if len(table) == length:
        return table
    with torch.no_grad():
        moved = F.interpolate(table.float().T[None], size=length, mode="linear")[0].T
    return nn.Parameter(moved.to(table.dtype).contiguous(), table.requires_grad)


class BuiltByTimm(Adapter):
    """Describes and builds models of `timm.create_model`."""

    model: Any
    library: ClassVar[str] = "timm"

    def describe(self, size: Grid, args: dict[str, Any]) -> dict[str, Any]:
        model = self.model
        about = getattr(model, "pretrained_cfg", None) or {}
        name = ".".join(part for part in (about.get("architecture"), about.get("tag")) if part)
        require(
            bool(name),
            f"Can only save models made by timm.create_model, which this {type(model).__name__} was not; for others "
            "write an adapter with `describe` and `build`, or use safetensors.torch.save_model.",
        )
        found: dict[str, Any] = {"in_chans": self.branches()[0].channels}
        if hasattr(model, "num_classes"):
            found["num_classes"] = model.num_classes
        else:  # `features_only=True`: there is no head
            found |= {"features_only": True, "out_indices": list(model.out_indices)}
        return {"name": name, "args": {**found, **args, **self.size_args(size)}}

    def size_args(self, size: Grid) -> dict[str, Any]:
        """Return the arguments of `timm.create_model` for an image size."""
        return {"img_size": list(size)}

    @classmethod
    def build(cls, about: dict[str, Any]) -> nn.Module:
        try:
            import timm
        except ImportError:
            raise MissingPackageError("The file's model is one of timm's: pip install 'loope[models]'.") from None

        check_timm(about["name"], about["args"])
        args = {key: tuple(value) if isinstance(value, list) else value for key, value in about["args"].items()}
        create: Any = timm.create_model
        model: nn.Module = create(about["name"], pretrained=False, **args)
        return model


class TimmAdapter(BuiltByTimm):
    """Base class for timm's families."""

    def one_branch(self, **special: Any) -> list[Branch]:
        """Return the branch of a model with one sequence of tokens; `special` has what differs between families."""
        model = self.model
        usual: dict[str, Any] = {
            "patch_embed": model.patch_embed,
            "blocks": list(model.blocks),
            "attentions": [attentions_of(block) for block in model.blocks],
            "dim": model.embed_dim,
            "heads": heads_of(model.blocks[0]),
            "grid": Grid(*model.patch_embed.grid_size),
            "patch_size": square(model.patch_embed.feat_ratio(as_scalar=False)),  # includes a hybrid's CNN stem
            "channels": getattr(model, "in_chans", 3),
            "table": Slot(model, "pos_embed") if hasattr(model, "pos_embed") else None,
            # Without a table, `pos_drop` is not called.
            "entry": getattr(model, "norm_pre", getattr(model, "pos_drop", None)),
        }
        return [Branch(**{**usual, **special})]

    def attend(self, attention: nn.Module, position: PositionCall, *args: Any, **kwargs: Any) -> Any:
        return attentions.attend_as(type(attention))(attention, position, *args, **kwargs)

    def drop(self, patch_drop: Any, tokens: Tensor) -> tuple[Any, Tensor | None]:
        from timm.layers.patch_dropout import PatchDropoutWithIndices, patch_dropout_forward

        left, kept = patch_dropout_forward(
            tokens, patch_drop.prob, patch_drop.num_prefix_tokens, patch_drop.ordered, patch_drop.training
        )
        return (left, kept) if isinstance(patch_drop, PatchDropoutWithIndices) else left, kept

    def known_attentions(self) -> tuple[type, ...]:
        return attentions.known_attentions()


@register_adapter
class FeaturesAdapter(BuiltByTimm, WrapperAdapter):
    """Feature extractors of `timm.create_model(..., features_only=True)` around a transformer."""

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        return is_timm(model, "_features", "FeatureGetterNet")

    def inner(self) -> nn.Module:
        inner: nn.Module = self.model.model
        return inner

    def size_args(self, size: Grid) -> dict[str, Any]:
        inside: Any = self.inside
        args: dict[str, Any] = inside.size_args(size)
        return args
