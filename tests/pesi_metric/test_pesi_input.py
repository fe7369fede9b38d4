"""What PESI refuses, and with what words."""

import math

import pytest
import torch

import loope


@pytest.mark.parametrize(
    ("embedding", "message"),
    [
        (torch.rand(4, 8), r"shape \(h, w, D\) or \(B, h, w, D\), got \(4, 8\)"),
        (torch.rand(1, 2, 3, 4, 5), "must have shape"),
        (torch.zeros(2, 3, 4), "6 zero vectors"),
        (torch.full((2, 3, 4), math.nan), "must be finite"),
        (torch.full((2, 3, 4), math.inf), "must be finite"),
        (torch.rand(1, 1, 8), "grid of 1x1 has no distances"),
        (torch.rand(2, 0, 8), "at least 1x1"),
        (torch.rand(0, 2, 2, 8), "must not be empty"),
        (torch.rand(2, 2, 0), "must not be empty"),
        (torch.rand(2, 2, 4, dtype=torch.complex64), "must be real, got torch.complex64; use torch.view_as_real"),
        (torch.ones(2, 2, 4, dtype=torch.int64), r"floating point .* got torch.int64; use .float\(\)"),
        (torch.ones(2, 2, 4, dtype=torch.bool), "floating point"),
        (torch.zeros(2, 2, 4).to(torch.float8_e4m3fn), "got torch.float8_e4m3fn"),
        (torch.empty(2, 2, 4, device="meta"), "device meta"),
        (torch.rand(2, 2, 4).to_sparse(), "must be dense, got torch.sparse_coo"),
        ([[1.0]], "must be a tensor of shape"),
    ],
)
def test_embeddings_that_cannot_be_measured(embedding, message):
    with pytest.raises(loope.LoopeError, match=message):
        loope.pesi(embedding)


@pytest.mark.parametrize(
    ("similarity", "grid", "message"),
    [
        (torch.rand(4, 4), (2, 3), r"must be 6 x 6 for a grid of 2x3, got shape \(4, 4\)"),
        (torch.rand(6), (2, 3), r"shape \(N, N\) or \(B, N, N\)"),
        (torch.rand(0, 6, 6), (2, 3), "must be 6 x 6"),
        (torch.rand(1, 1), 1, "no distances"),
        (torch.rand(6, 6), (2, 0), "at least 1x1"),
        (torch.full((6, 6), math.nan), (2, 3), "must be finite"),
        (-torch.full((6, 6), math.inf), (2, 3), "must be finite"),
        (torch.rand(6, 6).cfloat(), (2, 3), "must be real"),
        (torch.ones(6, 6, dtype=torch.int32), (2, 3), "floating point"),
        (torch.zeros(6, 6).to(torch.float8_e5m2), (2, 3), "got torch.float8_e5m2"),
        (torch.empty(6, 6, device="meta"), (2, 3), "device meta"),
    ],
)
def test_similarities_that_cannot_be_measured(similarity, grid, message):
    for function in (
        loope.pesi_from_similarity,
        loope.undirected_monotonicity,
        loope.directed_monotonicity,
        loope.undirected_asymmetry,
        loope.translation_consistency,
        loope.nearness_correlation,
    ):
        with pytest.raises(loope.LoopeError, match=message):
            function(similarity, grid)


@pytest.mark.parametrize("directions", [0, -1, 2.5, "60", True, 2**20 + 1])
def test_numbers_of_directions_that_are_none(directions):
    for call in (
        lambda: loope.pesi(torch.rand(2, 2, 3), directions),
        lambda: loope.pesi_from_similarity(torch.rand(4, 4), 2, directions),
        lambda: loope.m_d_ceiling(2, directions),
    ):
        with pytest.raises(loope.LoopeError, match="`directions` must be"):
            call()


def test_a_matrix_of_similarities_has_a_limit():
    with pytest.raises(loope.LoopeError, match=r"up to 4,096 cells, got 65x64, with 4,160"):
        loope.cosine_similarity(torch.rand(65, 64, 1))
    encoder = loope.create_encoder("gilbert", dim=2, grid=2)
    with pytest.raises(loope.LoopeError, match=r"up to 4,096 cells, got 1000x1000"):
        loope.encoder_similarity(encoder, 1000)
