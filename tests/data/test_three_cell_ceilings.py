"""What can be scored without positions, or with relative ones: against plain counting in fractions."""

from collections import defaultdict
from fractions import Fraction

import pytest

from loope.core.errors import LoopeError
from loope.core.grid import Grid
from loope.core.three_cell import by_task
from loope.data.three_cell import ThreeCell
from loope.data.three_cell.ceilings import ceilings
from tests.data.reference import label, triples


@pytest.mark.parametrize("grid", [Grid(3, 3), Grid(3, 5), Grid(4, 2)], ids=str)
def test_ceilings_agree_with_counting(grid):
    labelled = [(three, label(*grid, *three)) for three in triples(*grid)]
    cases = [tuple(bits[:2]) for _, bits in labelled]
    weight = {case: Fraction(1, 3 * cases.count(case)) for case in set(cases)}
    shapes = defaultdict(lambda: [[Fraction(0), Fraction(0)] for _ in range(6)])
    everything = [[Fraction(0), Fraction(0)] for _ in range(6)]
    for (red, green, blue), bits in labelled:
        shape = green[0] - red[0], green[1] - red[1], blue[0] - red[0], blue[1] - red[1]
        for place, bit in enumerate(bits):
            shapes[shape][place][bit] += weight[tuple(bits[:2])]
            everything[place][bit] += weight[tuple(bits[:2])]
    constant = by_task([max(both) for both in everything])
    relative = by_task([sum(max(counts[place]) for counts in shapes.values()) for place in range(6)])
    found = ceilings(grid)
    assert found.constant == pytest.approx({task: float(rate) for task, rate in constant.items()}, abs=1e-12)
    assert found.relative == pytest.approx({task: float(rate) for task, rate in relative.items()}, abs=1e-12)
    assert relative["distance"] == relative["orientation"] == 1


def test_samples_come_near_the_constant_ceiling():
    found = ceilings(Grid(6, 6)).constant
    assert ThreeCell(100_000, 6, seed=1).majority_rates() == pytest.approx(found, abs=0.01)


def test_thin_grids_have_none():
    with pytest.raises(LoopeError, match="not on one line"):
        ceilings(Grid(1, 5))
