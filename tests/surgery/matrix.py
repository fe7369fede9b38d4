"""Parametrizations over all encoders and models, and the check behind docs/matrix.csv."""

import pytest

import loope
from docs.matrix import MODELS, check, same_state, state_of

__all__ = ["check", "every_encoder", "every_model", "same_state", "state_of"]

every_model = pytest.mark.parametrize("name", MODELS)
every_encoder = pytest.mark.parametrize("encoder", loope.list_encoders())
