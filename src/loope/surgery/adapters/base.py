"""The interface between `loope` and a family of models.

To support your own model, write an `Adapter` with `matches` and `branches` and register it with `@register_adapter`.
Add `attend` for encoders that act in attention, `set_geometry` for other resolutions, and `describe` and `build` for
`loope.save` and `loope.load`. For a model around a supported one, write a `WrapperAdapter` with `matches` and `inner`.
"""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import LoopeError, require, unknown
from loope.core.grid import Grid, as_grid
from loope.core.plugins import import_plugin, plugin_names
from loope.positions import Positions
from loope.surgery.adapters.branch import Branch, PositionCall


class Adapter:
    """Describes a family of models to `loope`; each instance serves one model.

    Attributes:
        model: the model.
        library: the name under which files refer to `build`; by default the name of the class that defines `build`.
    """

    library: ClassVar[str] = ""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "build" in vars(cls) and "library" not in vars(cls):
            cls.library = cls.__name__

    def __init__(self, model: nn.Module):
        self.model = model

    @classmethod
    def matches(cls, model: nn.Module) -> bool:
        """Return whether this adapter supports `model`."""
        raise LoopeError(f"{cls.__name__} must say which models it is for: define the class method `matches`.")

    def branches(self) -> list[Branch]:
        """Return the model's sequences of patch tokens."""
        raise LoopeError(f"{type(self).__name__} must describe its model: define `branches`.")

    def positions(self, branch: Branch, tokens: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Positions]:
        """Return the images and the positions of their patches.

        Args:
            branch: one of `branches()`.
            tokens: what the patch embedding returned, `(B, N, D)` or `(B, h, w, D)`.
            args: what it was called with; by default the images come first.
            kwargs: what it was called with.
        """
        images: Tensor = args[0]
        (height, width), side, count = images.shape[-2:], branch.patch_size, tokens.shape[1:-1].numel()
        # A model that accepts a size between two multiples of the patch size pads the image, or crops it.
        grid = as_grid((-(-height // side), -(-width // side)))
        if count != grid.size and count == (height // side) * (width // side):
            grid = as_grid((height // side, width // side))
        if count != grid.size:
            raise LoopeError(
                f"Expected {grid} patches of an image of {height}x{width} pixels, got tokens of shape "
                f"{tuple(tokens.shape)}; use a size that is a multiple of {side}."
            )
        missing = [grid[axis] * side - images.shape[axis - 2] for axis in (0, 1)]
        return F.pad(images, (0, missing[1], 0, missing[0])) if any(missing) else images, Positions((grid,))

    def images_at(self, images: Any, branch: Branch, positions: Positions, *args: Any, **kwargs: Any) -> Any:
        """Return the images for positions given by `use_positions`; by default the `images` that `positions` found."""
        return images

    def attend(self, attention: nn.Module, position: PositionCall, *args: Any, **kwargs: Any) -> Any:
        """Compute `attention.forward(*args, **kwargs)` with `q, k, bias = position(q, k)` before the scores.

        Args:
            attention: one of the branch's attention modules.
            position: rotates queries and keys, and returns a bias for the scores.
            args: as the block calls its attention.
            kwargs: as the block calls its attention.

        Returns:
            What `attention.forward` returns.
        """
        raise LoopeError(f"{type(self).__name__} has no `attend`; define it for encoders that act in attention.")

    def drop(self, patch_drop: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, Tensor | None]:
        """Compute `patch_drop.forward(*args, **kwargs)` with the same random draws, for the branch's `patch_drop`.

        Returns what it returns, and the numbers of the patches that are left, `(B, M)` int64, or None if all are.
        """
        raise LoopeError(f"{type(self).__name__} has no `drop`; define it for a model that drops patches.")

    def known_attentions(self) -> tuple[type, ...]:
        """Return the attention classes that `attend` supports; empty if it supports all."""
        return ()

    def window(self, block: nn.Module) -> Grid | None:
        """Return the grid of the windows in which a block attends; None if it attends over the whole grid."""
        return None

    def sync_own(self) -> None:
        """Adapt the model after parts of its own encoding were taken out or put back; most models need nothing."""

    def check_bias(self) -> None:
        """Raise a LoopeError if the model's attention cannot add a bias to its scores; by default it can."""

    def set_geometry(self, size: Grid) -> None:
        """Make the model accept images of `size` pixels; `loope.resize` resamples its additive tables."""
        raise LoopeError(f"{type(self).__name__} has no `set_geometry`, so the model cannot be resized.")

    def describe(self, size: Grid, args: dict[str, Any]) -> dict[str, Any]:
        """Return what `build` needs to build the model again without its weights, as plain data for JSON.

        Args:
            size: image size in pixels that the model's own position encoding is for.
            args: the `model_args` of `loope.save`.
        """
        raise LoopeError(
            f"Cannot save a {type(self.model).__name__}: {type(self).__name__} has no `describe` and `build`. Define "
            "both, or save the weights alone with safetensors.torch.save_model."
        )

    @classmethod
    def build(cls, about: dict[str, Any]) -> nn.Module:
        """Build the model that `describe` described, with new weights.

        `about` may come from an untrusted file: check it, and never read a path or an address from it.
        """
        raise LoopeError(f"{cls.__name__} has no `build`, so its models cannot be loaded.")


class WrapperAdapter(Adapter):
    """Adapter for a model that contains a supported one; it delegates to the adapter of the inner model."""

    def __init__(self, model: nn.Module):
        super().__init__(model)
        self.inside = adapter_for(self.inner())

    def inner(self) -> nn.Module:
        """Return the supported model inside this one."""
        raise LoopeError(f"{type(self).__name__} must say where the known model is: define `inner`.")

    def branches(self) -> list[Branch]:
        return self.inside.branches()

    def positions(self, branch: Branch, tokens: Tensor, *args: Any, **kwargs: Any) -> tuple[Any, Positions]:
        return self.inside.positions(branch, tokens, *args, **kwargs)

    def images_at(self, images: Any, branch: Branch, positions: Positions, *args: Any, **kwargs: Any) -> Any:
        return self.inside.images_at(images, branch, positions, *args, **kwargs)

    def attend(self, attention: nn.Module, position: PositionCall, *args: Any, **kwargs: Any) -> Any:
        return self.inside.attend(attention, position, *args, **kwargs)

    def drop(self, patch_drop: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, Tensor | None]:
        return self.inside.drop(patch_drop, *args, **kwargs)

    def known_attentions(self) -> tuple[type, ...]:
        return self.inside.known_attentions()

    def window(self, block: nn.Module) -> Grid | None:
        return self.inside.window(block)

    def sync_own(self) -> None:
        self.inside.sync_own()

    def check_bias(self) -> None:
        self.inside.check_bias()

    def set_geometry(self, size: Grid) -> None:
        self.inside.set_geometry(size)


_ADAPTERS: list[type[Adapter]] = []
A = TypeVar("A", bound=type[Adapter])


def register_adapter(cls: A) -> A:
    """Register an adapter class (a decorator); the last one registered is asked first."""
    _ADAPTERS.insert(0, cls)
    return cls


def adapter_for(model: nn.Module) -> Adapter:
    """Return the adapter of a model.

    Raises:
        LoopeError: if no adapter supports the model.
    """
    require(isinstance(model, nn.Module), f"Expected a model (torch.nn.Module), got {type(model).__name__}.")
    for cls in _ADAPTERS:
        if cls.matches(model):
            return cls(model)
    for name, part in model.named_modules():
        if any(cls.matches(part) for cls in _ADAPTERS):
            raise LoopeError(
                f"Expected a vision transformer, got {type(model).__name__} with a {type(part).__name__} inside: pass "
                f"`model.{name}`, before it is wrapped, or write a `loope.WrapperAdapter`."
            )
    raise LoopeError(
        f"Do not know how to attach to {type(model).__name__}{_stages(model)}; known are timm's VisionTransformer and "
        "its variants (ViT, DeiT, SAM, ...), Eva, Beit, Cait, CrossVit, NaFlexVit and Swin, transformers' plain vision "
        "transformers (ViT, DINO, CLIP, SigLIP, BEiT and others) and what contains one, and loope.segmentation. For a "
        "model of your own see `loope.Adapter`."
    )


def _stages(model: nn.Module) -> str:
    """Return a remark on a timm model that merges its patches from stage to stage."""
    info = getattr(model, "feature_info", None)
    if not isinstance(info, list):
        return ""
    sides = sorted({each.get("reduction", 0) for each in info})
    return f", whose stages have several grids (patches of {', '.join(map(str, sides))} pixels)" if sides[1:] else ""


def describe_model(adapter: Adapter, size: Grid, args: dict[str, Any]) -> dict[str, Any]:
    """Return what `build_model` needs to build the adapter's model again; see `Adapter.describe`.

    Raises:
        LoopeError: if the model cannot be built again.
    """
    about = adapter.describe(size, args)
    require(bool(adapter.library), f"{type(adapter).__name__} has `describe` but no `build`; define it to save models.")
    return {"library": adapter.library, **about}


def build_model(about: dict[str, Any]) -> nn.Module:
    """Build the model that `describe_model` described, with new weights. Only registered adapters build models.

    Raises:
        LoopeError: if no registered adapter builds models of this library.
    """
    library = about["library"]
    import_plugin(library)
    for cls in _ADAPTERS:
        if cls.library and cls.library == library:
            return cls.build(about)
    known = {cls.library for cls in _ADAPTERS if cls.library} | set(plugin_names())
    raise unknown("library", library, sorted(known))
