"""`loope three-cell`, run as a user would."""

import json
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import loope
from loope.cli import main as cli
from loope.three_cell import export as three_cell_export
from tests.cli.test_cli import runner


def test_show_draws_letters_words_and_a_picture(tmp_path):
    path = tmp_path / "seen" / "samples.png"
    asked = ["three-cell", "show", "--count", "1", "--grid", "5x7", "--seed", "3", "--draw", str(path)]
    shown = runner.invoke(cli.app, asked)
    assert shown.exit_code == 0, shown.output
    assert path.read_bytes().startswith(b"\x89PNG")
    assert str(path) in shown.output.replace("\n", "")
    lines = [line.split() for line in shown.output.splitlines() if "·" in line]
    data = loope.ThreeCell(grid=(5, 7), seed=3)
    assert len(lines) == 5
    for letter, (row, column) in zip("RGB", data.cells[0].tolist(), strict=True):
        assert lines[row][column] == letter
    answers = json.loads(runner.invoke(cli.app, [*asked, "--json"]).output)
    assert answers["grid"] == [5, 7]
    (sample,) = answers["samples"]
    assert sample["cells"] == data.cells[0].tolist()
    assert sample["label"] == data.labels[0].tolist()
    for answer in sample["answers"].values():
        assert answer in shown.output


def test_show_writes_nothing_unasked(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shown = runner.invoke(cli.app, ["three-cell", "show", "--count", "1", "--grid", "3x3"])
    assert shown.exit_code == 0, shown.output
    assert list(tmp_path.iterdir()) == []


def test_show_is_limited_to_the_available_samples(tmp_path):
    asked = ["three-cell", "show", "--count", "9", "--size", "20", "--split", "val", "--json"]
    assert len(json.loads(runner.invoke(cli.app, asked).output)["samples"]) == 2


def test_export_writes_and_resumes(tmp_path, monkeypatch):
    asked = ["three-cell", "export", str(tmp_path / "probe"), "--size", "30", "--grid", "4x5", "--cell", "2"]
    real, calls = three_cell_export.write_atomic, []

    def interrupted(path, data, **options):
        calls.append(path)
        if len(calls) == 9:
            raise KeyboardInterrupt
        return real(path, data, **options)

    monkeypatch.setattr(three_cell_export, "write_atomic", interrupted)
    stopped = runner.invoke(cli.app, asked)
    assert stopped.exit_code == 130
    assert "Rerun the same command to resume" in stopped.output
    assert len(list((tmp_path / "probe" / "images").iterdir())) == 7
    done = runner.invoke(cli.app, asked)
    assert done.exit_code == 0, done.output
    assert len(list((tmp_path / "probe" / "images").iterdir())) == 30
    average = loope.ThreeCell(30, (4, 5), 2).majority_rates()["average"]
    assert f"average {average:.1%}" in re.sub(r"\s+", " ", done.output)


def test_export_tells_scripts_what_it_wrote(tmp_path):
    words = ["three-cell", "export", str(tmp_path / "probe"), "--size", "20", "--grid", "5x5", "--cell", "2", "--json"]
    output = json.loads(runner.invoke(cli.app, words).stdout)
    assert output["samples"] == 20
    assert Path(output["card"]).parent == Path(output["folder"]) == tmp_path / "probe"
    assert output["majority_rates"] == loope.ThreeCell(20, 5, 2).majority_rates()


def test_export_as_npz_of_a_split(tmp_path):
    asked = ["three-cell", "export", str(tmp_path / "probe"), "--size", "40", "--grid", "4", "--cell", "1"]
    done = runner.invoke(cli.app, [*asked, "--split", "test", "--sampler", "paper", "--seed", "2", "--format", "npz"])
    assert done.exit_code == 0, done.output
    with np.load(tmp_path / "probe" / "three-cell.npz", allow_pickle=False) as archive:
        expected = loope.ThreeCell(40, 4, 1, 2, "test", sampler="paper")
        assert np.array_equal(archive["cells"], expected.cells.numpy())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["show", "--grid", "1x9"], "not on one line"),
        (["show", "--split", "tset"], "Unknown split 'tset'; use one of: test"),
        (["export", "{folder}", "--size", "0"], "--size"),
        (["export", "{folder}", "--cell", "-1"], "--cell"),
        (["export", "{folder}", "--seed", "-1"], "--seed"),
        (["export", "{folder}", "--format", "jpeg"], "Unknown format 'jpeg'"),
        (["export", "{folder}/.."], "a folder of its own"),
    ],
)
def test_mistakes_end_in_a_message(arguments, message, monkeypatch, capsys, tmp_path):
    words = [word.replace("{folder}", str(tmp_path / "new")) for word in arguments]
    (tmp_path / "mine.txt").write_text("not an export")
    monkeypatch.setattr(sys, "argv", ["loope", "three-cell", *words])
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == 2
    assert message in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
