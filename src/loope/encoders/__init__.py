"""Positional encoders."""

from loope.encoders.base import PositionalEncoder, encoder_class, list_encoders, register_encoder
from loope.encoders.create import create_encoder
from loope.encoders.generator import ImageRefinement

from loope.encoders import learned, sinusoid, sincos2d, fourier, loope, peg, irpe, alibi2d, rotary  # isort: skip
from loope.encoders import rotary_directions, liere  # isort: skip
from loope.encoders import rel_pos_mlp, lookhere, fire2d, pape, factorized  # isort: skip

__all__ = [
    "ImageRefinement",
    "PositionalEncoder",
    "alibi2d",
    "create_encoder",
    "encoder_class",
    "factorized",
    "fire2d",
    "fourier",
    "irpe",
    "learned",
    "liere",
    "list_encoders",
    "lookhere",
    "loope",
    "pape",
    "peg",
    "register_encoder",
    "rel_pos_mlp",
    "rotary",
    "rotary_directions",
    "sincos2d",
    "sinusoid",
]
