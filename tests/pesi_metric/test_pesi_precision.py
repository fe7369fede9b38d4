"""PESI to the last bits: rounding, dtypes, scale, devices, and similarities that have no order."""

import math

import pytest
import torch

import loope
from loope.pesi_metric import geometry
from tests.pesi_metric import reference
from tests.pesi_metric.embeddings import PARTS, assert_as_reference, positive, table


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


def test_a_mean_near_zero_is_flagged():
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
