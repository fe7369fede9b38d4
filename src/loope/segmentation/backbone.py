"""The base class of SETR and Segmenter: a timm ViT as the backbone, and padding of images of any size."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor, nn
from torch.nn import functional as F

from loope.core.errors import LoopeError, require
from loope.core.grid import Grid
from loope.segmentation.labels import Labels, as_labels
from loope.surgery.adapters.base import adapter_for
from loope.surgery.find import attachment_of


class SegmentationModel(nn.Module):
    """Base class of segmentation models: a backbone and a decoder.

    The backbone is modified: its classifier is dropped, and a norm after pooling becomes its final norm.

    Args:
        backbone: a timm ViT, DeiT, BEiT, EVA or CaiT, from `timm.create_model`.
        classes: their number, or their names and colours, which `loope.save` stores with the model.
        options: further arguments of the subclass, stored to build it again.

    Raises:
        LoopeError: if the backbone is not supported, or has encoders attached.
    """

    labels: Labels
    decoder: nn.Module

    def __init__(self, backbone: nn.Module, classes: int | Labels, **options: Any):
        super().__init__()
        self.labels = as_labels(classes)
        self.options = options
        require(
            attachment_of(backbone) is None,
            "The backbone has something attached; detach it, and attach to the whole model instead.",
        )
        branches = adapter_for(backbone).branches()
        require(
            all(hasattr(backbone, name) for name in ("prune_intermediate_layers", "patch_embed", "norm"))
            and len(branches) == 1,
            f"The backbone must be a timm ViT, DeiT, BEiT, EVA or CaiT, got {type(backbone).__name__}.",
        )
        require(
            branches[0].patch_drop is None,
            "The decoder needs all patches of an image; create the backbone with patch_drop_rate=0.",
        )
        self.dim, self.heads, self.depth = branches[0].dim, branches[0].heads, len(branches[0].blocks)
        self.patch_size = branches[0].patch_size
        self.backbone: Any = _without_head(backbone)
        if not branches[0].prefix and getattr(backbone, "cls_token", None) is not None:
            self.backbone.cls_token.requires_grad_(
                False
            )  # CaiT's class token is used after the blocks only, with the head
        self.register_load_state_dict_pre_hook(_check_classes)  # type: ignore[no-untyped-call]

    @property
    def size(self) -> Grid:
        """Return the model's image size in pixels; `loope.resize` changes it."""
        height, width = self.backbone.patch_embed.grid_size
        return Grid(height * self.patch_size, width * self.patch_size)

    @property
    def layers(self) -> Sequence[int]:
        """Return the indices of the blocks that the decoder reads, always including the last."""
        return [self.depth - 1]

    def decode(self, final: Tensor, raw: Mapping[int, Tensor], grid: Grid) -> list[Tensor]:
        """Return class scores, `(B, classes, rows, columns)` at any resolution, followed by those of auxiliary heads.

        Args:
            final: `(B, N, D)`: patches after the last block and the final norm.
            raw: `(B, N, D)` by block: outputs of the blocks in `layers`.
            grid: the grid of patches.
        """
        raise LoopeError(f"{type(self).__name__} must define `decode`.")

    def forward(self, x: Tensor) -> Tensor | tuple[Tensor, ...]:
        """Compute the class scores of each pixel.

        Args:
            x: `(B, channels, H, W)` images; padded with zeros at the bottom and right to whole patches.

        Returns:
            `(B, classes, H, W)` float; in training with auxiliary heads, a tuple of this and the scores of each head.

        Raises:
            LoopeError: for images of another size, if the backbone does not support it.
        """
        require(x.dim() == 4, f"Images must be (B, channels, H, W), got {tuple(x.shape)}.")
        height, width = x.shape[-2:]
        grid = Grid(-(-height // self.patch_size), -(-width // self.patch_size))
        padded = F.pad(x, (0, grid.width * self.patch_size - width, 0, grid.height * self.patch_size - height))
        if tuple(padded.shape[-2:]) != self.size and not getattr(self.backbone, "dynamic_img_size", False):
            raise LoopeError(
                f"The model takes images of {self.size} pixels, got {height}x{width}; call loope.resize(model, ...), "
                "slide over them with loope.segmentation.predict, or make the backbone with dynamic_img_size=True."
            )
        layers = sorted(set(self.layers))
        found = self.backbone.forward_intermediates(padded, indices=layers, output_fmt="NLC", intermediates_only=True)
        scores = self.decode(self.backbone.norm(found[-1]), dict(zip(layers, found, strict=True)), grid)
        full = tuple(enlarged(each, padded.shape[-2:])[..., :height, :width] for each in scores)
        return full if len(full) > 1 else full[0]

    def set_grad_checkpointing(self, enable: bool = True) -> None:
        """Enable gradient checkpointing of the backbone, as in timm."""
        self.backbone.set_grad_checkpointing(enable)

    def no_weight_decay(self) -> set[str]:
        """Return the names of parameters without weight decay, for timm's optimizer factory."""
        return {f"backbone.{name}" for name in self.backbone.no_weight_decay()}

    def group_matcher(self, coarse: bool = False) -> dict[str, Any]:
        """Return the layer groups for timm's layer decay; the decoder comes after the last block."""
        blocks = [(r"^backbone\.blocks\.(\d+)", None), (r"^backbone\.norm", (99999,))]  # with the last block
        return {"stem": r"^backbone\.(?!blocks|norm)", "blocks": blocks}


def drop_prefix(backbone: Any) -> None:
    """Remove class and register tokens, with their positions, from a ViT or EVA.

    BEiT and distilled DeiT depend on theirs and keep them. CaiT's blocks have none.
    """
    count = getattr(backbone, "num_prefix_tokens", 0)
    if not count or not hasattr(backbone, "no_embed_class") or hasattr(backbone, "dist_token"):
        return
    table = backbone.pos_embed
    if table is not None and not backbone.no_embed_class:
        backbone.pos_embed = nn.Parameter(table.detach()[:, count:].clone(), requires_grad=table.requires_grad)
    backbone.cls_token = backbone.reg_token = None
    for module in backbone.modules():  # attention and patch dropout store their number too
        if hasattr(module, "num_prefix_tokens"):
            module.num_prefix_tokens = 0


def enlarged(maps: Tensor, size: Sequence[int]) -> Tensor:
    """Resize maps `(B, C, rows, columns)` bilinearly."""
    return F.interpolate(maps, tuple(size), mode="bilinear", align_corners=False)


def as_map(tokens: Tensor, grid: Grid) -> Tensor:
    """Reshape `(B, N, D)` patches to `(B, D, h, w)`."""
    return tokens.transpose(1, 2).reshape(tokens.shape[0], tokens.shape[2], *grid)


def _without_head(backbone: Any) -> Any:
    after_pooling = getattr(backbone, "fc_norm", None)
    backbone.prune_intermediate_layers(prune_head=True)  # keeps all blocks
    if isinstance(backbone.norm, nn.Identity) and isinstance(after_pooling, nn.Module):
        backbone.norm = after_pooling
    return backbone


def _check_classes(model: nn.Module, state: Mapping[str, Tensor], prefix: str, *_: Any) -> None:
    """Raise a clear error if a state dict is for another number of classes."""
    assert isinstance(model, SegmentationModel)  # noqa: S101  (only registered there)
    for name, own in model.decoder.state_dict().items():
        theirs = state.get(f"{prefix}decoder.{name}")
        if name in ("classify.weight", "classes.weight") and theirs is not None and len(theirs) != len(own):
            raise LoopeError(
                f"The checkpoint is for {len(theirs)} classes, the model for {len(own)}; make the model with "
                f"classes={len(theirs)}, or load the parameters of its backbone only."
            )
