"""The table of encoders says what the encoders do."""

import pytest
import torch

import loope
from loope.core.grid import Grid
from loope.encoders.base import ENCODERS
from loope.encoders.describe import ALL_KINDS, describe, grouped

GRID = Grid(14, 14)
ROWS = {row.name: row for row in describe(GRID)}


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("none", "none"), ("learned", "additive"), ("factorized", "additive"), ("peg", "conditional"),
        ("rope_mixed", "rotary"), ("alibi2d", "bias"), ("rel_pos_mlp", "bias"), ("pape", "bias"),
    ],
)  # fmt: skip
def test_kinds(name, kind):
    assert ROWS[name].kind == kind
    assert name in [row.name for row in describe(GRID, kind=kind)]


def test_one_kind_alone():
    for kind in ALL_KINDS:
        found = [row.name for row in describe(GRID, kind=kind)]
        assert found == [name for name, row in ROWS.items() if row.kind == kind]
        assert found
    assert describe(GRID, pattern="rope*", kind="bias") == []
    with pytest.raises(loope.LoopeError, match="Unknown kind 'relative'") as error:
        describe(GRID, kind="relative")
    assert all(kind in str(error.value) for kind in ALL_KINDS)


def test_groups_hold_every_encoder_once_in_the_order_of_kinds():
    groups = grouped(list(ROWS.values()))
    assert tuple(groups) == ALL_KINDS
    assert sorted(row.name for group in groups.values() for row in group) == sorted(ROWS)


def test_an_encoder_of_several_kinds_is_in_each(monkeypatch):
    monkeypatch.setattr(ENCODERS, "_makers", dict(ENCODERS._makers))

    @loope.register_encoder("two_kinds")
    class TwoKinds(loope.PositionalEncoder):
        """Nothing, twice, and without a similarity."""

        def embed(self, images, positions):
            raise TypeError

        def rotate(self, q, k, positions, layer):
            return q, k

    for kind in ("additive", "rotary"):
        assert describe(GRID, kind=kind)[-1].name == "two_kinds"
    rows = describe(GRID)
    assert list(grouped(rows))[-1] == "additive, rotary"
    assert rows[-1].sizes == "-"


@pytest.mark.parametrize(
    ("sizes", "names"),
    [
        ("resampled", ["learned", "factorized"]),
        ("stretched", ["fourier", "sincos2d_sum", "as2drope", "rel_pos_mlp", "fire2d"]),
        ("in cells", ["sincos2d", "alibi2d", "irpe", "rope_axial", "rope_mixed", "lookhere", "pape", "peg"]),
        ("new curve", ["sinusoid", "gilbert"]),
        ("new curve, resampled", ["loope"]),
        ("-", ["none"]),
    ],
)
def test_what_happens_at_other_sizes(sizes, names):
    assert {ROWS[name].sizes for name in names} == {sizes}


def test_flash_attention_takes_all_but_a_dense_bias():
    refused = {name for name, row in ROWS.items() if not row.flash}
    assert refused == {name for name, row in ROWS.items() if row.kind == "bias"} - {"pape"}


def test_describing_draws_no_random_numbers():
    torch.manual_seed(0)
    expected = torch.rand(())
    torch.manual_seed(0)
    describe(GRID)
    assert torch.rand(()) == expected
