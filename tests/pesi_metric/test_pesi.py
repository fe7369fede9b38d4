"""PESI against the literal pseudo-code, scipy and the published numbers."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

import loope
from loope.core.grid import Grid
from loope.pesi_metric import geometry
from tests.pesi_metric import reference
from tests.pesi_metric.embeddings import PARTS, assert_as_reference, positive, table

# The published rows (Table 5), to the four decimals in which they were published.


def test_the_phase_as_written_is_not_what_was_published():
    vectors = loope.create_encoder("gilbert", 768, (14, 14), phase="checkerboard")(None).view(14, 14, 768)
    assert round(loope.pesi(vectors).m_u.item(), 2) == 1.58


@pytest.mark.parametrize(
    ("name", "m_u", "m_d", "a_su"),
    [("sinusoid", 1.9567, 1.4905, 0.1243), ("gilbert", 1.9674, 1.2900, 0.0939)],
)
def test_the_published_rows(name, m_u, m_d, a_su):
    for scores in (
        loope.pesi(table(name)),
        loope.pesi(table(name).float()),
        loope.pesi_from_similarity(loope.cosine_similarity(table(name)), 14),
    ):
        assert [round(score.item(), 4) for score in (scores.m_u, scores.m_d, scores.a_su)] == [m_u, m_d, a_su]


def test_the_row_that_the_paper_leaves_out():
    scores = loope.pesi(table("sincos2d"))
    assert [round(score.item(), 4) for score in (scores.m_u, scores.m_d, scores.a_su)] == [1.9991, 1.5318, 0.0281]
    assert 0.9998 < scores.m_d_share < 1


def test_one_direction_ranks_cells_and_not_rings():
    # The text says that M_D tends to M_U as N -> 1; it does not.
    scores = loope.pesi(table("gilbert"), 1)
    assert round(scores.m_d.item(), 4) == 1.6547
    assert round(scores.m_u.item(), 4) == 1.9674


def test_four_directions_favour_the_curve():
    # Supp. B.4; with 60 directions it is the other way round.
    gilbert, raster = table("gilbert"), table("sinusoid")
    assert loope.pesi(gilbert, 4).m_d > loope.pesi(raster, 4).m_d
    assert loope.pesi(gilbert, 60).m_d < loope.pesi(raster, 60).m_d


# The ceiling.


def test_the_table_of_ceilings():
    known = {1: 2.0, 4: 1.9247, 8: 1.8355, 16: 1.7519, 32: 1.6508, 60: 1.5321, 120: 1.3795}
    assert {n: round(loope.m_d_ceiling(14, n), 4) for n in known} == known


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 6), st.integers(1, 130))
def test_the_ceiling_is_what_pure_distance_scores(height, width, directions):
    grid = Grid(height, width)
    assert loope.m_d_ceiling(grid, directions) == pytest.approx(reference.ceiling(grid, directions), abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 5), st.integers(2, 5), st.sampled_from([1, 3, 4, 8, 60]), st.integers(0, 99))
def test_no_embedding_is_above_the_ceiling_and_a_gaussian_reaches_it(height, width, directions, seed):
    grid = Grid(height, width)
    cells = torch.stack(grid.coordinates(), -1).double()
    gaussian = (-(cells[:, None] - cells).square().sum(-1) / 50).exp()  # a valid cosine similarity
    assert loope.pesi_from_similarity(gaussian, grid, directions).m_d.item() == pytest.approx(
        loope.m_d_ceiling(grid, directions), abs=1e-12
    )
    assert loope.pesi(positive(height, width, 3, seed=seed), directions).m_d_share <= 1 + 1e-12


# The literal pseudo-code.


@pytest.mark.parametrize("grid", [(4, 4), (5, 5), (3, 7), (7, 2), (1, 6), (6, 1), (1, 2), (2, 2)])
@pytest.mark.parametrize("directions", [1, 4, 7, 60])
def test_agrees_with_the_literal_loops(grid, directions):
    embedding = positive(*grid, 5)
    similarity = reference.cosines(embedding)
    torch.testing.assert_close(loope.cosine_similarity(embedding), torch.as_tensor(similarity), atol=1e-12, rtol=0)
    assert_as_reference(loope.pesi(embedding, directions), similarity, grid, directions)
    assert_as_reference(
        loope.pesi_from_similarity(torch.as_tensor(similarity), grid, directions), similarity, grid, directions
    )


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 6), st.integers(2, 6), st.integers(1, 130), st.integers(0, 2**31))
def test_agrees_on_similarities_full_of_ties(height, width, directions, seed):
    size = height * width
    similarity = np.random.default_rng(seed).integers(1, 4, (size, size)).astype(float)  # not symmetric either
    scores = loope.pesi_from_similarity(torch.as_tensor(similarity), (height, width), directions)
    assert_as_reference(scores, similarity, (height, width), directions)


@pytest.mark.parametrize("name", ["sinusoid", "gilbert", "sincos2d"])
def test_agrees_on_the_published_grid(name):
    similarity = loope.cosine_similarity(table(name))
    assert_as_reference(loope.pesi_from_similarity(similarity, 14), similarity.numpy(), (14, 14), 60)
    assert_as_reference(loope.pesi(table(name)), similarity.numpy(), (14, 14), 60)


def test_the_reference_correlates_as_scipy_does():
    draw = np.random.default_rng(0)
    for count in (3, 10, 50):
        for xs, ys in draw.integers(0, 9, (20, 2, count)):
            xs[:2], ys[:2] = (0, 1), (0, 1)
            assert reference.correlation(list(xs), list(ys)) == pytest.approx(spearmanr(xs, ys).statistic, abs=1e-12)


def test_one_bucket_is_scipys_spearman():
    grid = (5, 6)
    similarity = loope.cosine_similarity(positive(*grid, 3))
    rows, columns = Grid(*grid).coordinates()
    scores = loope.directed_monotonicity(similarity, grid, directions=1).flatten()
    for cell in range(30):
        distance = ((rows - rows[cell]) ** 2 + (columns - columns[cell]) ** 2).sqrt()
        assert 1 - scores[cell].item() == pytest.approx(spearmanr(distance, similarity[cell]).statistic, abs=1e-9)


def test_many_directions():
    embedding = positive(2, 3, 4)
    similarity = reference.cosines(embedding)
    assert_as_reference(loope.pesi(embedding, 1000), similarity, (2, 3), 1000)
    most = loope.pesi(embedding, 2**20)  # the bucket of the centre, and few others, hold two cells
    assert most.m_d.item() == pytest.approx(1, abs=3 / 2**20)
    assert torch.equal(loope.directed_monotonicity(loope.cosine_similarity(embedding), (2, 3), 2**20), most.maps.m_d)


# Shapes, batches, parts, chunks.


def test_a_batch_is_measured_image_by_image():
    batch = positive(3, 4, 5, 6)
    scores = loope.pesi(batch)
    assert scores.m_u.shape == scores.m_d_share.shape == scores.smallest_mean.shape == (3,)
    assert all(one.shape == (3, 4, 5) for one in scores.maps)
    similarity = loope.pesi_from_similarity(loope.cosine_similarity(batch), (4, 5))
    for image in range(3):
        alone = loope.pesi(batch[image])
        assert alone.m_u.shape == ()
        for name in PARTS:
            torch.testing.assert_close(getattr(scores, name)[image], getattr(alone, name), atol=1e-12, rtol=0)
            torch.testing.assert_close(
                getattr(similarity.maps, name)[image], getattr(alone.maps, name), atol=1e-11, rtol=0
            )


def test_the_parts_are_functions_of_their_own():
    for batch in ((), (2,)):
        embedding = positive(*batch, 3, 5, 4)
        similarity, scores = loope.cosine_similarity(embedding), loope.pesi(embedding, 7)
        assert torch.equal(loope.undirected_monotonicity(similarity, (3, 5)), scores.maps.m_u)
        torch.testing.assert_close(loope.directed_monotonicity(similarity, (3, 5), 7), scores.maps.m_d)
        torch.testing.assert_close(loope.undirected_asymmetry(similarity, (3, 5)), scores.maps.a_su, atol=1e-11, rtol=0)


@pytest.mark.parametrize("cells", [1, 40, 100])
def test_chunks_of_centres_change_nothing(cells, monkeypatch):
    embedding = positive(4, 5, 6)
    whole = loope.pesi(embedding)
    monkeypatch.setattr(geometry, "CHUNK", cells)
    geometry.geometry.cache_clear()
    parts = loope.pesi(embedding)
    geometry.geometry.cache_clear()
    for name in PARTS:
        torch.testing.assert_close(getattr(parts.maps, name), getattr(whole.maps, name), atol=1e-13, rtol=0)


def test_geometry_is_kept_by_height_width_and_directions():
    geometry.geometry.cache_clear()
    embedding = positive(2, 8, 3)
    first = loope.pesi(embedding)
    assert geometry.geometry.cache_info().misses == 1
    loope.pesi(embedding)
    assert geometry.geometry.cache_info().misses == 1
    square = loope.pesi(embedding.view(4, 4, 3))  # as many cells, another grid
    assert geometry.geometry.cache_info().misses == 2
    assert first.m_u != square.m_u
    assert loope.pesi(embedding, 4).m_d != first.m_d
