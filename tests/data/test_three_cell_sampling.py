"""Sampling: every triple has the chance that it should have."""

import hashlib
import random
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2_contingency, chisquare

from loope.core.errors import LoopeError
from loope.core.grid import Grid
from loope.data.three_cell.paper import MAX_ATTEMPTS, sample_paper
from loope.data.three_cell.questions import answer, compare_distances, signed_area
from loope.data.three_cell.sampling import (
    Triples,
    _draw_equal,
    _draw_longer,
    _draw_shorter,
    count_triples,
    sample_exact,
)
from loope.data.three_cell.splits import SPLITS, hash_cells, part_of
from tests.data.reference import generate, label, on_a_line, representations, triples

SMALL = [Grid(2, 2), Grid(3, 3), Grid(3, 5), Grid(4, 3), Grid(2, 7)]


def draws(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def by_case(grid: Grid) -> dict[tuple[int, int], list]:
    """All valid triples by their distance bits, in plain Python."""
    cases: dict = {(0, 0): [], (0, 1): [], (1, 0): []}
    for three in triples(*grid):
        cases[tuple(label(*grid, *three)[:2])].append(three)
    return cases


def how_often(cells: torch.Tensor) -> Counter:
    return Counter(tuple(map(tuple, three)) for three in cells.tolist())


def uniformity(grid: Grid, cells: torch.Tensor, allowed=lambda three: True) -> float:
    """The p-value of: each case one third, each valid (and allowed) triple of a case alike."""
    counts, observed, expected = how_often(cells), [], []
    for case in by_case(grid).values():
        valid = [three for three in case if allowed(three)]
        observed += [counts.pop(three, 0) for three in valid]
        expected += [len(cells) / 3 / len(valid)] * len(valid)
    assert not counts, "triples that are not valid or not allowed"
    return chisquare(observed, expected).pvalue


@pytest.mark.parametrize("grid", [*SMALL, Grid(1, 9), Grid(6, 1), Grid(1, 1), Grid(6, 5)], ids=str)
def test_triples_are_counted(grid):
    assert count_triples(grid) == Triples(*(len(case) for case in by_case(grid).values()))


@pytest.mark.parametrize("grid", [*SMALL, Grid(4, 4)], ids=str)
def test_exact_sampling_is_uniform_in_each_case(grid):
    count = 30 * sum(count_triples(grid))
    assert uniformity(grid, sample_exact(grid, count, draws())) > 1e-3


def test_the_test_of_uniformity_can_fail():
    grid = Grid(3, 3)
    cells = sample_exact(grid, 12_000, draws())
    assert uniformity(grid, torch.cat((cells, cells[:300]))) > 1e-6  # a few twice do not matter
    assert uniformity(grid, sample_paper(grid, 12_000, draws())) < 1e-9
    lopsided = torch.where((cells[:, :1, :1] == 0) & (torch.arange(12_000)[:, None, None] % 5 == 0), cells[:1], cells)
    assert uniformity(grid, lopsided) < 1e-9


@pytest.mark.parametrize("split", SPLITS)
def test_exact_sampling_within_a_part_is_uniform_too(split):
    grid, fractions = Grid(3, 4), (0.5, 0.3, 0.2)
    keep = part_of(split, 0, grid, fractions)
    allowed = {three for three in triples(*grid) if keep(torch.tensor([three]))}
    cells = sample_exact(grid, 20_000, draws(), keep)
    assert 0 < len(allowed) < sum(count_triples(grid))
    assert uniformity(grid, cells, allowed.__contains__) > 1e-3


@settings(max_examples=30)
@given(st.integers(2, 40), st.integers(2, 40), st.integers(0, 2**32))
def test_every_sample_is_valid_on_any_grid(height, width, seed):
    grid = Grid(height, width)
    cells = sample_exact(grid, 50, draws(seed))
    assert cells.shape == (50, 3, 2)
    assert cells.dtype == torch.int64
    assert (cells >= 0).all()
    assert (cells < torch.tensor(grid)).all()
    assert (signed_area(cells) != 0).all()


def test_cases_are_one_third_each_on_large_grids():
    for grid in (Grid(14, 14), Grid(32, 32), Grid(7, 28)):
        bits = answer(sample_exact(grid, 30_000, draws()), grid)
        longer, shorter = bits[:, 0].sum().item(), bits[:, 1].sum().item()
        assert chisquare([longer, shorter, 30_000 - longer - shorter]).pvalue > 1e-3


def test_each_case_draws_what_it_says():
    grid = Grid(5, 4)
    for draw, sign in ((_draw_equal, 0), (_draw_shorter, -1), (_draw_longer, 1)):
        assert (np.sign(compare_distances(draw(grid, 500, draws()))) == sign).all()


def test_places_of_equal_triples_at_14x14():
    # Red's place in the equal case against a count over all cells, too many triples to list each.
    grid = Grid(14, 14)
    rows, columns = grid.coordinates()
    squared = (rows[:, None] - rows).square() + (columns[:, None] - columns).square()
    same = (squared[:, :, None] == squared[:, None, :]).sum(2) - 1  # other cells as far from red as green is
    opposite_row, opposite_column = 2 * rows[:, None] - rows, 2 * columns[:, None] - columns
    fits = (opposite_row >= 0) & (opposite_row < 14) & (opposite_column >= 0) & (opposite_column < 14)
    partners = ((same - fits.long()) * (squared > 0)).sum(1)
    assert partners.sum() == count_triples(grid).equal
    cells = sample_exact(grid, 60_000, draws())
    red = cells[(answer(cells, grid)[:, :2] == 0).all(1)][:, 0]
    observed = (red[:, 0] * 14 + red[:, 1]).bincount(minlength=196)
    assert chisquare(observed.numpy(), (partners / partners.sum() * len(red)).numpy()).pvalue > 1e-3


def test_thin_grids_have_no_triples():
    for grid in (Grid(1, 1), Grid(1, 14), Grid(14, 1)):
        for sample in (sample_exact, sample_paper):
            with pytest.raises(LoopeError, match="not on one line"):
                sample(grid, 5, draws())


@pytest.mark.parametrize(("grid", "count"), [(Grid(3, 3), 6_000), (Grid(3, 4), 8_000)], ids=str)
def test_the_papers_procedure_is_the_published_one(grid, count):
    pairs, rng = representations(*grid), random.Random(0)
    literal = Counter(generate(*grid, pairs, rng, MAX_ATTEMPTS) for _ in range(count))
    ours = how_often(sample_paper(grid, 4 * count, draws()))
    # Rare triples are put together: the test needs a few of each.
    everyone = sorted(literal | ours, key=lambda three: (literal[three] + ours[three], three))
    table = [[0, 0]]
    for three in everyone:
        table.append([literal[three], ours[three]])
        if table[-2][0] < 5:
            last = table.pop()
            table[-1] = [table[-1][0] + last[0], table[-1][1] + last[1]]
    assert len(table) > 100
    assert chi2_contingency(table).pvalue > 1e-3


def test_the_papers_procedure_at_14x14():
    grid, pairs, rng = Grid(14, 14), representations(14, 14), random.Random(1)
    assert len(pairs) == 125
    literal = [generate(14, 14, pairs, rng, MAX_ATTEMPTS) for _ in range(4000)]
    ours = sample_paper(grid, 40_000, draws(1))
    for feature in (
        lambda cells: cells[:, 0, 0],
        lambda cells: cells[:, 1, 1],
        lambda cells: label_number(cells, grid),
    ):
        a, b = (feature(cells).bincount(minlength=64) for cells in (torch.tensor(literal), ours))
        used = a + b >= 50
        assert used.sum() >= 10
        assert chi2_contingency(torch.stack((a[used], b[used])).numpy()).pvalue > 1e-3


def label_number(cells: torch.Tensor, grid: Grid) -> torch.Tensor:
    return (answer(cells, grid) * 2 ** torch.arange(6)).sum(1)


def test_the_pseudo_code_forgets_collinear_cells():
    pairs, rng = representations(14, 14), random.Random(0)
    published = [generate(14, 14, pairs, rng, MAX_ATTEMPTS, collinear=True) for _ in range(3000)]
    assert 0.03 < sum(on_a_line(*three) for three in published) / 3000 < 0.055


def test_the_hash_spreads_configurations_evenly():
    grid = Grid(6, 6)
    cells = torch.tensor(list(triples(*grid)))
    for seed in range(5):
        value = hash_cells(cells, seed, grid)
        assert value.min() >= 0
        assert value.max() < 2**31
        assert len(value.unique()) > 0.999 * len(cells)
        assert chisquare((value * 100 // 2**31).bincount(minlength=100).numpy()).pvalue > 1e-3
    # Neighbouring seeds and swapped cells have nothing in common.
    one, other = hash_cells(cells, 0, grid), hash_cells(cells, 1, grid)
    swapped = hash_cells(cells[:, [0, 2, 1]], 0, grid)
    for a, b in ((one, other), (one, swapped)):
        table = ((a * 4 // 2**31) * 4 + b * 4 // 2**31).bincount(minlength=16).view(4, 4)
        assert chi2_contingency(table.numpy()).pvalue > 1e-3


def test_the_hash_is_the_same_everywhere():
    def scramble(v):
        v = (v ^ v >> 16) * 0x7FEB352D % 2**31
        v = (v ^ v >> 15) * 0x846CA68B % 2**31
        return v ^ v >> 16

    grid = Grid(14, 14)
    cells = sample_exact(grid, 20, draws())
    start = int.from_bytes(hashlib.sha256(b"three-cell 7 parts").digest()[:8], "big") >> 33
    for value, three in zip(hash_cells(cells, 7, grid).tolist(), cells.tolist(), strict=True):
        expected = start
        for row, column in three:
            expected = scramble(expected ^ (row * 14 + column))
        assert value == expected
