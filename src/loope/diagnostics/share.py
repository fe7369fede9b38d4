"""How much of the variance of patch tokens is position, and the map that is the same for all images."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.core.metric import Metric
from loope.diagnostics.tokens import Tokens, Watched, require_finite


class TokenSums(NamedTuple):
    """Sums over images from which the variances follow, all float64.

    Attributes:
        number: `()`, number B of images.
        tokens: `(layers, N, D)`, sum of the tokens.
        squares: `(layers,)`, sum of squared norms of the tokens.
        means: `(layers,)`, sum of squared norms of each image's mean token.
    """

    number: Tensor
    tokens: Tensor
    squares: Tensor
    means: Tensor

    def plus(self, other: TokenSums) -> TokenSums:
        """Return the sums over both."""
        return TokenSums(*(one + more for one, more in zip(self, other, strict=True)))


class PositionShares(NamedTuple):
    """The variance of patch tokens, by layer, split into three parts that add up to all of it.

    Attributes:
        position: `(layers,)` float64, what differs between places and is the same in all images. An unbiased estimate,
            so it can be slightly below 0 where there is none.
        image: `(layers,)`, what differs between images and is the same in all places.
        local: `(layers,)`, the rest: what this image shows at this place.
        layers: name of each layer.
        grid: the grid of patches.
        images: number of images.
    """

    position: Tensor
    image: Tensor
    local: Tensor
    layers: list[str]
    grid: Grid
    images: int

    @property
    def share(self) -> Tensor:
        """Return position over all variance, `(layers,)`; NaN for tokens that are all the same."""
        return self.position / (self.position + self.image + self.local)


class PositionArtifacts(NamedTuple):
    """The part of the token map that is the same for all images, by layer; what a denoiser would subtract.

    Attributes:
        maps: `(layers, h, w, D)` float64, mean over images of the tokens at each place, minus their mean over places.
        noise: `(layers,)`, variance of an entry's token that is left because there are only that many images.
        share: `(layers,)`, as `PositionShares.share`.
        layers: name of each layer.
        images: number of images.
    """

    maps: Tensor
    noise: Tensor
    share: Tensor
    layers: list[str]
    images: int

    def colours(self) -> Tensor:
        """Return the first three principal components of each map as colours, `(layers, h, w, 3)` in 0..1."""
        drawn = torch.stack([_principal(each.flatten(0, 1)) for each in self.maps])
        return drawn.view(*self.maps.shape[:3], 3)


def position_share(model: nn.Module, images: Iterable[Any], *, branch: int = 0) -> PositionShares:
    """Measure how much of the variance of patch tokens is position and how much content, layer by layer.

    A token is x[b, n] of image b at place n. With m[n] its mean over B images, m[b] over N places and m over both, the
    variance of a random token is the sum of

        position = sum_n |m[n] - m|^2 / N - local / B
        image    = sum_b |m[b] - m|^2 / (B - 1)
        local    = sum_bn |x[b, n] - m[n] - m[b] + m|^2 / (N (B - 1))

    Each is an unbiased estimate, whatever the correlation of patches within an image: without `local / B`, the mean
    over few images would look like position.

    Args:
        model: a model that `loope.attach` supports, with or without encoders.
        images: batches `(B, C, H, W)`, or tuples that start with one; two images at least.
        branch: number of the sequence of patches, for models with several.

    Raises:
        LoopeError: for fewer than two images, images of different sizes, or tokens that are dropped or not finite.

    Examples:
        >>> import timm, torch, loope
        >>> model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=2)
        >>> shares = loope.position_share(model, [torch.rand(8, 3, 64, 64) for _ in range(2)])
        >>> shares.layers, shares.images
        (['input', 'block 1', 'block 2'], 16)
    """
    return shares_of(*_collect(model, images, branch))


def position_artifacts(model: nn.Module, images: Iterable[Any], *, branch: int = 0) -> PositionArtifacts:
    """Return the part of the token map that is the same for all images, layer by layer: m[n] - m of `position_share`.

    Args:
        model: as for `position_share`.
        images: as for `position_share`.
        branch: as for `position_share`.

    Raises:
        LoopeError: as `position_share`.
    """
    return artifacts_of(*_collect(model, images, branch))


def token_sums(layers: Sequence[Tensor]) -> TokenSums:
    """Return the sums over one batch of tokens, `(B, N, D)` for each layer."""
    exact = [_exact(tokens) for tokens in layers]
    return TokenSums(
        torch.tensor(float(len(layers[0])), dtype=torch.float64, device=exact[0].device),
        torch.stack([tokens.sum(0) for tokens in exact]),
        torch.stack([tokens.square().sum() for tokens in exact]),
        torch.stack([tokens.mean(1).square().sum() for tokens in exact]),
    )


def shares_of(sums: TokenSums, grid: Grid, layers: list[str]) -> PositionShares:
    """Return the variances that follow from the sums; the formulas are in `position_share`.

    Raises:
        LoopeError: for fewer than two images.
    """
    count, places = sums.number, sums.tokens.shape[1]
    require(bool(count >= 2), f"Position and content can be told apart with 2 images or more, got {int(count)}.")
    by_place = sums.tokens / count  # m[n]
    mean = by_place.mean(1, keepdim=True)  # m
    between = (by_place - mean).square().sum((1, 2)) / places
    image = (sums.means - count * mean.square().sum((1, 2))).clamp(min=0) / (count - 1)
    content = (sums.squares - count * by_place.square().sum((1, 2))).clamp(min=0) / (places * (count - 1))
    local = (content - image).clamp(min=0)
    return PositionShares(between - local / count, image, local, layers, grid, int(count))


def artifacts_of(sums: TokenSums, grid: Grid, layers: list[str]) -> PositionArtifacts:
    """Return the maps that follow from the sums."""
    found = shares_of(sums, grid, layers)
    by_place = sums.tokens / sums.number
    maps = (by_place - by_place.mean(1, keepdim=True)).view(len(by_place), *grid, -1)
    return PositionArtifacts(maps, found.local / found.images, found.share, layers, found.images)


class PositionShare(Metric):
    """`position_share` as a metric that accumulates over batches and processes.

    Args:
        layers: number of layers.
        grid: the grid of patches.
        dim: width D of the tokens.
        options: options of `torchmetrics.Metric`.

    Examples:
        >>> metric = PositionShare(layers=1, grid=Grid(2, 2), dim=8)
        >>> metric.update([torch.randn(5, 4, 8)])
        >>> metric.compute().images
        5
    """

    is_differentiable = False
    higher_is_better = None
    full_state_update = False
    number: Tensor
    tokens: Tensor
    squares: Tensor
    means: Tensor

    def __init__(self, layers: int, grid: Grid, dim: int, **options: Any):
        super().__init__(**options)
        self.grid = grid
        shapes = {"number": (), "tokens": (layers, grid.size, dim), "squares": (layers,), "means": (layers,)}
        for name, shape in shapes.items():
            self.add_state(name, torch.zeros(shape, dtype=torch.float64), dist_reduce_fx="sum")

    def update(self, layers: Sequence[Tensor]) -> None:
        """Add the tokens of a batch, `(B, N, D)` for each layer."""
        shape = (len(self.squares), *self.tokens.shape[1:])
        require(
            (len(layers), *layers[0].shape[1:]) == shape,
            f"Expected {shape[0]} layers of tokens (B, {shape[1]}, {shape[2]}), got {len(layers)} of "
            f"{tuple(layers[0].shape)}.",
        )
        for name, value in token_sums(layers)._asdict().items():
            setattr(self, name, getattr(self, name) + value.to(self.number.device))

    def compute(self) -> PositionShares:
        """Return the variances of all images seen."""
        names = [str(number) for number in range(len(self.squares))]
        return shares_of(TokenSums(self.number, self.tokens, self.squares, self.means), self.grid, names)


class TokenCollector:
    """Adds up the tokens of forward passes.

    Args:
        layers: name of each layer.
    """

    def __init__(self, layers: list[str]):
        self.layers = layers
        self._total: TokenSums | None = None

    def add(self, tokens: Tokens) -> None:
        """Add the tokens of a forward pass."""
        require_finite(tokens.layers, self.layers)
        here = token_sums(tokens.layers)
        self._total = here if self._total is None else self._total.plus(here)
        self._grid = tokens.grid

    def found(self) -> tuple[TokenSums, Grid, list[str]]:
        """Return the sums over all images, the grid and the names of the layers."""
        if self._total is None:
            raise LoopeError("There are no images: pass a list or loader of batches.")
        return self._total, self._grid, self.layers


def _collect(model: nn.Module, images: Iterable[Any], branch: int) -> tuple[TokenSums, Grid, list[str]]:
    watched = Watched(model, branch)
    sums = TokenCollector(watched.layer_names)
    for batch in watched.batches(images):
        sums.add(watched.run(batch))
    return sums.found()


def _exact(tokens: Tensor) -> Tensor:
    """Return tokens in float64, which MPS does not have."""
    return (tokens.cpu() if tokens.device.type == "mps" else tokens).double()


def _principal(vectors: Tensor) -> Tensor:
    """Return the first three principal components of `(N, D)` vectors, each scaled to 0..1."""
    parts = torch.zeros(len(vectors), 3, dtype=vectors.dtype, device=vectors.device)
    u, s, _ = torch.linalg.svd(vectors, full_matrices=False)
    found = (u * s)[:, :3]
    parts[:, : found.shape[1]] = found
    low, high = parts.amin(0), parts.amax(0)
    return (parts - low) / (high - low).clamp(min=torch.finfo(parts.dtype).tiny)
