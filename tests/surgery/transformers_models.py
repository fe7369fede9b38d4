"""Tiny models with random weights of every family of transformers that encoders attach to, and of what wraps one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers as hf
from torch import Tensor, nn

import loope

SIDE, PATCH = 32, 8
SMALL: dict[str, Any] = {"hidden_size": 48, "num_hidden_layers": 2, "num_attention_heads": 3, "patch_size": PATCH}
VIT = {**SMALL, "image_size": SIDE, "intermediate_size": 96}
DINO = {**SMALL, "image_size": SIDE, "mlp_ratio": 2}
TEXT = {
    "hidden_size": 48, "num_hidden_layers": 1, "num_attention_heads": 3, "intermediate_size": 96, "vocab_size": 64,
    "projection_dim": 16, "max_position_embeddings": 16,
}  # fmt: skip
TWO = {"out_features": ["stage1", "stage2"]}
BIAS, SHARED = {"use_relative_position_bias": True}, {"use_shared_relative_position_bias": True}
YOLOS = {**VIT, "image_size": [SIDE, SIDE], "num_detection_tokens": 3}
SWIN: dict[str, Any] = {
    "image_size": SIDE, "patch_size": PATCH, "embed_dim": 24, "depths": [2, 2], "num_heads": [2, 3], "window_size": 2,
    "mlp_ratio": 2, "drop_path_rate": 0.0,
}  # fmt: skip
# Blocks with windows of 3 patches, padded, and of the whole grid.
DET = {**DINO, "window_size": 3, "window_block_indices": [0], "use_relative_position_embeddings": True}
SAM = {**VIT, "window_size": 3, "global_attn_indexes": [1], "mlp_dim": 96, "output_channels": 8}
TABLE = {"use_absolute_position_embeddings": True}


def attach_alike(*models: nn.Module, encoder: str, **options: Any) -> None:
    """Attach an encoder with the same random parameters to models of the same size, in float64 and eval mode."""
    for model in models:
        loope.attach(model.eval().double(), encoder, **options)
        torch.manual_seed(1)
        for parameter in model.loope.encoders.parameters():
            nn.init.normal_(parameter, std=0.3)


def llava() -> nn.Module:
    text = hf.LlamaConfig(**{**TEXT, "num_key_value_heads": 3}, pad_token_id=0)
    return hf.LlavaForConditionalGeneration(
        hf.LlavaConfig(vision_config=hf.CLIPVisionConfig(**VIT), text_config=text, image_token_index=60)
    )


def depth_anything() -> nn.Module:
    return hf.DepthAnythingForDepthEstimation(
        hf.DepthAnythingConfig(
            backbone_config=hf.Dinov2Config(**DINO, **TWO, reshape_hidden_states=False, apply_layernorm=True),
            patch_size=PATCH,
            reassemble_hidden_size=48,
            reassemble_factors=[1, 0.5],
            neck_hidden_sizes=[8, 8],
            fusion_hidden_size=8,
            head_hidden_size=8,
        )
    )


def sam() -> nn.Module:
    prompts = {"hidden_size": 8, "image_size": SIDE, "patch_size": PATCH, "mask_input_channels": 4}
    decoder = {"hidden_size": 8, "mlp_dim": 16, "num_attention_heads": 2, "num_hidden_layers": 1, "iou_head_depth": 2}
    vision = hf.SamVisionConfig(**SAM, num_pos_feats=4)
    parts = {"prompt_encoder_config": prompts, "mask_decoder_config": {**decoder, "iou_head_hidden_dim": 8}}
    return hf.SamModel(hf.SamConfig(vision_config=vision, **parts))


def upernet() -> nn.Module:
    backbone = hf.BeitConfig(**VIT, **TABLE, out_features=["stage1", "stage2"], reshape_hidden_states=True)
    return hf.UperNetForSemanticSegmentation(
        hf.UperNetConfig(
            backbone_config=backbone, hidden_size=16, pool_scales=[1], num_labels=5, use_auxiliary_head=False
        )
    )


def timm_wrapper(cls: Any) -> nn.Module:
    small = {"embed_dim": 48, "depth": 2, "num_heads": 3, "img_size": SIDE, "patch_size": PATCH}
    return cls(hf.TimmWrapperConfig(architecture="vit_tiny_patch16_224", model_args=small, num_labels=5))


# The models that embed images and run blocks, in several variants.
CORES: dict[str, Callable[[], nn.Module]] = {
    "ViT": lambda: hf.ViTModel(hf.ViTConfig(**VIT)),
    "DeiT": lambda: hf.DeiTModel(hf.DeiTConfig(**VIT)),
    "ViTMSN": lambda: hf.ViTMSNModel(hf.ViTMSNConfig(**VIT)),
    "ViTMAE": lambda: hf.ViTMAEModel(hf.ViTMAEConfig(**VIT, mask_ratio=0.5)),
    "IJepa": lambda: hf.IJepaModel(hf.IJepaConfig(**VIT)),
    "Pixio": lambda: hf.PixioModel(hf.PixioConfig(**DINO, n_cls_tokens=3)),
    "Dinov2": lambda: hf.Dinov2Model(hf.Dinov2Config(**DINO)),
    "Dinov2, registers": lambda: hf.Dinov2WithRegistersModel(
        hf.Dinov2WithRegistersConfig(**DINO, num_register_tokens=2)
    ),
    "DINOv3": lambda: hf.DINOv3ViTModel(hf.DINOv3ViTConfig(**VIT, num_register_tokens=2)),
    "CLIP": lambda: hf.CLIPVisionModel(hf.CLIPVisionConfig(**VIT)),
    "MetaCLIP 2": lambda: hf.MetaClip2VisionModel(hf.MetaClip2VisionConfig(**VIT)),
    "Chinese CLIP": lambda: hf.ChineseCLIPVisionModel(hf.ChineseCLIPVisionConfig(**VIT)),
    "AltCLIP": lambda: hf.AltCLIPVisionModel(hf.AltCLIPVisionConfig(**VIT)),
    "CLIPSeg": lambda: hf.CLIPSegVisionModel(hf.CLIPSegVisionConfig(**VIT)),
    "OWL-ViT": lambda: hf.OwlViTVisionModel(hf.OwlViTVisionConfig(**VIT)),
    "OWLv2": lambda: hf.Owlv2VisionModel(hf.Owlv2VisionConfig(**VIT)),
    "TIPSv2": lambda: hf.Tipsv2VisionModel(hf.Tipsv2VisionConfig(**DINO, num_register_tokens=2)),
    "MLCD": lambda: hf.MLCDVisionModel(hf.MLCDVisionConfig(**VIT)),
    "SigLIP": lambda: hf.SiglipVisionModel(hf.SiglipVisionConfig(**VIT)),
    "SigLIP 2": lambda: hf.Siglip2VisionModel(hf.Siglip2VisionConfig(**SMALL, intermediate_size=96, num_patches=16)),
    "AIMv2": lambda: hf.Aimv2VisionModel(hf.Aimv2VisionConfig(**VIT)),
    "BEiT": lambda: hf.BeitModel(hf.BeitConfig(**VIT, **BIAS)),
    "BEiT, shared bias": lambda: hf.BeitModel(hf.BeitConfig(**VIT, **SHARED, **TABLE, use_mask_token=True)),
    "Data2Vec": lambda: hf.Data2VecVisionModel(hf.Data2VecVisionConfig(**VIT, **BIAS)),
    "Data2Vec, shared bias": lambda: hf.Data2VecVisionModel(hf.Data2VecVisionConfig(**VIT, **SHARED, **TABLE)),
    "InternVL": lambda: hf.InternVLVisionModel(
        hf.InternVLVisionConfig(**{**VIT, "image_size": [SIDE, SIDE], "patch_size": [PATCH, PATCH]}, use_qk_norm=True)
    ),
    "DPT": lambda: hf.DPTModel(hf.DPTConfig(**VIT, backbone_out_indices=[0, 1])),
    "YOLOS": lambda: hf.YolosModel(hf.YolosConfig(**YOLOS, use_mid_position_embeddings=False)),
    "YOLOS, tables in blocks": lambda: hf.YolosModel(hf.YolosConfig(**YOLOS)),
    "ViTDet": lambda: hf.VitDetModel(
        hf.VitDetConfig(**DET, **TABLE, pretrain_image_size=24, residual_block_indices=[1])
    ),
    "ViTDet, global": lambda: hf.VitDetModel(hf.VitDetConfig(**DINO, **TABLE, pretrain_image_size=SIDE)),
    "HF Swin": lambda: hf.SwinModel(hf.SwinConfig(**SWIN)),
    "HF Swin, table": lambda: hf.SwinModel(hf.SwinConfig(**SWIN, use_absolute_embeddings=True)),
    "HF SAM": lambda: hf.SamVisionModel(hf.SamVisionConfig(**SAM)),
    "HF SAM-HQ": lambda: hf.SamHQVisionModel(hf.SamHQVisionConfig(**SAM)),
}
# What contains one: heads, backbones, models of images and texts.
HEADS: dict[str, Callable[[], nn.Module]] = {
    "ViTForImageClassification": lambda: hf.ViTForImageClassification(hf.ViTConfig(**VIT, num_labels=5)),
    "DeiTForImageClassification": lambda: hf.DeiTForImageClassification(hf.DeiTConfig(**VIT, num_labels=5)),
    "DeiTForImageClassificationWithTeacher": lambda: hf.DeiTForImageClassificationWithTeacher(
        hf.DeiTConfig(**VIT, num_labels=5)
    ),
    "ViTMSNForImageClassification": lambda: hf.ViTMSNForImageClassification(hf.ViTMSNConfig(**VIT, num_labels=5)),
    "ViTMAEForPreTraining": lambda: hf.ViTMAEForPreTraining(
        hf.ViTMAEConfig(
            **VIT,
            mask_ratio=0.5,
            decoder_hidden_size=16,
            decoder_num_attention_heads=2,
            decoder_num_hidden_layers=1,
            decoder_intermediate_size=32,
        )
    ),
    "IJepaForImageClassification": lambda: hf.IJepaForImageClassification(hf.IJepaConfig(**VIT, num_labels=5)),
    "PixioBackbone": lambda: hf.PixioBackbone(hf.PixioConfig(**DINO, **TWO)),
    "Dinov2ForImageClassification": lambda: hf.Dinov2ForImageClassification(hf.Dinov2Config(**DINO, num_labels=5)),
    "Dinov2Backbone": lambda: hf.Dinov2Backbone(hf.Dinov2Config(**DINO, **TWO)),
    "Dinov2WithRegistersForImageClassification": lambda: hf.Dinov2WithRegistersForImageClassification(
        hf.Dinov2WithRegistersConfig(**DINO, num_labels=5)
    ),
    "DINOv3ViTBackbone": lambda: hf.DINOv3ViTBackbone(hf.DINOv3ViTConfig(**VIT, **TWO)),
    "CLIPVisionModelWithProjection": lambda: hf.CLIPVisionModelWithProjection(
        hf.CLIPVisionConfig(**VIT, projection_dim=16)
    ),
    "CLIPForImageClassification": lambda: hf.CLIPForImageClassification(
        hf.CLIPConfig(vision_config=VIT, text_config=TEXT, num_labels=5)
    ),
    "CLIPModel": lambda: hf.CLIPModel(hf.CLIPConfig(vision_config=VIT, text_config=TEXT, projection_dim=16)),
    "MetaClip2ForImageClassification": lambda: hf.MetaClip2ForImageClassification(
        hf.MetaClip2Config(vision_config=VIT, text_config=TEXT, num_labels=5)
    ),
    "SiglipForImageClassification": lambda: hf.SiglipForImageClassification(
        hf.SiglipConfig(vision_config=VIT, text_config=TEXT, num_labels=5)
    ),
    "SiglipModel": lambda: hf.SiglipModel(
        hf.SiglipConfig(vision_config=VIT, text_config={**TEXT, "projection_size": 48})
    ),
    "Siglip2ForImageClassification": lambda: hf.Siglip2ForImageClassification(
        hf.Siglip2Config(
            vision_config={**SMALL, "intermediate_size": 96, "num_patches": 16}, text_config=TEXT, num_labels=5
        )
    ),
    "BeitForImageClassification": lambda: hf.BeitForImageClassification(hf.BeitConfig(**VIT, **BIAS, num_labels=5)),
    "BeitForMaskedImageModeling": lambda: hf.BeitForMaskedImageModeling(
        hf.BeitConfig(**VIT, **SHARED, vocab_size=7, use_mask_token=True)
    ),
    "BeitBackbone": lambda: hf.BeitBackbone(
        hf.BeitConfig(**VIT, **BIAS, out_features=["stage1", "stage2"], reshape_hidden_states=True)
    ),
    "Data2VecVisionForImageClassification": lambda: hf.Data2VecVisionForImageClassification(
        hf.Data2VecVisionConfig(**VIT, **BIAS, num_labels=5)
    ),
    "DPTForSemanticSegmentation": lambda: hf.DPTForSemanticSegmentation(
        hf.DPTConfig(
            **VIT,
            num_labels=5,
            backbone_out_indices=[0, 1],
            neck_hidden_sizes=[8, 8],
            reassemble_factors=[1, 0.5],
            fusion_hidden_size=8,
            neck_ignore_stages=[],
        )
    ),
    "DepthAnythingForDepthEstimation": depth_anything,
    "VitDetBackbone": lambda: hf.VitDetBackbone(hf.VitDetConfig(**DET, **TABLE, **TWO)),
    "SwinBackbone": lambda: hf.SwinBackbone(hf.SwinConfig(**SWIN, **TWO)),
    "SwinForImageClassification": lambda: hf.SwinForImageClassification(hf.SwinConfig(**SWIN, num_labels=5)),
    "SamModel": sam,
    "YolosForObjectDetection": lambda: hf.YolosForObjectDetection(hf.YolosConfig(**YOLOS, num_labels=5)),
    "UperNetForSemanticSegmentation": upernet,
    "TimmWrapperModel": lambda: timm_wrapper(hf.TimmWrapperModel),
    "TimmWrapperForImageClassification": lambda: timm_wrapper(hf.TimmWrapperForImageClassification),
    "LlavaForConditionalGeneration": llava,
}
MODELS = {**CORES, **HEADS}


def make(name: str, seed: int = 0) -> nn.Module:
    """Create a model in eval mode; random values, since parameters that start from zero would hide faults."""
    torch.manual_seed(seed)
    model = MODELS[name]()
    for parameter in model.parameters():
        nn.init.normal_(parameter, std=0.2)
    return model.eval()


def inputs(
    model: nn.Module, size: tuple[int, int] = (SIDE, SIDE), dtype: torch.dtype = torch.float32
) -> dict[str, Any]:
    """Return random images of a size, and what else the model needs."""
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randn(2, 3, *size, generator=generator)
    name = type(model).__name__
    if "Siglip2" in name:
        return patches_of(pixels.to(dtype))
    found: dict[str, Any] = {"pixel_values": pixels.to(dtype)}
    if "ViTMAE" in name:
        found["noise"] = torch.rand(2, size[0] // PATCH * (size[1] // PATCH), generator=generator)
    if name in ("CLIPModel", "SiglipModel"):
        found["input_ids"] = torch.arange(10).view(2, 5)
    if name.startswith("Llava"):
        count = size[0] // PATCH * (size[1] // PATCH)
        found["input_ids"] = torch.cat((torch.full((2, count), 60), torch.arange(4).view(2, 2)), dim=1)
    return found


def patches_of(pixels: Tensor) -> dict[str, Any]:
    """Cut images into patches, as SigLIP 2's image processor does."""
    batch, _, height, width = pixels.shape
    cut = (
        pixels.unfold(2, PATCH, PATCH)
        .unfold(3, PATCH, PATCH)
        .permute(0, 2, 3, 4, 5, 1)
        .reshape(batch, -1, 3 * PATCH**2)
    )
    shapes = torch.tensor([[height // PATCH, width // PATCH]] * batch)
    return {"pixel_values": cut, "spatial_shapes": shapes, "pixel_attention_mask": torch.ones(cut.shape[:2]).long()}


def output(model: nn.Module, size: tuple[int, int] = (SIDE, SIDE), **options: Any) -> Tensor:
    """Return what the model makes of the images."""
    dtype = next(parameter.dtype for parameter in model.parameters() if parameter.is_floating_point())
    made = model(**inputs(model, size, dtype), **options)
    for name in ("logits_per_image", "logits", "predicted_depth", "image_embeds", "feature_maps"):
        if made.get(name) is not None:
            found = made[name]
            return found[-1] if isinstance(found, tuple | list) else found
    return made[0]


@torch.no_grad()
def predict(model: nn.Module, size: tuple[int, int] = (SIDE, SIDE), **options: Any) -> Tensor:
    return output(model, size, **options)
