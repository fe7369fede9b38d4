"""Any encoder into any vision transformer, and out again."""

from loope.attach.adapter import Adapter, Branch, Slot, WrapperAdapter, register_adapter
from loope.attach.api import attach, detach, resize
from loope.attach.checkpoint import load, save
from loope.attach.freeze import freeze
from loope.attach.report import Report

from loope.attach import timm_vit, timm_cait, timm_crossvit, hf_vit, wrappers  # isort: skip  # they register themselves

__all__ = [
    "Adapter",
    "Branch",
    "Report",
    "Slot",
    "WrapperAdapter",
    "attach",
    "detach",
    "freeze",
    "hf_vit",
    "load",
    "register_adapter",
    "resize",
    "save",
    "timm_cait",
    "timm_crossvit",
    "timm_vit",
    "wrappers",
]
