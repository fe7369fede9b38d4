"""The context-aware index generator of LOOPE (Supp. A.2, Table `xc-arch`), for offsets on a curve or in the plane."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import LoopeError, one_of, require, shown
from loope.core.grid import Grid, as_positive
from loope.encoders.resample import resample

INPUTS = ("rgb+xy", "rgb", "xy")
MIXERS = ("linear", "conv", "none")
ACTIVATIONS = {"relu": nn.ReLU, "gelu": nn.GELU}
INITIALIZATIONS = ("live", "torch")
WIDTHS = (32, 16, 8, 4)


@dataclass(frozen=True, kw_only=True)
class ImageRefinement:
    """How an image refines positions: the options of the generator, for `refine=` of an encoder.

    With the defaults, an encoder starts exactly as it is without refinement, because the last layer starts at zero, and
    cannot start dead: GELU passes a gradient where ReLU would be off, and the "live" initialization keeps every map
    different from patch to patch, so that the last layer has a gradient from the first step on.

    Args:
        inputs: what the generator reads: "rgb+xy", "rgb" or "xy".
        mixer: its last layer: "conv" does not depend on the grid; "linear", as in the paper, does; or "none".
        activation: "gelu" or "relu".
        initialization: "live" or "torch", PyTorch's default, with which four in ten generators with ReLU start dead.
        zero_init: start with offsets of zero.
        reach: the largest offset, in cells of the grid, or in places on a curve.

    Examples:
        >>> import loope
        >>> options = {"dim": 16, "grid": (2, 3), "heads": 1, "patch_size": 4}
        >>> encoder = loope.create_encoder("rope_axial", **options, refine=loope.ImageRefinement(reach=2))
        >>> encoder.offsets(torch.rand(5, 3, 8, 12)).shape
        torch.Size([5, 6, 2])
    """

    inputs: str = "rgb+xy"
    mixer: str = "conv"
    activation: str = "gelu"
    initialization: str = "live"
    zero_init: bool = True
    reach: float = 1.0

    def __post_init__(self) -> None:
        one_of("inputs", self.inputs, INPUTS)
        one_of("mixer", self.mixer, MIXERS)
        one_of("activation", self.activation, ACTIVATIONS)
        one_of("initialization", self.initialization, INITIALIZATIONS)
        require(isinstance(self.zero_init, bool), f"`zero_init` must be True or False, got {shown(self.zero_init)}.")
        as_positive(self.reach, "reach")


class IndexGenerator(nn.Module):
    """Computes the offset of each patch, one number on a curve or two in the plane, from the image and coordinates.

    A convolution of patch size and stride, four of 5x5, BatchNorm over the last map or maps, a layer that mixes the
    patches, then 2 sigmoid - 1. With the paper's options it has 96,535 parameters at 14x14 patches of 16 pixels.

    Args:
        grid: the grid of patches.
        patch_size: side of a patch in pixels.
        channels: channels of the image.
        options: the other options.
        outputs: numbers for each patch, 1 or 2.
        mixer_bias: whether the last layer has a bias.
    """

    def __init__(
        self,
        grid: Grid,
        patch_size: int,
        channels: int,
        options: ImageRefinement,
        *,
        outputs: int,
        mixer_bias: bool = True,
    ):
        super().__init__()
        self.grid = grid
        self.channels = channels
        self.outputs = outputs
        self.reach = options.reach
        self.reads_image = "rgb" in options.inputs
        self.reads_coordinates = "xy" in options.inputs
        seen = channels * self.reads_image + 2 * self.reads_coordinates
        self.patches = nn.Conv2d(seen, WIDTHS[0], patch_size, stride=patch_size)
        act = ACTIVATIONS[options.activation]
        layers: list[nn.Module] = [act()]
        for before, after in pairwise((*WIDTHS, outputs)):
            layers += [nn.Conv2d(before, after, 5, padding=2), act()]
        self.refine = nn.Sequential(*layers, nn.BatchNorm2d(outputs))
        self.mixer = _mixer(options.mixer, grid, outputs, mixer_bias)
        if options.initialization == "live":
            _start_live([self.patches, *(layer for layer in self.refine if isinstance(layer, nn.Conv2d))])
        if options.zero_init:
            last = self.refine[-1] if options.mixer == "none" else self.mixer
            for parameter in last.parameters():
                nn.init.zeros_(parameter)

    def forward(self, images: Tensor | None, coordinates: Tensor | None, grid: Grid) -> Tensor:
        """Return the offsets, `(B or 1, N)`, or `(B or 1, N, 2)` for two outputs.

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
        mixed = self._mix(self.refine(seen), grid)
        return self.reach * (2 * torch.sigmoid(mixed if self.outputs == 1 else mixed.mT) - 1)

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
        """Mix the patches, `(B, 1, h, w)` to `(B, N)` or `(B, 2, h, w)` to `(B, 2, N)`."""
        if not isinstance(self.mixer, nn.Linear):
            mixed: Tensor = self.mixer(maps).flatten(self.outputs)
            return mixed
        return F.linear(maps.flatten(self.outputs), *_resampled(self.mixer, self.grid, grid))

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


def _mixer(name: str, grid: Grid, maps: int, bias: bool) -> nn.Module:
    if name == "linear":
        return nn.Linear(grid.size, grid.size, bias=bias)  # the same for each map
    return nn.Conv2d(maps, maps, 5, padding=2, bias=bias) if name == "conv" else nn.Identity()


@torch.no_grad()
def _start_live(layers: list[nn.Conv2d]) -> None:
    """Initialize a chain of convolutions with ReLUs so that no output is dead at the start.

    Filters come in pairs of opposite sign, so one of each pair passes the ReLU wherever its input is not zero. The last
    layer averages them with positive weights.
    """
    for layer in layers:
        nn.init.kaiming_uniform_(layer.weight, nonlinearity="relu")
        nn.init.zeros_(layer.bias)  # type: ignore[arg-type]
        if layer is not layers[-1]:
            half = layer.out_channels // 2
            layer.weight[half:] = -layer.weight[:half]
    for weight in layers[-1].weight:
        weight.abs_()
        weight /= weight.sum()


def _resampled(linear: nn.Linear, old: Grid, new: Grid) -> tuple[Tensor, Tensor | None]:
    """Return weight and bias (if any) of Linear(N, N) on another grid: each axis of the weight is a map of the grid."""
    if old == new:
        return linear.weight, linear.bias
    outputs = resample(linear.weight.float(), old, new)  # (M, N)
    both = resample(outputs.T, old, new).T  # (M, M)
    # Keep the sum over inputs, whose number has changed.
    weight = (both * (old.size / new.size)).to(linear.weight.dtype)
    return weight, None if linear.bias is None else resample(linear.bias[:, None], old, new)[:, 0]
