"""Embeddings to measure, and the slow reference for all that is measured."""

import pytest
import torch

import loope
from tests.pesi_metric import reference

PARTS = {
    "m_u": lambda e, grid, directions: reference.undirected(e, grid),
    "m_d": reference.directed,
    "a_su": lambda e, grid, directions: reference.asymmetry(e, grid),
    "a_su_bounded": lambda e, grid, directions: reference.bounded_asymmetry(e, grid),
}


def positive(*shape, seed=0):
    """Vectors whose cosines, and so the means of rings, are far from zero."""
    return torch.rand(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)) + 0.1


def table(name, grid=(14, 14), dim=768):
    return loope.create_encoder(name, dim, grid).double()(None).view(*grid, dim)


def assert_as_reference(scores, similarity, grid, directions):
    for name, part in PARTS.items():
        expected = torch.as_tensor(part(similarity, grid, directions))
        torch.testing.assert_close(
            getattr(scores.maps, name), expected, atol=1e-9, rtol=0, msg=lambda m, n=name: f"{n} {m}"
        )
        assert getattr(scores, name).item() == pytest.approx(expected.mean().item(), abs=1e-9)
    assert scores.smallest_mean.item() == pytest.approx(reference.smallest_mean(similarity, grid), abs=1e-9)
    assert scores.m_d_ceiling == pytest.approx(reference.ceiling(grid, directions), abs=1e-12)
    assert scores.m_d_share.item() == pytest.approx(scores.m_d.item() / scores.m_d_ceiling, abs=1e-12)
