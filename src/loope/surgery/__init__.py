"""Attach encoders to vision transformers, detach them, and save and load the result."""

from loope.surgery.adapters.base import Adapter, WrapperAdapter, register_adapter
from loope.surgery.adapters.branch import Branch, Slot
from loope.surgery.attach import attach, detach, resize
from loope.surgery.bake import bake
from loope.surgery.checkpoint import load, save
from loope.surgery.control import set_strength, use_positions
from loope.surgery.report import Report, report
from loope.surgery.transfer import transfer

from loope.surgery.adapters import (  # isort: skip  # they register themselves
    timm,
    timm_attention,
    timm_cait,
    timm_crossvit,
    timm_hiera,
    timm_naflex,
    timm_swin,
    timm_variants,
    timm_vit,
    transformers,
    transformers_siglip2,
    transformers_swin,
    transformers_timm,
    transformers_windows,
)

__all__ = [
    "Adapter",
    "Branch",
    "Report",
    "Slot",
    "WrapperAdapter",
    "attach",
    "bake",
    "detach",
    "load",
    "register_adapter",
    "report",
    "resize",
    "save",
    "set_strength",
    "timm",
    "timm_attention",
    "timm_cait",
    "timm_crossvit",
    "timm_hiera",
    "timm_naflex",
    "timm_swin",
    "timm_variants",
    "timm_vit",
    "transfer",
    "transformers",
    "transformers_siglip2",
    "transformers_swin",
    "transformers_timm",
    "transformers_windows",
    "use_positions",
]
