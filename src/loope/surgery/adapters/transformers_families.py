"""Where transformers' vision transformers keep their parts: one entry of `FAMILIES` for each family.

To support another family, add an entry: its folder in `transformers.models`, the class that embeds images and runs the
blocks, and what differs from ViT. Any other class of transformers that contains such a model is then supported too. If
its attention has other names for the same layers, add them in `transformers_attention`. A tiny model in
tests/surgery/transformers_models.py runs it through everything.
"""

from __future__ import annotations

import inspect
import sys
from dataclasses import dataclass
from functools import partial

from torch import nn


@dataclass(frozen=True)
class Family:
    """A family of models; paths are relative to the core.

    Attributes:
        folder: its folder in `transformers.models`.
        cores: classes that embed images and run the blocks; other classes contain one of them.
        blocks: path of the list of blocks.
        attention: path, in a block, of the module that projects queries, keys and values.
        patch_embed: path of the module that maps images to patch tokens.
        prefix: paths of tokens before the patches that have rows in the position table.
        registers: paths of further tokens between those and the patches.
        suffix: paths of tokens after the patches that have rows in the position table.
        table: path of the position table, a parameter; None if there is none.
        table_size: entry of the configuration with the image size that the table is for.
        spare_rows: number of rows at the start of the table that belong to no token.
        more_tables: paths of further tables, which the model adds after blocks.
        channels_first: blocks take and return `(B, D, h, w)`.
        entry: path of a module whose first input is all tokens; None for the first block.
        adapts: the model resamples its own encoding to every image, so that its configuration need not name the size.
        square: `image_size` of the configuration is one number.
        only_square: images must be square unless the model is called with `interpolate_pos_encoding=True`.
        rotary: path of the module that returns cosines and sines.
        rotary_prefix: path of a parameter with the angles of the prefix token.
        shared_bias: path of the module that returns a bias for all blocks.
        block_bias: path, in a block, of the module that returns its bias.
        offsets: attention modules may have a table of offsets for each axis (`OFFSETS`), blocks have a `window_size`.
        bias_flag: attribute beside these modules or tables that says whether they are there.
        drops: path of the module that drops patches and returns `(tokens, mask, ids_restore)`.
        init_options: optional arguments of the core's constructor that the configuration does not have.
    """

    folder: str
    cores: tuple[str, ...]
    blocks: str = "layers"
    attention: str = "attention"
    patch_embed: str = "embeddings.patch_embeddings"
    prefix: tuple[str, ...] = ("embeddings.cls_token",)
    registers: tuple[str, ...] = ()
    suffix: tuple[str, ...] = ()
    table: str | None = "embeddings.position_embeddings"
    table_size: str = "image_size"
    spare_rows: int = 0
    more_tables: tuple[str, ...] = ()
    channels_first: bool = False
    entry: str | None = "embeddings.dropout"
    adapts: bool = False
    square: bool = False
    only_square: bool = False
    rotary: str | None = None
    rotary_prefix: str | None = None
    shared_bias: str | None = None
    block_bias: str | None = None
    offsets: bool = False
    bias_flag: str | None = None
    drops: str | None = None
    init_options: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """Return the name of the module that defines the family's classes."""
        file = {"data2vec": "data2vec_vision"}.get(self.folder, self.folder)
        return f"transformers.models.{self.folder}.modeling_{file}"


_clip = partial(
    Family,
    blocks="encoder.layers",
    attention="self_attn",
    patch_embed="embeddings.patch_embedding",
    prefix=("embeddings.class_embedding",),
    table="embeddings.position_embedding.weight",
    entry="pre_layrnorm",
    square=True,
    only_square=True,
)
# The whole embedding stands for the patch embedding: it adds the table last, and there is no prefix.
_siglip = partial(_clip, patch_embed="embeddings", prefix=(), entry=None, only_square=False)
_sam = partial(
    Family,
    attention="attn",
    patch_embed="patch_embed",
    prefix=(),
    table="pos_embed",
    entry=None,
    square=True,
    offsets=True,
    bias_flag="use_rel_pos",
)
POOLED, MASKED = ("add_pooling_layer",), ("add_pooling_layer", "use_mask_token")

FAMILIES: tuple[Family, ...] = (
    Family("vit", ("ViTModel",), init_options=MASKED),
    Family(
        "deit",
        ("DeiTModel",),
        prefix=("embeddings.cls_token", "embeddings.distillation_token"),
        init_options=MASKED,
    ),
    Family("vit_msn", ("ViTMSNModel",), init_options=("use_mask_token",)),
    Family("vit_mae", ("ViTMAEModel",), entry=None, drops="embeddings"),
    Family("ijepa", ("IJepaModel",), prefix=(), init_options=MASKED),
    Family("pixio", ("PixioModel",), adapts=True),
    Family("dinov2", ("Dinov2Model", "Dinov2Backbone"), blocks="encoder.layer", adapts=True),
    Family(
        "dinov2_with_registers",
        ("Dinov2WithRegistersModel", "Dinov2WithRegistersBackbone"),
        blocks="encoder.layer",
        registers=("embeddings.register_tokens",),
        adapts=True,
    ),
    Family(
        "tipsv2",
        ("Tipsv2VisionModel", "Tipsv2VisionBackbone"),
        blocks="encoder.layer",
        registers=("embeddings.register_tokens",),
        adapts=True,
    ),
    Family(
        "dinov3_vit",
        ("DINOv3ViTModel", "DINOv3ViTBackbone"),
        blocks="model.layer",
        registers=("embeddings.register_tokens",),
        table=None,
        entry=None,
        adapts=True,
        rotary="rope_embeddings",
    ),
    _clip("clip", ("CLIPVisionModel",)),
    _clip("metaclip_2", ("MetaClip2VisionModel",)),
    _clip("chinese_clip", ("ChineseCLIPVisionModel",)),
    _clip("altclip", ("AltCLIPVisionModel",)),
    _clip("clipseg", ("CLIPSegVisionModel",), adapts=True),
    _clip("owlvit", ("OwlViTVisionTransformer",), entry="pre_layernorm", only_square=False),
    _clip("owlv2", ("Owlv2VisionTransformer",), entry="pre_layernorm", only_square=False),
    _clip(
        "mlcd",
        ("MLCDVisionModel",),
        table=None,
        adapts=True,
        rotary="vision_rotary_embedding",
        rotary_prefix="class_pos_emb",
    ),
    _siglip("siglip", ("SiglipVisionModel",)),
    _siglip("siglip2", ("Siglip2VisionModel",), adapts=True),
    _siglip("aimv2", ("Aimv2VisionModel",), attention="attention"),
    Family(
        "beit",
        ("BeitModel",),
        adapts=True,
        shared_bias="shared_position_bias",
        block_bias="relative_position_bias",
        init_options=POOLED,
    ),
    Family(
        "data2vec",
        ("Data2VecVisionModel",),
        blocks="encoder.layer",
        attention="attention.attention",
        patch_embed="embeddings.patch_embeddings.projection",
        adapts=True,
        shared_bias="encoder.relative_position_bias",
        block_bias="attention.attention.relative_position_bias",
        bias_flag="has_relative_position_bias",
        init_options=POOLED,
    ),
    Family("internvl", ("InternVLVisionModel",), blocks="encoder.layer", adapts=True),
    Family(
        "dpt",
        ("DPTModel",),
        blocks="encoder.layer",
        attention="attention.attention",
        adapts=True,
        init_options=POOLED,
    ),
    Family(
        "yolos",
        ("YolosModel",),
        blocks="encoder.layer",
        attention="attention.attention",
        suffix=("embeddings.detection_tokens",),
        more_tables=("encoder.interpolation.mid_position_embeddings",),
        adapts=True,
        init_options=POOLED,
    ),
    Family(
        "vitdet",
        ("VitDetModel", "VitDetBackbone"),
        blocks="encoder.layer",
        patch_embed="embeddings.projection",
        prefix=(),
        table_size="pretrain_image_size",
        spare_rows=1,
        channels_first=True,
        entry=None,
        adapts=True,
        offsets=True,
        bias_flag="use_relative_position_embeddings",
    ),
    Family("swin", ("SwinModel",), prefix=(), init_options=MASKED),  # see `transformers_swin`
    _sam("sam", ("SamVisionEncoder",)),
    _sam("sam_hq", ("SamHQVisionEncoder",)),
)

# Models around one of these that `loope.save` can describe; others can be attached to.
WRAPPERS = (
    "DPTForDepthEstimation",
    "DPTForSemanticSegmentation",
    "DepthAnythingForDepthEstimation",
    "UperNetForSemanticSegmentation",
    "LlavaModel",
    "LlavaForConditionalGeneration",
    "TimmWrapperModel",
    "TimmWrapperForImageClassification",
)

_PACKED = (
    "it packs the patches of all images in one sequence and attends within the parts that `cu_seqlens` or a mask "
    "gives, so there is no grid for each row of the batch"
)
_VIDEO = "its tokens are parts of a video, on a grid of three axes, and encoders have positions on two"
_HIERARCHY = "it merges patches between stages, so there is no one grid of patches"
# Classes that are not supported, and why; see also `refusal_of`.
REFUSALS: dict[str, str] = {
    "VideoMAEModel": _VIDEO,
    "VivitModel": _VIDEO,
    "TimesformerModel": _VIDEO,
    "VJEPA2Model": _VIDEO,
    "PixtralVisionModel": _PACKED,
    "Swinv2Model": "its attention on cosines in windows is not supported, unlike that of timm's Swin v2",
    "HieraModel": _HIERARCHY,
    "SegformerModel": _HIERARCHY,
    "PvtModel": _HIERARCHY,
}

_CORES = {(family.module, name): family for family in FAMILIES for name in family.cores}


def families() -> dict[str, tuple[str, ...]]:
    """Return the classes that encoders act in, by the folder of `transformers.models`.

    Every other class of transformers that contains exactly one of them is supported through it.
    """
    return {family.folder: family.cores for family in FAMILIES}


def refusal_of(model: nn.Module) -> tuple[str, str] | None:
    """Return the class of a part of the model that cannot be supported, and why; None if no such part is known."""
    for module in model.modules():
        name = type(module).__name__
        if name in REFUSALS:
            return name, REFUSALS[name]
        if is_transformers(module) and "grid_thw" in inspect.signature(type(module).forward).parameters:
            return name, _PACKED  # Qwen2-VL and what follows it
    return None


def family_of(module: nn.Module) -> Family | None:
    """Return the family that a module is the core of, or None."""
    for cls in type(module).__mro__:
        if (cls.__module__, cls.__name__) in _CORES:
            return _CORES[cls.__module__, cls.__name__]
    return None


def is_transformers(model: nn.Module) -> bool:
    """Return whether a model is one of transformers', without importing transformers, which is slow."""
    home = sys.modules.get("transformers.modeling_utils")
    return home is not None and isinstance(model, home.PreTrainedModel)
