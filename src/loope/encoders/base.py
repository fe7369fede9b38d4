"""The encoder protocol: four hooks, of which each encoder implements those it needs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeVar

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid, GridLike, as_grid, as_size
from loope.core.registry import Registry
from loope.encoders.constants import Constants
from loope.encoders.masks import ScoreMod, pad_prefix
from loope.positions import Positions, PositionsLike, as_positions
from loope.positions.augment import Augment, Augmentation, as_augmentation

MOST_DIM = 2**20  # width of tokens
# The kind of encoder that each hook makes.
KINDS = {"embed": "additive", "mix": "conditional", "rotate": "rotary", "bias": "bias"}
NO_POSITIONS = "none"  # the kind of an encoder that has none


class PositionalEncoder(nn.Module):
    """Base class of encoders; subclasses implement `embed`, `mix`, `rotate` or `bias`.

    Encoders see patches only; class and register tokens are handled by the model. `positions` says where the patches
    are: usually all cells of a grid in row-major order (`positions.whole`), else see `loope.Positions`.

    Args:
        dim: width D of the tokens.
        grid: side length or (height, width) of the grid of patches.

    Examples:
        >>> import loope
        >>> loope.create_encoder("gilbert", dim=8, grid=(2, 3))(None).shape
        torch.Size([1, 6, 8])
    """

    name: ClassVar[str] = "custom"
    paper: ClassVar[str] = ""
    # Whether the output may depend on images, tokens or queries; False means that it depends on the grid alone.
    reads_content: bool = True
    # Whether `bias` may differ between blocks; False lets a forward pass compute it once for all of them.
    bias_per_layer: bool = True
    # Whether `rotate` gives queries and keys more channels; such encoders come after those that do not.
    widens: ClassVar[bool] = False
    # Default positions of class and register tokens in `attach`: "none", or "learned" vectors.
    prefix: str = "none"
    # Whether an additive encoder has vectors for points between cells; else they get the vector of the nearest cell.
    continuous: ClassVar[bool] = False
    # Whether an additive encoder can be fitted to a table, for `attach(..., init="own")`.
    imitates: ClassVar[bool] = True
    # What happens at another size, if it is not found by trying: see `loope.encoders.describe`.
    at_other_sizes: ClassVar[str] = ""
    # Why models with the encoder cannot be exported to ONNX, or not as they are; empty if they can.
    no_onnx: ClassVar[str] = ""
    # What moves positions at random while training; see `_augment_by`.
    augmentation: Augmentation | None = None
    _anchor: Tensor

    def __init__(self, dim: int, grid: GridLike):
        super().__init__()
        self.dim = as_size(dim, "dim", most=MOST_DIM)
        self.grid = as_grid(grid)
        # Follows `.to(...)`, so that encoders without parameters have a device and dtype too.
        self.register_buffer("_anchor", torch.empty(0), persistent=False)
        self._constants = Constants()

    def forward(self, images: Tensor | None = None, positions: PositionsLike | None = None) -> Tensor:
        """Return what `embed` adds to the patch tokens, `(1 or B, N, D)`, on the encoder's grid or elsewhere."""
        return self.embed(images, self._place(positions))

    # The hooks. `hooks()` returns those that a class implements.

    def embed(self, images: Tensor | None, positions: Positions) -> Tensor:
        """Return `(1 or B, N, D)`, to add to the patch tokens."""
        raise self._lacks("embed")

    def mix(self, tokens: Tensor, positions: Positions, layer: int) -> Tensor:
        """Transform the patch tokens after block `layer`, `(B, N, D)` to `(B, N, D)`."""
        raise self._lacks("mix")

    def rotate(self, q: Tensor, k: Tensor, positions: Positions, layer: int) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys, `(B, heads, N, d)` each, before the scores."""
        raise self._lacks("rotate")

    def bias(self, q: Tensor, positions: Positions, layer: int) -> Tensor:
        """Return `(1 or B, heads, N, N)`, to add to the scaled scores."""
        raise self._lacks("bias")

    def rotate_partly(
        self, q: Tensor, k: Tensor, positions: Positions, layer: int, strength: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Rotate queries and keys at a strength from 0, unchanged, to 1, as `rotate` does; see `loope.set_strength`."""
        there_q, there_k = self.rotate(q, k, positions, layer)
        return q.lerp(there_q, strength.to(q.dtype)), k.lerp(there_k, strength.to(k.dtype))

    def refine_positions(self, images: Any, positions: Positions) -> Positions:
        """Return where the patches are for this encoder: moved by the image, or at random while training.

        Most encoders leave them where they are. An attached encoder without `embed` is asked once in a forward pass,
        and its blocks get the result; `embed` gets positions that are not refined, and asks itself.
        """
        if self.augmentation is None or not self.training:
            return positions
        return self.augmentation(positions, *self._plane(positions))

    def _augment_by(self, augment: Augment = None, fuzzy: float = 0.0) -> None:
        """Move positions at random while training: the options `augment` and `fuzzy` of encoders that take them."""
        self.augmentation = as_augmentation(augment, fuzzy)

    def bias_with_prefix(self, q: Tensor, positions: Positions, layer: int, prefix: int) -> Tensor:
        """Return `bias` with zeros for prefix tokens before the patches, `(1 or B, heads, P + N, P + N)`.

        The tensor may be shared between blocks and forward passes: do not modify it.

        Args:
            q: queries of the patches, `(B, heads, N, d)`.
            positions: where the patches are.
            layer: the block.
            prefix: number P of prefix tokens.
        """
        return pad_prefix(self.bias(q, positions, layer), positions, prefix)

    def score_mod(self, positions: PositionsLike, layer: int = 0, *, prefix: int = 0) -> ScoreMod:
        """Return the bias as a `score_mod` of `torch.nn.attention.flex_attention`, without an N x N matrix.

        Like the bias, it hides padding and the other images of a packed sequence.

        Args:
            positions: where the patches are.
            layer: the block.
            prefix: number P of tokens before the patches, which the bias does not affect.
        """
        raise LoopeError(f"{self.name!r} has no `score_mod`; only biases that do not depend on the queries have one.")

    def mixes_after(self, layer: int) -> bool:
        """Return whether `mix` acts after block `layer`."""
        return "mix" in self.hooks()

    def no_weight_decay(self) -> set[str]:
        """Return the names of parameters that should not have weight decay."""
        return set()

    def similarity(self, grid: GridLike | None = None) -> Tensor:
        """Return the `(N, N)` similarity of the cells of a grid; for additive encoders, the cosine of their vectors.

        `loope.encoder_similarity` computes it in float64, whatever the encoder's dtype, and for images.
        """
        vectors = nn.functional.normalize(self._static(self._place(grid))[0].to(self.wide), dim=-1)
        return vectors @ vectors.T

    def _static(self, positions: Positions) -> Tensor:
        """Return what `embed` returns at these positions without an image, `(1 or B, N, D)`."""
        return self.embed(None, positions)

    def fit(self, table: Tensor) -> float:
        """Fit the encoder's own parameters so that its vectors on its grid are close to a table.

        Args:
            table: `(N, D)`.

        Returns:
            The share of the table's variance over positions that the vectors explain.

        Raises:
            LoopeError: if the encoder has no such parameters; `create_encoder(..., project=True)` adds them.
        """
        raise LoopeError(f"{self.name!r} has no parameters of its own to fit to a table; create it with project=True.")

    @classmethod
    def own_options(cls, options: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options for `attach(..., init="own")`, besides those that the user gave.

        With them an additive encoder can `fit` a table, and others disturb a model of other positions less.
        """
        return {"project": True} if "embed" in cls.hooks() and cls.fit is PositionalEncoder.fit else {}

    def resize(self, grid: GridLike) -> PositionalEncoder:
        """Move to another grid in place, resampling learned parameters.

        Resampled parameters are new objects: create the optimizer after resizing.
        """
        new = as_grid(grid)
        if new != self.grid:
            with torch.no_grad():
                self._resample(new)
            self.grid = new
        return self

    def _resample(self, grid: Grid) -> None:
        """Resample the parameters that depend on the grid; most encoders have none."""

    @classmethod
    def hooks(cls) -> tuple[str, ...]:
        """Return the hooks that this encoder implements; `attach` connects exactly those."""
        return tuple(hook for hook in KINDS if getattr(cls, hook) is not getattr(PositionalEncoder, hook))

    @classmethod
    def kinds(cls) -> tuple[str, ...]:
        """Return what the encoder is, one of `KINDS` for each of its hooks."""
        return tuple(KINDS[hook] for hook in cls.hooks())

    @property
    def dtype(self) -> torch.dtype:
        """Return the dtype of the encoder's output."""
        return self._anchor.dtype

    @property
    def wide(self) -> torch.dtype:
        """Return the dtype of constants and coordinates: the encoder's, but at least float32."""
        return torch.promote_types(self.dtype, torch.float32)

    def constant(self, what: str, grid: Grid, *more: Any, dtype: torch.dtype | None = None) -> Tensor:
        """Return the result of the method `what` for a grid and `more`, on this encoder's device, cached.

        Floating-point results are float32 even in a half-precision encoder (float64 in a float64 one): in bfloat16,
        indices above 256 are not all distinct. `dtype` overrides that. They are not part of the state dict.
        """
        height, width = as_grid(grid)  # plain integers, where a compiler has symbols
        made: Tensor = self._constant(id(self), what, height, width, self._anchor.device, dtype or self.wide, *more)
        return made

    # Compilers call this while tracing and keep the result. `owner` is for their guards: two encoders of one class
    # share the traced code, but not the result.
    @torch.compiler.assume_constant_result  # type: ignore[untyped-decorator]
    def _constant(
        self, owner: int, what: str, height: int, width: int, device: torch.device, dtype: torch.dtype, *more: Any
    ) -> Tensor:
        return self._constants.get(getattr(self, what), Grid(height, width), device, dtype, *more)

    def per_patch(self, what: str, positions: Positions) -> Tensor:
        """Return a constant with a value for each cell, for each patch: `(cells, ...)` becomes `(1 or B, N, ...)`.

        Patches that are not at a cell get the value of the nearest one.
        """
        if positions.whole is not None:
            return self.constant(what, positions.whole)[None]
        return positions.pick([self.constant(what, grid) for grid in positions.kinds])

    def _plane(self, positions: Positions) -> tuple[Tensor, Tensor]:
        """Return coordinates and grid sizes of the patches, in the precision of constants before they are rounded."""
        device = positions.device or self._anchor.device
        exact = torch.float32 if device.type == "mps" else torch.float64
        return positions.plane(exact, device)

    def _place(self, positions: PositionsLike | None) -> Positions:
        """Return the given positions, or all cells of the encoder's grid."""
        return Positions((self.grid,)) if positions is None else as_positions(positions)

    def _check_tokens(self, tokens: Tensor, positions: Positions) -> None:
        """Check that `tokens` `(B, ..., N, d)` has one token per patch."""
        if tokens.shape[-2] != positions.length:
            sizes = " and ".join(str(grid) for grid in positions.grids[:3])
            raise LoopeError(
                f"{self.name!r} expects the {positions.length} patches of a grid of {sizes}, got {tokens.shape[-2]} "
                "tokens; leave out class and register tokens, and pass the positions of the patches."
            )
        if positions.whole is None and positions.rows not in (1, tokens.shape[0]):
            raise LoopeError(
                f"{self.name!r} was given positions of {positions.rows} images and tokens of {tokens.shape[0]}; pass "
                "the positions of this batch."
            )

    def _check_layer(self, layer: int, depth: int) -> None:
        if not 0 <= layer < depth:
            raise LoopeError(f"{self.name!r} was made for {depth} blocks, 0 to {depth - 1}, got layer {layer}.")

    def _lacks(self, hook: str) -> LoopeError:
        own = ", ".join(f"`{hook}`" for hook in self.hooks()) or "nothing"
        return LoopeError(f"{self.name!r} has no `{hook}`; it acts through {own}.")

    def extra_repr(self) -> str:
        return f"dim={self.dim}, grid={self.grid}"


Encoder = TypeVar("Encoder", bound=type[PositionalEncoder])
ENCODERS: Registry[type[PositionalEncoder]] = Registry("encoder")
list_encoders = ENCODERS.names
encoder_class = ENCODERS.__getitem__


def register_encoder(name: str, *, replace: bool = False) -> Callable[[Encoder], Encoder]:
    """Register an encoder class under `name` (a decorator).

    Examples:
        >>> import loope, torch
        >>> @loope.register_encoder("row_number")
        ... class RowNumber(loope.PositionalEncoder):
        ...     def embed(self, images, positions):
        ...         return positions.coordinates[..., :1].expand(-1, -1, self.dim)
        >>> loope.create_encoder("row_number", dim=1, grid=(3, 1))(None).flatten()
        tensor([0., 1., 2.])
    """

    def name_and_file(cls: Encoder) -> Encoder:
        require(
            isinstance(cls, type) and issubclass(cls, PositionalEncoder),
            f"An encoder must be a subclass of loope.PositionalEncoder, got {cls!r}.",
        )
        ENCODERS.register(name, replace=replace)(cls)
        cls.name = name
        return cls

    return name_and_file
