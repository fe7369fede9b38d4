"""The command line, run as a user would."""

import json
import pkgutil
import re
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import loope
from loope.cli import main as cli

runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})
LOADED = "import sys; {}; sys.exit('torch' in sys.modules or 'numpy' in sys.modules or 'matplotlib' in sys.modules)"


def python(code: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, timeout=120)


@pytest.mark.parametrize(
    "code",
    [
        "import loope",
        "import loope; dir(loope); loope.LoopeError",
        "import loope.cli.main as m, typer.testing as t; assert t.CliRunner().invoke(m.app, '--help').output",
    ],
)
def test_nothing_heavy_is_loaded(code):
    assert python(LOADED.format(code)).returncode == 0
    # The check can fail: asking for an encoder does load torch.
    assert python(LOADED.format("import loope; loope.list_encoders()")).returncode == 1


def test_the_installed_command_prints_help_and_version():
    help_text = subprocess.run([sys.executable, "-m", "loope", "--help"], capture_output=True, text=True, check=True)
    assert all(command in help_text.stdout for command in ("demo", "order", "encoders"))
    version = subprocess.run([sys.executable, "-m", "loope", "--version"], capture_output=True, text=True, check=True)
    assert version.stdout.strip() == loope.__version__


def test_every_public_name_loads():
    for name in loope.__all__:
        assert getattr(loope, name) is not None
    assert set(loope.__all__) == set(dir(loope))
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = loope.nonsense


def test_names_of_older_versions_say_what_they_are_now():
    with pytest.raises(AttributeError, match=r"`loope\.freeze` is `loope\.bake` since 0\.2; see CHANGELOG\.md"):
        _ = loope.freeze
    for name, now in loope._MOVED.items():
        assert not hasattr(loope, name)
        assert pkgutil.resolve_name(now) is not None


def test_order_prints_a_table_and_json(tmp_path):
    shown = runner.invoke(cli.app, ["order", "gilbert", "raster", "--grid", "7x28", "--draw", str(tmp_path / "o.png")])
    assert shown.exit_code == 0
    assert re.search(r"gilbert .* 5\.588", shown.output)
    assert (tmp_path / "o.png").read_bytes().startswith(b"\x89PNG")
    rows = json.loads(runner.invoke(cli.app, ["order", "--grid", "1x2", "--json"]).output)
    assert rows["grid"] == [1, 2]
    assert list(rows["orders"]) == loope.list_orders()
    assert rows["orders"]["raster"] == {"neighbour_distance": 1.0, "kept": 1.0, "rank_correlation": None}


def test_encoders_lists_all_of_them():
    rows = json.loads(runner.invoke(cli.app, ["encoders", "--json"]).output)
    assert [row["name"] for row in rows] == loope.list_encoders()
    by_name = {row["name"]: row for row in rows}
    assert by_name["loope"]["parameters"] == 96_535
    assert by_name["peg"] | {"summary": ""} == {
        "name": "peg",
        "kind": "conditional",
        "parameters": 7680,
        "sizes": "in cells",
        "flash": True,
        "onnx": "yes",
        "paper": "Chu et al., 2021",
        "summary": "",
        "options": ["after"],
    }
    assert all(row["kind"] and row["paper"] and row["summary"] for row in rows)
    table = runner.invoke(cli.app, ["encoders", "rope*"]).output
    assert "rope_mixed" in table
    assert "alibi2d" not in table


def test_encoders_of_one_kind():
    rows = json.loads(runner.invoke(cli.app, ["encoders", "--kind", "rotary", "--json"]).output)
    assert "rope_mixed" in [row["name"] for row in rows]
    assert {row["kind"] for row in rows} == {"rotary"}
    table = runner.invoke(cli.app, ["encoders", "--kind", "bias"]).output
    assert "lookhere" in table
    assert "rope_mixed" not in table


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["order", "gilbart"], "Unknown order 'gilbart'"),
        (["order", "--grid", "14by14"], "HEIGHTxWIDTH"),
        (["order", "--grid", "0x3"], "at least 1x1"),
        (["encoders", "nosuch*"], "Unknown encoder 'nosuch*'"),
        (["encoders", "--kind", "rotatory"], "Unknown kind 'rotatory'; use one of: rotary"),
        (["order", "--draw", "orders.svg"], "name orders.png instead"),
        (["three-cell", "show", "--draw", "cells.jpg"], "name cells.png instead"),
        (["pesi", "gilbert", "--table", "pos_embed"], "give --checkpoint or --model"),
    ],
)
def test_mistakes_end_in_a_message(arguments, message, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["loope", *arguments])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["loope", "--debug", *arguments])
    with pytest.raises(loope.LoopeError):
        cli.main()


def test_files_that_cannot_be_used_end_in_a_message(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(sys, "argv", ["loope", "order", "raster", "--draw", str(tmp_path / "file" / "x.png")])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 1
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_sizes_that_some_encoders_cannot_take():
    rows = {
        row["name"]: row for row in json.loads(runner.invoke(cli.app, ["encoders", "--dim", "190", "--json"]).output)
    }
    assert rows["sincos2d"]["parameters"] is None
    assert rows["learned"]["parameters"] == 190 * 196
    assert re.search(r"raster +│ - ", runner.invoke(cli.app, ["order", "--grid", "1x1"]).output)
