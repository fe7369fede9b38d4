"""Errors, registry, grid, ranks, files."""

import json
import math
import sys

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata, spearmanr

import loope
from loope.core.errors import LoopeError, nearest_first, one_of, require_multiple, unknown
from loope.core.files import write_atomic
from loope.core.grid import Grid, as_grid, as_positive, as_size
from loope.core.packages import require_packages
from loope.core.plain import to_json
from loope.core.ranks import average_ranks, spearman
from loope.core.registry import Registry
from loope.surgery.adapters.base import build_model

numbers = st.lists(st.integers(-5, 5), min_size=2, max_size=30)


@given(numbers)
def test_ranks_agree_with_scipy(values):
    assert average_ranks(torch.tensor(values)).tolist() == rankdata(values).tolist()


@given(st.integers(0, 2**32 - 1), st.integers(3, 30))
def test_spearman_agrees_with_scipy(seed, count):
    x, y = np.random.default_rng(seed).integers(0, 8, (2, 3, count))
    x[:, 0], x[:, 1], y[:, 0], y[:, 1] = 0, 1, 0, 1  # no side is constant
    ours = spearman(torch.tensor(x), torch.tensor(y))
    assert ours.tolist() == pytest.approx([spearmanr(a, b).statistic for a, b in zip(x, y, strict=True)], abs=1e-12)


def test_spearman_of_a_constant_is_nan():
    assert spearman(torch.ones(4), torch.arange(4)).isnan()


def test_grid_reads_sides_and_pairs():
    assert as_grid(3) == as_grid((3, 3)) == as_grid([3, 3]) == Grid(3, 3)
    row, column = Grid(2, 3).coordinates()
    assert row.tolist() == [0, 0, 0, 1, 1, 1]
    assert column.tolist() == [0, 1, 2, 0, 1, 2]
    row, column = Grid(1, 3).unit_coordinates()
    assert row.tolist() == [0, 0, 0]
    assert column.tolist() == [-1, 0, 1]


@pytest.mark.parametrize("bad", [0, -1, (0, 3), (3, -2), 2.5, (1, 2, 3), (1,), "14x14", None, (2, "a"), True])
def test_grids_that_are_none(bad):
    with pytest.raises(LoopeError, match="`grid` must be"):
        as_grid(bad)


@pytest.mark.parametrize("bad", [0, -3, 1.5, "8", None, True])
def test_sizes_that_are_none(bad):
    with pytest.raises(LoopeError, match="`dim` must be a whole number from 1 up"):
        as_size(bad, "dim")


@pytest.mark.parametrize("bad", [0, -1.5, float("nan"), float("inf"), "1", None, True])
def test_numbers_that_are_not_positive(bad):
    assert as_positive(2, "std") == 2.0
    with pytest.raises(LoopeError, match="`std` must be a positive number"):
        as_positive(bad, "std")


def test_multiples_name_what_would_do():
    require_multiple("dim", 8, 4, "'x'")
    with pytest.raises(LoopeError, match="got 3; use 4"):
        require_multiple("dim", 3, 4, "'x'")
    with pytest.raises(LoopeError, match="got 190; use 188 or 192"):
        require_multiple("dim", 190, 4, "'x'")


def test_nearest_names_come_first():
    assert nearest_first("rope", ["learned", "rope_axial", "peg"])[0] == "rope_axial"


def test_registry_checks_options_and_needs():
    things: Registry = Registry("thing")

    @things.register("a")
    def make_a(dim, heads, mode="x"):
        return dim, heads, mode

    @things.register("b")
    def make_b():
        return ()

    context = {"dim": 1, "heads": None, "grid": 3}
    assert things.create("a", {**context, "heads": 2}, {"mode": "y"}) == (1, 2, "y")
    assert things.create("b", context, {}) == ()
    with pytest.raises(LoopeError, match=r"needs `heads`; pass heads=\.\.\."):
        things.create("a", context, {})
    with pytest.raises(LoopeError, match=r"Unknown option of the thing 'a': 'mod'; use one of: mode"):
        things.create("a", context, {"mod": 1})
    with pytest.raises(LoopeError, match="takes no options"):
        things.create("b", context, {"mode": 1})


def test_failed_writes_keep_the_old_file(tmp_path, monkeypatch):
    path = write_atomic(tmp_path / "deep" / "file.txt", "old")
    assert path.read_text() == "old"

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr("os.replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"new")
    assert [p.name for p in path.parent.iterdir()] == ["file.txt"]
    assert path.read_text() == "old"


def test_unknown_names_are_shortened_in_messages():
    told = str(unknown("order", "g" * 100_000, ["gilbert", "raster"]))
    assert "gilbert" in told
    assert len(told) < 1000


@pytest.mark.parametrize("value", [10**30, -(10**30), pytest.param(10**5000, id="5001 digits"), 2**63])
def test_whole_numbers_beyond_what_a_tensor_can_have(value):
    for read in (lambda: as_grid(value), lambda: as_grid((2, value)), lambda: as_size(value, "size")):
        with pytest.raises(LoopeError, match="must"):
            read()


@pytest.mark.parametrize("name", [[], {}, None, 3, torch.ones(2), object()])
def test_names_that_are_none(name):
    with pytest.raises(LoopeError, match="Unknown shape"):
        Registry("shape")[name]
    with pytest.raises(LoopeError, match="Unknown colour"):
        one_of("colour", name, ["red"])
    with pytest.raises(LoopeError, match="must be a string"):
        Registry("shape").register(name)(len)


def test_json_has_no_nan():
    told = to_json({"mean": math.nan, "rows": [(math.inf, 1.5), {"n": -math.inf}], "name": "x"})
    assert json.loads(told, parse_constant=pytest.fail) == {
        "mean": None,
        "rows": [[None, 1.5], {"n": None}],
        "name": "x",
    }


def _safetensors_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "safetensors", None)
    (tmp_path / "m.safetensors").touch()
    loope.load(tmp_path / "m.safetensors")


def _matplotlib_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    loope.plots.orders([loope.create_order("gilbert", 2, 2)])


def _timm_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "timm", None)
    build_model({"library": "timm", "name": "vit_tiny_patch16_224", "args": {}})


def _a_package_is_missing(monkeypatch, tmp_path):
    require_packages("The test", "moon", "rocket_science")


@pytest.mark.parametrize(
    "use", [_safetensors_is_missing, _matplotlib_is_missing, _timm_is_missing, _a_package_is_missing]
)
def test_missing_packages_are_import_errors_of_our_family(use, monkeypatch, tmp_path):
    with pytest.raises(ImportError, match=r"pip install 'loope\[") as shown:
        use(monkeypatch, tmp_path)
    assert isinstance(shown.value, loope.LoopeError)
