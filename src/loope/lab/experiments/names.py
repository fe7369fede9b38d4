"""Map the paper's names of encoders, models and data sets to ours."""

from __future__ import annotations

from loope.lab.experiments.spec import Model

# Rows and columns of the paper's tables -> names of `loope.list_encoders()`.
ENCODERS = {
    "No PE": "none",
    "Learnable": "learned",
    "1D Sinusoid": "sinusoid",
    "Static": "gilbert",
    "LOOPE": "loope",
    "CPE": "peg",
    "RPE": "irpe",
    "LFF (Fourier)": "fourier",
    # The published one adds sines of x and y, so (a, b) and (b, a) are the same.
    "2D Sinusoid": "sincos2d_sum",
    "AS2DRoPE": "as2drope",
}
# Encoders that the paper does not compare.
BEYOND = {
    "2D sin/cos": "sincos2d",
    "RoPE axial": "rope_axial",
    "RoPE mixed": "rope_mixed",
    "ALiBi 2D": "alibi2d",
}
ALL_ENCODERS = {**ENCODERS, **BEYOND}

# The paper names families and, for CaiT and Cross-ViT, no size: these are our choice. CrossViT at 240 px mixes
# patches of 12 and 16 pixels, as the paper says. All are pretrained on ImageNet-1k.
MODELS = {
    "ViT-Base": "vit_base_patch16_224.augreg_in1k",
    "ViT-Small": "vit_small_patch16_224.augreg_in1k",
    "DeiT-Base": "deit_base_patch16_224.fb_in1k",
    "DeiT-Small": "deit_small_patch16_224.fb_in1k",
    "CaiT": "cait_s24_224.fb_dist_in1k",
    "Cross-ViT": "crossvit_base_240.in1k",
}
# Replacements on a laptop: the smallest pretrained model of each family.
SMALL_MODELS = {
    "ViT-Base": "vit_tiny_patch16_224",
    "ViT-Small": "vit_tiny_patch16_224",
    "DeiT-Base": "deit_tiny_patch16_224",
    "DeiT-Small": "deit_tiny_patch16_224",
    "CaiT": "cait_xxs24_224",
    "Cross-ViT": "crossvit_tiny_240",
}
# Replacements in smoke tests: the same classes with minimal sizes.
TINY_VIT = {"embed_dim": 24, "depth": 2, "num_heads": 2, "img_size": 32, "patch_size": 8}
TINY_MODELS = {
    "ViT-Base": Model(name="vit_tiny_patch16_224", options=TINY_VIT),
    "ViT-Small": Model(name="vit_tiny_patch16_224", options=TINY_VIT),
    "DeiT-Base": Model(name="deit_tiny_patch16_224", options=TINY_VIT),
    "DeiT-Small": Model(name="deit_tiny_patch16_224", options=TINY_VIT),
    "CaiT": Model(name="cait_xxs24_224", options=TINY_VIT),
    "Cross-ViT": Model(
        name="crossvit_9_240",
        options={
            "img_size": 48,
            "img_scale": [1.0, 32 / 48],
            "patch_size": [12, 16],
            "embed_dim": [24, 48],
            "num_heads": [2, 2],
            "depth": [[1, 1, 0]],
        },
    ),
}

DATA = {"Oxford-IIIT": "pets", "CIFAR-100": "cifar100", "ImageNet-1k": "imagenet", "ImageNet-100": "imagenet100"}
