"""Tokens after the patches do not disturb what is measured of patches: YOLOS agrees with a DeiT of the same weights."""

import pytest
import torch

import loope
from tests.surgery.test_suffix_tokens import twins


def images():
    return [torch.randn(2, 3, 32, 32, generator=torch.Generator().manual_seed(0)).double()]


@pytest.mark.parametrize("attached", [True, False])
@pytest.mark.parametrize("measure", [loope.attention_distance, loope.shift_sensitivity, loope.position_share])
def test_measures_of_patches_agree(measure, attached):
    models = twins("rope_mixed")
    if not attached:
        for model in models:
            loope.detach(model)
    ours, expected = (measure(model, images()) for model in models)
    numbers = [value for value in expected if isinstance(value, float | torch.Tensor)]
    assert numbers
    torch.testing.assert_close([value for value in ours if isinstance(value, float | torch.Tensor)], numbers)
