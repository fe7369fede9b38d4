"""What the encoders of the study can know, and whether they learn it."""

import pytest
import torch

import loope
from loope.core.grid import Grid
from loope.three_cell.ceilings import ceiling_if_alike, ceiling_of_view, ceilings
from replication import ceilings as criterion
from replication import study
from replication.tests.made_up import result, store
from tests.three_cell.test_ceilings import buckets, one_convolution, symmetric

GRID = Grid(7, 7)


def average(scores):
    return f"{100 * scores['average']:.1f}"


def test_ceilings_are_those_that_counting_gives():
    row, column = GRID.coordinates()
    unordered = torch.minimum(row, column) * 7 + torch.maximum(row, column)
    counted = {
        criterion.NOTHING: average(ceilings(GRID).constant),
        criterion.RELATIVE: average(ceilings(GRID).relative),
        criterion.UNORDERED: average(ceiling_if_alike(GRID, unordered)),
        criterion.SYMMETRIC: average(ceiling_of_view(GRID, symmetric(7))),
        criterion.BUCKETS: average(ceiling_of_view(GRID, buckets)),
        criterion.NEIGHBOURS: average(ceiling_of_view(GRID, one_convolution)),
    }
    assert {f"{stated:.1f}": found for stated, found in counted.items()} == {found: found for found in counted.values()}


@pytest.mark.parametrize("name", loope.list_encoders())
def test_encoders_that_mirrors_do_not_change_have_the_ceiling_of_symmetries(name):
    torch.manual_seed(0)
    encoder = loope.create_encoder(name, dim=64, grid=GRID, heads=4, depth=2, patch_size=4)
    if "bias" not in encoder.hooks():
        assert criterion.ceiling(name) != criterion.SYMMETRIC
        return
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter)  # tables that start at zero are symmetric
    with torch.no_grad():
        bias = encoder.bias(torch.ones(1, 4, 49, 16), GRID, 0)[0].unflatten(1, (7, 7)).unflatten(3, (7, 7))
    mirrored = bias.flip(2, 4)
    assert torch.allclose(bias, mirrored) == (criterion.ceiling(name) == criterion.SYMMETRIC)


def test_what_the_recipe_should_do(tmp_path, monkeypatch):
    ends = {"learned": 0.9, "alibi2d": 0.6, "peg": 0.7}
    runs = [run for run in study.PLAN[0].runs() if run.encoder.name in ends and run.seed < 2]
    store(tmp_path, monkeypatch, [result(run, ends[run.encoder.name]) for run in runs])
    found = {row: each.learned for row, each in criterion.endings().items()}
    assert found["Learnable"] == "yes"
    assert found["ALiBi 2D"] == "not asked"
    assert found["CPE"] == "in 0 of 2 seeds"
    assert found["LOOPE"] == "not run"
    assert (
        "1 of 2 that were run end above 80 % with every seed (not: CPE); 19 were not run"
        in criterion.criterion_answer()
    )
