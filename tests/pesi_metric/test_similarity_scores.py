"""Translation consistency and nearness correlation."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import loope
from loope.core.grid import Grid
from tests.pesi_metric import reference


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(2, 5), st.booleans(), st.integers(0, 2**31))
def test_what_goes_beyond_agrees_with_its_loops(height, width, ties, seed):
    size, draw = height * width, np.random.default_rng(seed)
    similarity = draw.integers(0, 3, (size, size)).astype(float) if ties else draw.normal(size=(size, size))
    grid, batch = (height, width), torch.as_tensor(np.stack((similarity, similarity.T)))
    for ours, slow in (
        (loope.translation_consistency, reference.translation_consistency),
        (loope.nearness_correlation, reference.nearness_correlation),
    ):
        assert ours(batch, grid).tolist() == pytest.approx([slow(one, grid) for one in batch.numpy()], abs=1e-9)
        assert ours(batch[0], grid).shape == ()


def test_what_goes_beyond_at_its_ends():
    grid = Grid(4, 5)
    cells = torch.stack(grid.coordinates(), -1).double()
    distance = (cells[:, None] - cells).square().sum(-1).sqrt()
    assert loope.nearness_correlation(-distance, grid).item() == pytest.approx(1)
    assert loope.nearness_correlation(distance, grid).item() == pytest.approx(-1)
    assert loope.translation_consistency(distance, grid).item() == pytest.approx(1)
    assert loope.translation_consistency(distance.new_full((20, 20), 0.1), grid) == 1
    # A cell is alike to itself under every encoder; that alone is no consistency.
    noise = torch.randn(20, 20, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 50 * torch.eye(20)
    assert loope.translation_consistency(noise, grid) < 0.4
    assert loope.nearness_correlation(distance.new_ones(20, 20), grid) == 0
    where = cells.sum(-1)  # a similarity that depends on where the pair is, not on its offset
    assert loope.translation_consistency(where[:, None] + where, grid) < 0.5
