"""Any encoder into any vision transformer, and out again."""

from loope.attach.adapter import Adapter, Branch, Slot, register_adapter
from loope.attach.api import attach, detach, resize
from loope.attach.report import Report

from loope.attach import timm_vit, timm_cait, timm_crossvit, hf_vit  # isort: skip  # they register themselves

__all__ = [
    "Adapter",
    "Branch",
    "Report",
    "Slot",
    "attach",
    "detach",
    "hf_vit",
    "register_adapter",
    "resize",
    "timm_cait",
    "timm_crossvit",
    "timm_vit",
]
