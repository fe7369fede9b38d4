"""Segmenter (Strudel et al., 2021), with a linear decoder or a mask transformer."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import one_of
from loope.core.grid import Grid
from loope.segmentation.backbone import SegmentationModel, as_map
from loope.segmentation.labels import Labels

BLOCKS = 2  # of the mask transformer
DROPOUT = 0.1  # in them


class Segmenter(SegmentationModel):
    """Classifies each patch, by a linear layer or by its similarity to class embeddings.

    Args:
        backbone: a timm ViT, DeiT, BEiT, EVA or CaiT, modified in place.
        classes: their number, or their names and colours.
        decoder: "linear" or "mask".

    Examples:
        >>> import timm
        >>> model = Segmenter(timm.create_model("vit_tiny_patch16_224", img_size=(64, 96)), 11, "mask").eval()
        >>> model(torch.randn(1, 3, 60, 90)).shape
        torch.Size([1, 11, 60, 90])

    Raises:
        LoopeError: for an unsupported backbone or decoder.
    """

    decoder: Linear | MaskTransformer

    def __init__(self, backbone: nn.Module, classes: int | Labels, decoder: str = "linear"):
        one_of("decoder", decoder, ("linear", "mask"))
        super().__init__(backbone, classes, decoder=decoder)
        count = len(self.labels)
        self.decoder = Linear(self.dim, count) if decoder == "linear" else MaskTransformer(self.dim, self.heads, count)

    def decode(self, final: Tensor, raw: Mapping[int, Tensor], grid: Grid) -> list[Tensor]:
        return [as_map(self.decoder(final), grid)]

    def no_weight_decay(self) -> set[str]:
        own = {"decoder.classes.weight"} if isinstance(self.decoder, MaskTransformer) else set()
        return super().no_weight_decay() | own


class Linear(nn.Module):
    """A linear decoder."""

    def __init__(self, dim: int, classes: int):
        super().__init__()
        self.classify = nn.Linear(dim, classes)
        nn.init.trunc_normal_(self.classify.weight, std=0.02)
        nn.init.zeros_(self.classify.bias)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map `(B, N, D)` to `(B, N, classes)`."""
        scores: Tensor = self.classify(tokens)
        return scores


class MaskTransformer(nn.Module):
    """Patches and class embeddings attend to each other; a mask is the cosine of a patch and a class (Eq. 3)."""

    def __init__(self, dim: int, heads: int, classes: int):
        super().__init__()
        from timm.models.vision_transformer import Block

        self.enter = nn.Linear(dim, dim)
        self.classes = nn.Embedding(classes, dim)
        self.blocks = nn.Sequential(
            # PyTorch's norm with epsilon 1e-5, as in the released code; timm's has 1e-6.
            *(
                Block(dim, heads, qkv_bias=True, proj_drop=DROPOUT, attn_drop=DROPOUT, norm_layer=nn.LayerNorm)
                for _ in range(BLOCKS)
            )
        )
        self.norm = nn.LayerNorm(dim)
        self.project_patches = nn.Linear(dim, dim, bias=False)
        self.project_classes = nn.Linear(dim, dim, bias=False)
        self.mask_norm = nn.LayerNorm(classes)
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.trunc_normal_(module.weight, std=0.02)
            if isinstance(module, nn.Linear) and module.bias is not None:
                nn.init.zeros_(module.bias)
        for projection in (self.project_patches, self.project_classes):  # their outputs are compared by cosine
            nn.init.normal_(projection.weight, std=dim**-0.5)

    def forward(self, tokens: Tensor) -> Tensor:
        """Map `(B, N, D)` to `(B, N, classes)`."""
        count = tokens.shape[1]
        classes = self.classes.weight.expand(tokens.shape[0], -1, -1)
        x = self.norm(self.blocks(torch.cat((self.enter(tokens), classes), dim=1)))
        patches = F.normalize(self.project_patches(x[:, :count]), dim=-1)
        masks = patches @ F.normalize(self.project_classes(x[:, count:]), dim=-1).transpose(1, 2)
        scores: Tensor = self.mask_norm(masks)
        return scores
