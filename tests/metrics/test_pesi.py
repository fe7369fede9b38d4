"""PESI against the literal pseudo-code, scipy and the published numbers."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

import loope
from loope.core.grid import Grid
from loope.metrics import geometry
from tests.metrics import reference

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


# Precision.


def test_what_is_equal_on_paper_is_not_ranked():
    # On one row, cells left and right of a centre are equally alike; only the last bits of a product tell them apart.
    embedding = table("sinusoid", (1, 40), 64)
    vectors = embedding[0] / embedding[0].norm(dim=-1, keepdim=True)
    noisy = vectors @ vectors.T
    exact = noisy[0][(torch.arange(40)[:, None] - torch.arange(40)).abs()]
    assert not torch.equal(noisy, exact)
    expected = loope.pesi_from_similarity(exact, (1, 40), 1).maps.m_d
    assert torch.equal(loope.pesi(embedding, 1).maps.m_d, expected)
    assert torch.equal(loope.pesi_from_similarity(loope.cosine_similarity(embedding), (1, 40), 1).maps.m_d, expected)
    assert not torch.equal(loope.pesi_from_similarity(noisy, (1, 40), 1).maps.m_d, expected)  # given, so ranked


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_narrow_dtypes_are_widened_before_anything_is_computed(dtype):
    embedding = positive(5, 6, 8).to(dtype)
    narrow, wide = loope.pesi(embedding), loope.pesi(embedding.double())
    assert narrow.m_u.dtype == torch.float64
    assert (narrow.m_u, narrow.m_d, narrow.a_su) == (wide.m_u, wide.m_d, wide.a_su)
    similarity = loope.cosine_similarity(positive(5, 6, 8)).to(dtype)
    narrow, wide = (loope.pesi_from_similarity(e, (5, 6)) for e in (similarity, similarity.double()))
    assert (narrow.m_u, narrow.m_d, narrow.a_su) == (wide.m_u, wide.m_d, wide.a_su)


@pytest.mark.parametrize("factor", [1e-200, 1e-30, 1e30, 1e200])
def test_length_and_scale_do_not_matter(factor):
    embedding = positive(4, 5, 6)
    whole, scaled = loope.pesi(embedding), loope.pesi(embedding * factor)
    similarity = loope.cosine_similarity(embedding)
    also = loope.pesi_from_similarity(similarity * factor, (4, 5))
    for other in (scaled, also):
        for name in ("m_u", "m_d", "a_su", "a_su_bounded"):
            assert getattr(other, name).item() == pytest.approx(getattr(whole, name).item(), abs=1e-9)


def test_autocast_and_gradients_are_left_out():
    embedding = positive(4, 5, 6).float().requires_grad_()
    plain = loope.pesi(embedding)
    assert not plain.m_u.requires_grad
    geometry.geometry.cache_clear()
    with torch.autocast("cpu", torch.bfloat16), torch.inference_mode():
        under = loope.pesi(embedding)
    assert (plain.m_u, plain.m_d, plain.a_su) == (under.m_u, under.m_d, under.a_su)
    assert (loope.pesi(embedding).m_d) == plain.m_d  # what was kept in inference mode serves later


def test_everything_happens_where_the_embedding_is():
    embedding = positive(4, 5, 6)
    plain = loope.pesi(embedding)
    geometry.geometry.cache_clear()
    with torch.device("meta"):  # what is made elsewhere has no values
        assert loope.pesi(embedding).m_d == plain.m_d
        similarity = loope.cosine_similarity(embedding)
        assert loope.pesi_from_similarity(similarity, (4, 5)).m_d == plain.m_d
        assert loope.translation_consistency(similarity, (4, 5)) > 0
        assert loope.nearness_correlation(similarity, (4, 5)) < 1


# A_SU where its mean is near zero, and similarities without an order.


def test_a_mean_near_zero_is_told():
    embedding = positive(4, 4, 8) - 0.6
    with pytest.warns(loope.LoopeWarning, match=r"A_SU divides by the mean.*a_su_bounded"):
        scores = loope.pesi(embedding)
    assert scores.smallest_mean < 0.01
    assert 0 <= scores.a_su_bounded <= 0.5
    assert_as_reference(scores, reference.cosines(embedding), (4, 4), 60)


def test_a_mean_of_zero_is_infinite_as_defined():
    similarity = torch.tensor([[1.0, 2.0, -1.0]]).repeat(3, 1)
    with pytest.warns(loope.LoopeWarning):
        scores = loope.pesi_from_similarity(similarity, (1, 3))
    assert scores.maps.a_su.flatten().tolist() == pytest.approx([0, math.inf, 0])
    assert scores.maps.a_su_bounded.flatten().tolist() == pytest.approx([0, 1 / 6, 0])


def test_a_constant_has_no_order():
    scores = loope.pesi_from_similarity(torch.ones(12, 12), (3, 4))
    assert [getattr(scores, name).item() for name in PARTS] == [1, 1, 0, 0]
    tenth = loope.pesi_from_similarity(torch.full((81, 81), 0.1, dtype=torch.float64), 9)  # sums of it are rounded
    assert (tenth.m_u, tenth.m_d) == (1, 1)
    assert [tenth.a_su.item(), tenth.a_su_bounded.item()] == pytest.approx([0, 0], abs=1e-12)
    nothing = loope.pesi_from_similarity(torch.zeros(12, 12), (3, 4))
    assert [getattr(nothing, name).item() for name in PARTS] == [1, 1, 0, 0]
    assert nothing.smallest_mean == math.inf  # no ring has a spread: nothing was divided by a small mean
