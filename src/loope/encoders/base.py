"""What an encoder is: one protocol with four hooks, of which each encoder implements those it needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid, GridLike, as_grid, as_size
from loope.core.registry import Registry
from loope.encoders.constants import Constants

MOST_DIM = 2**20  # width of tokens
# Where each hook acts, in the words of the documentation.
KINDS = {"embed": "additive", "mix": "conditional", "rotate": "rotary", "bias": "bias"}


class PositionalEncoder(nn.Module):
    """Gives patch tokens their position; subclasses implement `embed`, `mix`, `rotate` or `bias`.

    An encoder sees patches only, in row-major order; class and register tokens are the model's affair.

    Args:
        dim: width D of the tokens.
        grid: side length or (height, width) of the grid of patches.

    Examples:
        >>> create_encoder("gilbert", dim=8, grid=(2, 3))(None).shape
        torch.Size([1, 6, 8])
    """

    name: ClassVar[str] = "custom"
    paper: ClassVar[str] = ""
    # Whether what it gives may depend on images, tokens or queries; False promises that the grid decides alone.
    reads_content: bool = True
    # What `attach` gives class and register tokens unless told otherwise: "none", or "learned" vectors.
    prefix: str = "none"
    _anchor: Tensor

    def __init__(self, dim: int, grid: GridLike):
        super().__init__()
        self.dim = as_size(dim, "dim", most=MOST_DIM)
        self.grid = as_grid(grid)
        # Follows `.to(...)`, so that encoders without parameters know their device and dtype too.
        self.register_buffer("_anchor", torch.empty(0), persistent=False)
        self._constants = Constants()

    def forward(self, images: Tensor | None = None, grid: GridLike | None = None) -> Tensor:
        """`(1 or B, N, D)`: what `embed` adds to the patch tokens, on the own grid or, for this call, on another."""
        return self.embed(images, self._place(grid))

    # The hooks. `hooks()` tells which of them a class implements.

    def embed(self, images: Tensor | None, grid: Grid) -> Tensor:
        """`(1 or B, N, D)`, added to the patch tokens."""
        raise self._lacks("embed")

    def mix(self, tokens: Tensor, grid: Grid, layer: int) -> Tensor:
        """`(B, N, D)` to `(B, N, D)`, after block `layer`."""
        raise self._lacks("mix")

    def rotate(self, q: Tensor, k: Tensor, grid: Grid, layer: int) -> tuple[Tensor, Tensor]:
        """Queries and keys, `(B, heads, N, d)` each, before the scores."""
        raise self._lacks("rotate")

    def bias(self, q: Tensor, grid: Grid, layer: int) -> Tensor:
        """`(1 or B, heads, N, N)`, added to the scores (which are scaled by d^-1/2 already)."""
        raise self._lacks("bias")

    def mixes_after(self, layer: int) -> bool:
        """Whether `mix` does anything after block `layer`; a model is wired there only."""
        return "mix" in self.hooks()

    def no_weight_decay(self) -> set[str]:
        """Names of parameters that are positions rather than weights, and should not decay towards zero."""
        return set()

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """`(N, N)`: how alike positions are. For additive encoders, the cosine of their vectors.

        `loope.encoder_similarity` gives the same in float64, whatever the encoder's dtype, and for images.
        """
        vectors = nn.functional.normalize(self(None, grid)[0].to(_wide(self.dtype)), dim=-1)
        return vectors @ vectors.T

    def resize(self, grid: GridLike) -> PositionalEncoder:
        """Move to another grid in place: learned parts are resampled, static ones follow by themselves.

        Resampled parameters are new objects: make the optimizer after resizing.
        """
        new = as_grid(grid)
        if new != self.grid:
            with torch.no_grad():
                self._resample(new)
            self.grid = new
        return self

    def _resample(self, grid: Grid) -> None:
        """Resample the parameters that are tied to the grid; most encoders have none."""

    @classmethod
    def hooks(cls) -> tuple[str, ...]:
        """The hooks this encoder implements; a model is wired to exactly those."""
        return tuple(hook for hook in KINDS if getattr(cls, hook) is not getattr(PositionalEncoder, hook))

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the encoder's output: float32 unless it was cast."""
        return self._anchor.dtype

    def constant(self, what: str, grid: Grid) -> Tensor:
        """What the method `what` makes of a grid, on this encoder's device: made once for each grid, then kept.

        Floating results are float32 even in a half-precision encoder (float64 in a float64 one): indices above 256 are
        not all distinct in bfloat16. They are not part of the state dict.
        """
        height, width = as_grid(grid)  # whole numbers, where a compiler has symbols for them
        made: Tensor = self._constant(id(self), what, height, width, self._anchor.device, _wide(self.dtype))
        return made

    # The compilers call this while tracing and keep the result. `owner` is there for their guards: two encoders of one
    # class share the traced code, but not the result.
    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def _constant(
        self, owner: int, what: str, height: int, width: int, device: torch.device, dtype: torch.dtype
    ) -> Tensor:
        return self._constants.get(getattr(self, what), Grid(height, width), device, dtype)

    def _place(self, grid: GridLike | None) -> Grid:
        """The grid asked for, or else the own one."""
        return self.grid if grid is None else as_grid(grid)

    def _check_tokens(self, tokens: Tensor, grid: Grid) -> None:
        """Raise `LoopeError` unless `tokens` `(..., N, d)` are the patches of the grid; looks at the shape only."""
        if tokens.shape[-2] != grid.size:
            raise LoopeError(
                f"{self.name!r} expects the {grid.size} patches of a grid of {grid}, got {tokens.shape[-2]} tokens; "
                "leave out class and register tokens, and pass the grid of the image."
            )

    def _check_layer(self, layer: int, depth: int) -> None:
        if not 0 <= layer < depth:
            raise LoopeError(f"{self.name!r} was made for {depth} blocks, 0 to {depth - 1}, got layer {layer}.")

    def _lacks(self, hook: str) -> LoopeError:
        own = ", ".join(f"`{hook}`" for hook in self.hooks()) or "nothing"
        return LoopeError(f"{self.name!r} has no `{hook}`; it acts through {own}.")

    def extra_repr(self) -> str:
        """Width and grid, for `print(encoder)`."""
        return f"dim={self.dim}, grid={self.grid}"


def _wide(dtype: torch.dtype) -> torch.dtype:
    """`dtype`, but at least float32."""
    return torch.promote_types(dtype, torch.float32)


class StaticTable(PositionalEncoder):
    """What additive encoders share that depend on the grid alone: `_table` makes their `(1, N, D)` vectors."""

    reads_content = False

    def embed(self, images: Tensor | None, grid: Grid) -> Tensor:
        """`(1, N, D)`; the image is not used."""
        return self.constant("_table", grid).to(self.dtype, copy=True)  # whoever gets it may write into it


Encoder = TypeVar("Encoder", bound=type[PositionalEncoder])
_ENCODERS: Registry[type[PositionalEncoder]] = Registry("encoder")
list_encoders = _ENCODERS.names
encoder_class = _ENCODERS.__getitem__


def register_encoder(name: str, *, replace: bool = False) -> Callable[[Encoder], Encoder]:
    """A decorator that makes an encoder class available under `name`.

    Examples:
        >>> import loope, torch
        >>> @loope.register_encoder("row_number")
        ... class RowNumber(loope.PositionalEncoder):
        ...     def embed(self, images, grid):
        ...         return grid.coordinates()[0].float()[None, :, None].expand(1, -1, self.dim)
        >>> loope.create_encoder("row_number", dim=1, grid=(3, 1))(None).flatten()
        tensor([0., 1., 2.])
    """

    def name_and_file(cls: Encoder) -> Encoder:
        require(
            isinstance(cls, type) and issubclass(cls, PositionalEncoder),
            f"An encoder must be a subclass of loope.PositionalEncoder, got {cls!r}.",
        )
        _ENCODERS.register(name, replace=replace)(cls)
        cls.name = name
        return cls

    return name_and_file


def create_encoder(
    name: str,
    dim: int,
    grid: GridLike,
    *,
    patch_size: int | None = None,
    channels: int | None = None,
    heads: int | None = None,
    depth: int | None = None,
    **options: Any,
) -> PositionalEncoder:
    """Make an encoder by name.

    The named arguments describe the model: an encoder takes those it needs and the others do it no harm, so that one
    call fits all. Options are the encoder's own, and unknown ones raise.

    Args:
        name: one of `list_encoders()`.
        dim: width D of the tokens.
        grid: side length or (height, width) of the grid of patches.
        patch_size: side of a patch in pixels, for encoders that read the image.
        channels: channels of the image, for encoders that read it.
        heads: attention heads, for encoders that act in attention.
        depth: blocks of the model, for encoders that learn something for each.
        options: the encoder's own options; see its class.

    Raises:
        LoopeError: for an unknown name or option, or a missing or unfit argument.
    """
    context = {"dim": dim, "grid": grid, "patch_size": patch_size, "channels": channels, "heads": heads, "depth": depth}
    made: PositionalEncoder = _ENCODERS.create(name, context, options)
    return made
