"""The context-aware index generator of LOOPE (Supp. A.2, Table `xc-arch`)."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import LoopeError, one_of
from loope.core.grid import Grid
from loope.encoders.resample import resample

INPUTS = ("rgb+xy", "rgb", "xy")
MIXERS = ("linear", "conv", "none")
ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
INITIALIZATIONS = ("live", "torch")
WIDTHS = (32, 16, 8, 4, 1)


class IndexGenerator(nn.Module):
    """Computes one offset in [-1, 1] per patch from the image and coordinates.

    A convolution of patch size and stride, four of 5x5, BatchNorm over the single channel, a layer that mixes the
    patches, then 2 sigmoid - 1. At 14x14 patches of 16 pixels it has 96,535 parameters.
    """

    def __init__(
        self,
        grid: Grid,
        patch_size: int,
        channels: int,
        *,
        inputs: str,
        mixer: str,
        mixer_bias: bool,
        activation: str,
        initialization: str,
        zero_init: bool,
    ):
        super().__init__()
        one_of("inputs", inputs, INPUTS)
        one_of("mixer", mixer, MIXERS)
        one_of("activation", activation, ACTIVATIONS)
        one_of("initialization", initialization, INITIALIZATIONS)
        self.grid = grid
        self.channels = channels
        self.reads_image = "rgb" in inputs
        self.reads_coordinates = "xy" in inputs
        seen = channels * self.reads_image + 2 * self.reads_coordinates
        self.patches = nn.Conv2d(seen, WIDTHS[0], patch_size, stride=patch_size)
        act = ACTIVATIONS[activation]
        layers: list[nn.Module] = [act()]
        for before, after in pairwise(WIDTHS):
            layers += [nn.Conv2d(before, after, 5, padding=2), act()]
        self.refine = nn.Sequential(*layers, nn.BatchNorm2d(1))
        self.mixer = _mixer(mixer, grid, mixer_bias)
        if initialization == "live":
            _start_live([self.patches, *(layer for layer in self.refine if isinstance(layer, nn.Conv2d))])
        if zero_init:
            last = self.refine[-1] if mixer == "none" else self.mixer
            for parameter in last.parameters():
                nn.init.zeros_(parameter)

    def forward(self, images: Tensor | None, coordinates: Tensor | None, grid: Grid) -> Tensor:
        """Return X_C, `(B or 1, N)`.

        Args:
            images: `(B, C, H, W)` float, if the generator reads the image.
            coordinates: `(1, 2, H, W)` float, if it reads coordinates.
            grid: the grid of patches.
        """
        seen = self._see(images, coordinates)
        if self.training and seen.shape[0] * grid.size == 1:
            raise LoopeError(
                "BatchNorm cannot train on one image of one patch; use a larger batch or grid, or encoder.eval()."
            )
        return 2 * torch.sigmoid(self._mix(self.refine(seen), grid)) - 1

    def _see(self, images: Tensor | None, coordinates: Tensor | None) -> Tensor:
        # Coordinates are the same for every image, so their part of the convolution runs once, not B times.
        split = self.channels if self.reads_image else 0
        kernel, stride = self.patches.weight, self.patches.stride
        seen = torch.zeros((), device=kernel.device, dtype=kernel.dtype)
        if images is not None and self.reads_image:
            seen = F.conv2d(images, kernel[:, :split], stride=stride)
        if coordinates is not None:
            return seen + F.conv2d(coordinates, kernel[:, split:], self.patches.bias, stride=stride)
        return seen + self.patches.bias[:, None, None]  # type: ignore[index]

    def _mix(self, maps: Tensor, grid: Grid) -> Tensor:
        """Mix the patches, `(B, 1, h, w)` to `(B, N)`."""
        if not isinstance(self.mixer, nn.Linear):
            mixed: Tensor = self.mixer(maps).flatten(1)
            return mixed
        return F.linear(maps.flatten(1), *_resampled(self.mixer, self.grid, grid))

    def resize(self, grid: Grid) -> None:
        """Move to another grid in place; only the linear mixer depends on it."""
        if isinstance(self.mixer, nn.Linear):
            linear = self.mixer
            weight, bias = _resampled(linear, self.grid, grid)
            linear.in_features = linear.out_features = grid.size
            linear.weight = nn.Parameter(weight, linear.weight.requires_grad)
            if bias is not None:
                linear.bias = nn.Parameter(bias, linear.bias.requires_grad)
        self.grid = grid


def _mixer(name: str, grid: Grid, bias: bool) -> nn.Module:
    if name == "linear":
        return nn.Linear(grid.size, grid.size, bias=bias)
    return nn.Conv2d(1, 1, 5, padding=2, bias=bias) if name == "conv" else nn.Identity()


@torch.no_grad()
def _start_live(layers: list[nn.Conv2d]) -> None:
    """Initialize a chain of convolutions with ReLUs so that no output is dead at the start.

    Filters come in pairs of opposite sign, so one of each pair passes the ReLU wherever its input is not zero. The last
    layer, a single channel, averages them with positive weights.
    """
    for layer in layers:
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        half = layer.out_channels // 2
        if half:
            layer.weight[half:] = -layer.weight[:half]
    last = layers[-1].weight.abs_()
    last /= last.sum()


def _resampled(linear: nn.Linear, old: Grid, new: Grid) -> tuple[Tensor, Tensor | None]:
    """Return weight and bias (if any) of Linear(N, N) on another grid: each axis of the weight is a map of the grid."""
    if old == new:
        return linear.weight, linear.bias
    outputs = resample(linear.weight.float(), old, new)  # (M, N)
    both = resample(outputs.T, old, new).T  # (M, M)
    # Keep the sum over inputs, whose number has changed.
    weight = (both * (old.size / new.size)).to(linear.weight.dtype)
    return weight, None if linear.bias is None else resample(linear.bias[:, None], old, new)[:, 0]
