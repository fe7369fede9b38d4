"""`loope run`, `status`, `tables`, `report` and `demo`, run as a user would."""

import html
import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from typer.testing import CliRunner

from loope.cli.main import app
from loope.core.errors import LoopeError
from loope.lab import executors
from loope.lab.executors import create_executor
from loope.lab.experiments import preflight
from loope.lab.experiments import runner as runner_of_runs
from loope.lab.experiments.measurement import Measurement
from loope.lab.experiments.presets import three_cell_run
from loope.lab.experiments.results import folder_of
from loope.surgery import load
from tests.lab.engine.test_lock import held

runner = CliRunner()


def loope(*words, code=0):
    done = runner.invoke(app, [str(word) for word in words])
    if done.exception and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == code, done.output
    return done.output


def test_tables():
    rows = json.loads(loope("tables", "--json"))
    assert {"table1", "table4", "maps"} <= {row["name"] for row in rows}
    assert next(row["runs"]["paper"] for row in rows if row["name"] == "table6") == 12
    assert "Robustness" in loope("tables")


def test_run_status_and_report(tmp_path):
    out = ("--out", tmp_path, "--preset", "smoke")
    before = json.loads(loope("status", "table5", *out, "--json"))
    assert {row["state"] for row in before} == {"waiting"}
    shown = loope("run", "table5", *out, "--only", "Static", "--on", "here")
    assert "1 of 1 runs are done" in shown
    after = json.loads(loope("status", "table5", *out, "--json"))
    assert sorted(row["state"] for row in after) == ["done"] + ["waiting"] * 12
    assert "table5" in loope("status", *out)

    chosen = json.loads(loope("status", "table5", *out, "--only", "Static", "--only", "LOOPE", "--json"))
    assert sorted(row["state"] for row in chosen) == ["done", "waiting"]
    whole, part = (loope("report", "table5", *out, *words) for words in ((), ("--only", "Static")))
    assert "table5-smoke.md" in whole
    assert "table5-part-smoke.md" in part
    narrow = loope("report", "table5", *out, "--only", "Static", "--to", "-")
    assert [line.split("|")[1].strip() for line in narrow.splitlines() if line.startswith("| ")] == [
        "",
        "---",
        "Static",
    ]
    with pytest.raises(LoopeError, match="name the table too"):
        loope("status", "--only", "Static")
    markdown = loope("report", "table5", *out, "--to", "-")
    row = next(line for line in markdown.splitlines() if line.startswith("| Static"))
    assert re.search(r"\*?\d\.\d{4}.*1\.9670 \([+-]", row)
    assert "| LOOPE | —<br>1.9674 |" in markdown
    for file_format, ending in (("html", "html"), ("latex", "tex"), ("csv", "csv"), ("json", "json"), ("md", "md")):
        output = loope("report", "table5", *out, "--format", file_format)
        path = Path(output.split("Written: ")[1].strip().replace("\n", ""))
        assert path.suffix == f".{ending}"
        assert "Static" in path.read_text()


def test_runs_on_other_classes_or_with_skipped_images_are_other_runs(tmp_path):
    lists = [tmp_path / "a.txt", tmp_path / "b.txt"]
    for first, path in enumerate(lists):
        path.write_text("\n".join(f"n{number}" for number in range(first, first + 100)))
    choices = [(), ("--skip-bad-images",), *(("--classes", path) for path in lists)]
    words = ("status", "scratch", "--only", "ViT-Base | LOOPE*", "--out", tmp_path, "--json")

    def look(*choice):
        (row,) = json.loads(loope(*words, *choice))
        return row

    names = [look(*choice)["run"] for choice in choices]
    assert len(set(names)) == len(choices)
    folder = tmp_path / "runs" / names[2]
    folder.mkdir(parents=True)
    (folder / "run.json").write_text(json.dumps({"metrics": {"best_top1": 0.5}}))
    assert [look(*choice)["state"] for choice in choices] == ["waiting", "waiting", "done", "waiting"]
    shown = loope("report", *words[1:-1], "--classes", lists[0], "--format", "csv", "--to", "-")
    assert "ViT-Base,LOOPE,50,," in shown
    lists[0].write_text("n1")
    with pytest.raises(LoopeError, match="100 classes, got 1"):
        look("--classes", lists[0])


def test_run_prints_its_table_as_json_and_nothing_else(tmp_path):
    words = ["run", "table5", "--out", tmp_path, "--preset", "smoke", "--only", "Static", "--on", "here", "--json"]
    done = runner.invoke(app, [str(word) for word in words])
    rows = {each["row"]: each["cells"] for each in json.loads(done.stdout)["rows"]}
    assert rows["Static"]["M_U"]["published"] == 1.967
    assert rows["Static"]["M_U"]["n"] == 1
    assert 1 <= rows["Static"]["M_U"]["mean"] <= 2
    assert set(rows) == {"Static"}
    whole = json.loads(
        loope("report", "table5", "--out", tmp_path, "--preset", "smoke", "--format", "json", "--to", "-")
    )
    assert next(each for each in whole["rows"] if each["row"] == "LOOPE")["cells"]["M_U"]["mean"] is None
    assert "1 of 1 runs are done" in done.stderr


def test_a_failed_run_is_reported_with_exit_code_1(tmp_path, monkeypatch):
    def broken(self, folder):
        raise ZeroDivisionError("broken on purpose")

    monkeypatch.setattr(Measurement, "execute", broken)
    words = ("--preset", "smoke", "--only", "Static", "--out", tmp_path)
    shown = loope("run", "table5", *words, "--on", "here", code=1)
    assert "failed" in shown
    assert "broken on purpose" in " ".join(shown.split())
    assert "broken on purpose" in " ".join(loope("status", "table5", *words).split())
    monkeypatch.setenv("RANK", "1")  # one of several processes, of which the first tells the whole story
    assert "first process" in loope("run", "table5", *words, "--on", "here", code=1)


def test_missing_data_is_reported_once_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.delenv("LOOPE_DATA", raising=False)
    monkeypatch.setattr(runner_of_runs, "execute", lambda *args: pytest.fail("a run was started"))
    with pytest.raises(LoopeError) as stopped:
        loope("run", "table1", "--only", "Oxford*", "--out", tmp_path)
    assert str(stopped.value).count("LOOPE_DATA") == 1
    assert not tmp_path.joinpath("runs").exists()


def test_runs_that_cannot_start_are_reported_and_the_others_run(tmp_path, monkeypatch):
    causes = []

    def some(runs, settings):
        causes.append(len(runs))
        return {run: "The moon is missing; put it up." for run in runs if run.encoder.name == "gilbert"}

    monkeypatch.setattr(preflight, "obstacles", some)
    words = ("run", "table5", "--preset", "smoke", "--only", "Static", "--only", "LOOPE", "--out", tmp_path)
    shown = " ".join(loope(*words, code=1).split())
    assert "1 of 2 runs are done" in shown
    assert shown.count("The moon is missing") == 1
    monkeypatch.setattr(preflight, "obstacles", lambda runs, settings: causes.append(len(runs)) or {})
    loope(*words)
    assert causes == [2, 1]  # finished runs are not checked again


@pytest.mark.parametrize("seen", [True, False])
def test_a_run_that_another_process_trains_is_running_elsewhere(tmp_path, monkeypatch, seen):
    """Detected before the run starts, or only when it takes the lock."""
    run = three_cell_run("smoke", "none")
    folder = folder_of(run, tmp_path / "runs")
    if not seen:
        monkeypatch.setattr("loope.lab.experiments.results.is_locked", lambda folder: False)
    words = ("run", "table4", "--preset", "smoke", "--only", "No PE*", "--out", tmp_path, "--on", "here")
    with held(folder, "LOCK_EX"):
        shown = loope(*words, code=3)
    assert f"running elsewhere: {run.name}" in "".join(shown.split("\n"))
    assert "failed" not in shown
    assert not (folder / "failed.json").exists()
    assert "running elsewhere" not in loope(*words)


def test_plots_belong_to_the_report(tmp_path):
    out = ("--out", tmp_path, "--preset", "smoke")
    loope("run", "trend", *out, "--on", "here")
    loope("run", "maps", *out, "--on", "here")
    for table, picture in (("trend", "trend-trend.png"), ("maps", "maps-maps.png")):
        loope("report", table, *out)
        assert (tmp_path / "reports" / picture).read_bytes().startswith(b"\x89PNG")
        assert f"]({picture})" in (tmp_path / "reports" / f"{table}-smoke.md").read_text()
    loope("report", "maps", *out, "--format", "html")
    assert "data:image/png;base64" in (tmp_path / "reports" / "maps-smoke.html").read_text()


def test_bad_input():
    with pytest.raises(LoopeError, match=r"Seeds are different whole numbers .* got '0,0'"):
        loope("run", "table5", "--seeds", "0,0")
    with pytest.raises(LoopeError, match="Unknown table 'table99'"):
        loope("report", "table99")
    with pytest.raises(LoopeError, match="Unknown preset 'mainframe'"):
        loope("run", "table5", "--preset", "mainframe")
    with pytest.raises(LoopeError, match="NAME=VALUE, got 'gpus'"):
        loope("run", "table5", "--resource", "gpus")
    with pytest.raises(LoopeError, match="Unknown executor 'moon'"):
        loope("run", "table5", "--on", "moon")


@pytest.mark.parametrize("on", ["here", pytest.param("local", marks=pytest.mark.slow)])
def test_the_demo_writes_a_report_that_opens_offline(tmp_path, monkeypatch, on):
    if on == "here":  # a process for each run takes four times as long
        monkeypatch.setattr(executors, "create_executor", lambda on, jobs: create_executor("here"))
    shown = loope("demo", "--smoke", "--out", tmp_path, "--jobs", 2)
    assert "Report with figures" in shown
    page = (tmp_path / "report.html").read_text()
    assert page.count("data:image/png;base64") == 5
    assert "http" not in page
    for name in ("none", "sinusoid", "gilbert", "loope", "sincos2d"):
        assert f"<td>{name}</td>" in page
    again = runner.invoke(app, ["demo", "--smoke", "--out", str(tmp_path), "--json"])  # all runs are done
    output = json.loads(again.stdout)
    assert set(output["scores"]) == {"none", "sinusoid", "gilbert", "loope", "sincos2d"}
    assert 0 <= output["scores"]["none"]["average"] <= 1
    assert output["report"] == str(tmp_path / "report.html")
    assert page.index(html.escape(output["conclusion"])) < page.index("<img")
    # The model that was trained with sincos2d, with its vectors as its own table, answers as before.
    assert output["swaps"]["original"]["average"] == pytest.approx(output["scores"]["sincos2d"]["average"], abs=1e-6)
    assert {name: swap["steps"] for name, swap in output["swaps"]["swaps"].items()} == {"fourier": 0, "rope_mixed": 2}
    assert all(f"<td>{name}</td>" in page for name in output["swaps"]["swaps"])
    # The explorer ships such a file: a small, complete model.
    assert Path(output["model"]).stat().st_size < 500_000
    model = load(output["model"])
    assert [encoder.name for encoder in model.loope.encoders_of(0)] == ["loope"]
    assert next(model.parameters()).dtype == torch.float16


@pytest.mark.slow  # tests/lab/engine/test_distributed.py trains in two processes, too
def test_two_processes_share_each_run(tmp_path):
    """The command of docs/scaling.md for several GPUs, on CPUs."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node=2", "-m", "loope"]
    words = ["run", "table4", "--preset", "smoke", "--only", "Static |*", "--only", "LOOPE |*", "--out", str(tmp_path)]
    done = subprocess.run([*command, *words], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("2 of 2 runs are done") == 1
    results = [json.loads(file.read_text()) for file in tmp_path.glob("runs/*/run.json")]
    assert {result["run"]["encoder"]["name"] for result in results} == {"gilbert", "loope"}
    alone = tmp_path / "alone"
    loope(*words[:-1], alone)
    for result in results:
        (same,) = alone.glob(f"runs/*{result['key']}/run.json")
        expected = json.loads(same.read_text())
        assert [each["loss"] for each in result["history"]] == pytest.approx(
            [each["loss"] for each in expected["history"]], rel=1e-5
        )


@pytest.mark.slow  # tests/lab/engine/test_executors.py interrupts processes, too
def test_ctrl_c_saves_and_says_how_to_resume(tmp_path):
    """Interrupt a process while its runs train: they save, and the message says how to resume."""
    words = ["demo", "--out", str(tmp_path), "--jobs", "2"]
    process = subprocess.Popen([sys.executable, "-m", "loope", *words], stdout=subprocess.PIPE, text=True)
    try:
        while not list(tmp_path.glob("runs/*/progress.json")):
            assert process.poll() is None
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 130
    assert "Rerun the same command to resume" in " ".join(out.split())
    assert list(tmp_path.glob("runs/*/checkpoints/*/state.json"))
    assert not list(tmp_path.glob("runs/*/failed.json"))
