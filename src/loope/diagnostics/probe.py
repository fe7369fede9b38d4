"""Read row and column out of patch tokens by ridge regression, on held-out images."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import require
from loope.core.grid import Grid, as_positive
from loope.diagnostics.tokens import Tokens, Watched, require_finite

EVERY = 4  # one image of so many is held out
MOST_SIDE = 8  # patches are averaged to this many pixels a side before the regression on pixels
PIXELS = "pixels"
RIDGE = 1e-3


class ProbeScores(NamedTuple):
    """How well row and column of a patch can be read from its token, on held-out images.

    Attributes:
        r2: `(layers,)` float64, share of the variance of rows and columns that is explained; 0 or less is chance.
        error: `(layers,)`, mean distance in cells between the predicted and the true place.
        chance: the error of always answering the centre of the grid.
        layers: name of each layer; the first is "pixels", the patch itself: what the images alone tell of places.
        grid: the grid of patches.
        train_images: number of images that the regression was fitted on.
        test_images: number of images that were held out.
    """

    r2: Tensor
    error: Tensor
    chance: float
    layers: list[str]
    grid: Grid
    train_images: int
    test_images: int


class Moments(NamedTuple):
    """Sums over tokens of one layer, of features x shifted by a constant and centred targets y, float64.

    Attributes:
        shift: `(D,)`, subtracted from the features, so that sums do not cancel.
        number: number of tokens.
        x: `(D,)`, sum of features.
        xx: `(D, D)`, sum of products of features.
        xy: `(D, 2)`, sum of products of features and targets.
    """

    shift: Tensor
    number: int
    x: Tensor
    xx: Tensor
    xy: Tensor


class Ridge(NamedTuple):
    """A fitted regression: y = (x - mean) @ weights."""

    mean: Tensor
    weights: Tensor

    def predict(self, tokens: Tensor) -> Tensor:
        """Return targets `(..., 2)` of tokens `(..., D)`."""
        return (tokens.double().cpu() - self.mean) @ self.weights


def position_probe(model: nn.Module, images: Iterable[Any], *, ridge: float = RIDGE, branch: int = 0) -> ProbeScores:
    """Measure how well row and column of a patch can be read from its token by ridge regression, layer by layer.

    With features x standardized by channel and targets y = (row, column) minus the centre of the grid, the weights are

        W = (X^T X / n + ridge I)^-1 X^T Y / n

    over the n tokens of three quarters of the images. Scores are of the other quarter:

        R^2 = 1 - sum |y - W^T x|^2 / sum |y|^2.

    A model without positions can only tell what the images tell: compare with the layer "pixels". Sky is above grass in
    photographs, so chance is 0 for images without such structure only. Where an encoder-free model is above "pixels",
    its convolutions leak the border through zero padding.

    Args:
        model: a model that `loope.attach` supports, with or without encoders.
        images: batches `(B, C, H, W)`, or tuples that start with one. Every fourth is held out and kept in memory until
            the regression is fitted.
        ridge: strength of the regularization.
        branch: number of the sequence of patches, for models with several.

    Raises:
        LoopeError: for fewer than two images, images of different sizes, a grid of one patch, or tokens that are
            dropped or not finite.

    Examples:
        >>> import timm, torch, loope
        >>> model = timm.create_model("vit_tiny_patch16_224", img_size=64, depth=1)
        >>> model = loope.attach(model, "sincos2d")
        >>> scores = loope.position_probe(model, [torch.rand(16, 3, 64, 64) * 0.1])
        >>> scores.layers, bool(scores.r2[1] > 0.9)
        (['pixels', 'input', 'block 1'], True)
    """
    watched = Watched(model, branch)
    probe = Probe(watched.layer_names, as_positive(ridge, "ridge"))
    return probe.measure(watched.batches(images), watched.run)


class Probe:
    """Fits the regression on some images and tests it on the others.

    Args:
        layers: name of each layer of tokens.
        ridge: strength of the regularization.
    """

    def __init__(self, layers: Sequence[str], ridge: float = RIDGE):
        self._names = [PIXELS, *layers]
        self._ridge = ridge

    def measure(self, batches: Iterable[Tensor], run: Callable[[Tensor], Tokens]) -> ProbeScores:
        """Run the model once on every image, first on those to fit, then on those to test, and return the scores.

        Args:
            batches: batches of images.
            run: runs the model on a batch.
        """
        moments: list[Moments] = []
        held: list[Tensor] = []
        trained = seen = 0
        for batch in batches:
            number = torch.arange(seen, seen + len(batch))
            seen += len(batch)
            held.append(batch[number % EVERY == 1])
            train = batch[number % EVERY != 1]
            if len(train):
                trained += len(train)
                moments = add_moments(moments, *_features(run(train), self._names))
        require(seen >= 2, f"The probe needs images to fit and others to test on, 2 or more, got {seen}.")
        return self._tested([solve(each, self._ridge) for each in moments], held, run, trained)

    def _tested(
        self, fits: Sequence[Ridge], held: Sequence[Tensor], run: Callable[[Tensor], Tokens], trained: int
    ) -> ProbeScores:
        squares, distances = torch.zeros(2, len(fits), dtype=torch.float64)
        grid, count = Grid(1, 1), 0
        for batch in torch.split(torch.cat(list(held)), max(map(len, held)) * EVERY):
            tokens = run(batch)
            grid = tokens.grid
            layers, target = _features(tokens, self._names)
            for layer, (fit, each) in enumerate(zip(fits, layers, strict=True)):
                wrong = fit.predict(each) - target
                squares[layer] += wrong.square().sum()
                distances[layer] += wrong.norm(dim=-1).sum()
            count += len(batch)
        target = targets(grid)
        return ProbeScores(
            1 - squares / (count * target.square().sum()),
            distances / (count * grid.size),
            float(target.norm(dim=-1).mean()),
            self._names,
            grid,
            trained,
            count,
        )


def targets(grid: Grid) -> Tensor:
    """Return row and column of every cell minus their mean, `(N, 2)` float64."""
    places = torch.stack(grid.coordinates(), dim=-1).double()
    return places - places.mean(0)


def add_moments(moments: Sequence[Moments], layers: Sequence[Tensor], target: Tensor) -> list[Moments]:
    """Add a batch of features, `(B, N, D)` for each layer, with targets `(N, 2)`, to the moments of earlier batches."""
    made = []
    for number, tokens in enumerate(layers):
        shift = moments[number].shift if moments else tokens.double().mean((0, 1))
        x = (tokens - shift.to(tokens)).flatten(0, 1).float()
        y = target.to(x).repeat(len(tokens), 1)
        # Products in float32, sums of batches in float64: fast, and exact enough for a regression.
        here = Moments(shift, len(x), x.sum(0).double(), (x.T @ x).double(), (x.T @ y).double())
        before = moments[number] if moments else None
        made.append(here if before is None else _sum(before, here))
    return made


def solve(moments: Moments, ridge: float) -> Ridge:
    """Return the regression that `position_probe` defines."""
    count = moments.number
    mean = (moments.x / count).cpu()
    covariance = moments.xx.cpu() / count - mean[:, None] * mean
    scale = covariance.diagonal().clamp(min=0).sqrt()
    scale = torch.where(scale > 0, scale, 1.0)
    normal = covariance / (scale[:, None] * scale) + ridge * torch.eye(len(mean), dtype=torch.float64)
    # Targets are centred and each place has as many tokens, so their mean is 0.
    weights = torch.linalg.solve(normal, moments.xy.cpu() / count / scale[:, None])
    return Ridge(moments.shift.cpu() + mean, weights / scale[:, None])


def _features(tokens: Tokens, names: Sequence[str]) -> tuple[list[Tensor], Tensor]:
    """Return pixels and tokens of every layer, and the targets."""
    require(tokens.grid.size > 1, "A grid of one patch has no positions to tell apart; use larger images.")
    layers = [_pixels(tokens), *tokens.layers]
    require_finite(layers, names)
    return layers, targets(tokens.grid)


def _pixels(tokens: Tokens) -> Tensor:
    """Return the pixels of each patch, `(B, N, C * side * side)`, averaged to at most `MOST_SIDE` a side."""
    grid, images = tokens.grid, tokens.images
    side = min(MOST_SIDE, images.shape[-2] // grid.height, images.shape[-1] // grid.width)
    small = F.adaptive_avg_pool2d(images.float(), (grid.height * side, grid.width * side))
    cut = small.view(*small.shape[:2], grid.height, side, grid.width, side)
    return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def _sum(one: Moments, more: Moments) -> Moments:
    return Moments(one.shift, one.number + more.number, one.x + more.x, one.xx + more.xx, one.xy + more.xy)
