"""SETR (Zheng et al., 2021): a vision transformer with one of three convolutional decoders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from loope.core.errors import one_of
from loope.core.grid import Grid
from loope.segmentation.backbone import SegmentationModel, as_map, drop_prefix, enlarged
from loope.segmentation.labels import Labels

WIDTH = 256  # channels of every decoder
REFINED = 128  # channels of each refined stream of MLA
PAPER_DEPTH = 24  # of ViT-Large, to which the layers below refer
STREAMS = (6, 12, 18, 24)
AUXILIARY = {"naive": (10, 15, 20), "pup": (10, 15, 20, 24), "mla": STREAMS}


class SETR(SegmentationModel):
    """Decodes the patch features, as a map, to the resolution of the image.

    The decoders are `naive` (two layers, then bilinear upsampling), `pup` (progressive upsampling: four convolutions
    with 2x upsampling between) and `mla` (multi-level aggregation: features of four depths, summed from the deepest
    up). Layers are the paper's for 24 blocks, and scaled for other depths. As in the released code, `mla` drops the
    class token before the blocks.

    Args:
        backbone: a timm ViT, DeiT, BEiT, EVA or CaiT, modified in place.
        classes: their number, or their names and colours.
        decoder: "naive", "pup" or "mla".
        auxiliary: add heads on intermediate features for training; see `segmentation_loss`.

    Examples:
        >>> import timm
        >>> model = SETR(timm.create_model("vit_tiny_patch16_224", img_size=(64, 96)), classes=11).eval()
        >>> model(torch.randn(1, 3, 60, 90)).shape
        torch.Size([1, 11, 60, 90])

    Raises:
        LoopeError: for an unsupported backbone or decoder.
    """

    decoder: Decoder

    def __init__(self, backbone: nn.Module, classes: int | Labels, decoder: str = "naive", *, auxiliary: bool = False):
        one_of("decoder", decoder, DECODERS)
        super().__init__(backbone, classes, decoder=decoder, auxiliary=auxiliary)
        if decoder == "mla":
            drop_prefix(self.backbone)
        helped = AUXILIARY[decoder] if auxiliary else ()
        self.decoder = DECODERS[decoder](self.dim, len(self.labels), [self._layer(number) for number in helped])
        self.streams = [self._layer(number) for number in STREAMS] if decoder == "mla" else []

    def _layer(self, number: int) -> int:
        """Return the block that corresponds to one of the paper's 24."""
        return max(1, round(self.depth * number / PAPER_DEPTH)) - 1

    @property
    def layers(self) -> Sequence[int]:
        return [*self.streams, *(self.decoder.helped if self.training else ()), self.depth - 1]

    def decode(self, final: Tensor, raw: Mapping[int, Tensor], grid: Grid) -> list[Tensor]:
        return self.decoder(final, raw, self.streams, grid)


def _conv(inputs: int, outputs: int, kernel: int, bias: bool = True) -> nn.Sequential:
    convolution = nn.Conv2d(inputs, outputs, kernel, padding=kernel // 2, bias=bias)
    return nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


def _norm(dim: int) -> nn.LayerNorm:
    return nn.LayerNorm(dim, eps=1e-6)


class Helper(nn.Module):
    """An auxiliary head of `naive` and `pup` on intermediate features: their first and last layer."""

    def __init__(self, dim: int, classes: int, kernel: int, scale: int):
        super().__init__()
        self.scale = scale
        self.norm = _norm(dim)
        self.reduce = _conv(dim, WIDTH, kernel)
        self.classify = nn.Conv2d(WIDTH, classes, 1)

    def forward(self, tokens: Tensor, grid: Grid) -> Tensor:
        """Map `(B, N, D)` to `(B, classes, scale * h, scale * w)`."""
        scores: Tensor = self.classify(self.reduce(as_map(self.norm(tokens), grid)))
        return enlarged(scores, [self.scale * side for side in grid]) if self.scale > 1 else scores


class Decoder(nn.Module):
    """Base class of SETR's decoders; `helped` are the blocks that the auxiliary heads read."""

    def __init__(self, helped: Sequence[int]):
        super().__init__()
        self.helped = list(helped)

    def __call__(self, final: Tensor, raw: Mapping[int, Tensor], streams: Sequence[int], grid: Grid) -> list[Tensor]:
        """Return the scores, `(B, classes, rows, columns)`, followed in training by those of the auxiliary heads."""
        scores: list[Tensor] = super().__call__(final, raw, streams, grid)
        return scores


class Naive(Decoder):
    """1x1 convolution, normalization, ReLU, 1x1 convolution."""

    kernel = 1
    steps = 0
    helper_scale = 1

    def __init__(self, dim: int, classes: int, helped: Sequence[int]):
        super().__init__(helped)
        self.reduce = _conv(dim, WIDTH, self.kernel)
        self.grow = nn.ModuleList(_conv(WIDTH, WIDTH, self.kernel) for _ in range(self.steps))
        self.classify = nn.Conv2d(WIDTH, classes, 1)
        self.helpers = nn.ModuleList(Helper(dim, classes, self.kernel, self.helper_scale) for _ in helped)

    def forward(self, final: Tensor, raw: Mapping[int, Tensor], streams: Sequence[int], grid: Grid) -> list[Tensor]:
        x = self.reduce(as_map(final, grid))
        for layer in self.grow:
            x = layer(enlarged(x, [2 * side for side in x.shape[-2:]]))
        # The last upsampling comes after the classifier: both are linear, and there are fewer classes than channels.
        helpers = zip(self.helpers, self.helped, strict=True) if self.training else ()
        return [self.classify(x), *(head(raw[layer], grid) for head, layer in helpers)]


class PUP(Naive):
    """3x3 convolutions with 2x upsampling between them; auxiliary heads upsample 4x, then to the image."""

    kernel = 3
    steps = 3
    helper_scale = 4


class MLA(Decoder):
    """Four streams from four depths, summed from the deepest up, refined, upsampled 4x and classified together."""

    def __init__(self, dim: int, classes: int, helped: Sequence[int]):
        super().__init__(helped)
        self.norms = nn.ModuleList(_norm(dim) for _ in STREAMS[:-1])  # the last stream uses the backbone's
        self.reduce = nn.ModuleList(_conv(dim, WIDTH, 1, bias=False) for _ in STREAMS)
        self.mix = nn.ModuleList(_conv(WIDTH, WIDTH, 3, bias=False) for _ in STREAMS)
        self.refine = nn.ModuleList(
            nn.Sequential(_conv(WIDTH, REFINED, 3, bias=False), _conv(REFINED, REFINED, 3, bias=False)) for _ in STREAMS
        )
        self.classify = nn.Conv2d(REFINED * len(STREAMS), classes, 3, padding=1)
        self.helpers = nn.ModuleList(nn.Conv2d(WIDTH, classes, 1, bias=False) for _ in helped)

    def forward(self, final: Tensor, raw: Mapping[int, Tensor], streams: Sequence[int], grid: Grid) -> list[Tensor]:
        normed = [norm(raw[layer]) for norm, layer in zip(self.norms, streams, strict=False)]
        reduced = [reduce(as_map(each, grid)) for reduce, each in zip(self.reduce, [*normed, final], strict=True)]
        for deeper in range(len(reduced) - 1, 0, -1):
            reduced[deeper - 1] = reduced[deeper - 1] + reduced[deeper]
        mixed = [mix(each) for mix, each in zip(self.mix, reduced, strict=True)]
        size = [4 * side for side in grid]
        refined = [enlarged(refine(each), size) for refine, each in zip(self.refine, mixed, strict=True)]
        helpers = zip(self.helpers, mixed, strict=True) if self.helpers and self.training else ()
        return [self.classify(torch.cat(refined, dim=1)), *(head(each) for head, each in helpers)]


DECODERS: dict[str, type[Naive] | type[MLA]] = {"naive": Naive, "pup": PUP, "mla": MLA}
