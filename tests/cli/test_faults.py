"""Mistakes that once ended in a traceback or never ended: each ends in a message that names what is wrong."""

import json
import socket
import subprocess
import sys

import pytest
import torch
from safetensors.torch import save_file

from loope.cli import explore
from loope.core.errors import LoopeError
from loope.lab.experiments.presets import measured
from loope.lab.experiments.results import RESULT, folder_of, status_of
from tests.cli import fuzzing

MANY = "9" * 5000


@pytest.mark.parametrize(
    ("typed", "named"),
    [
        (["order", "--draw", ""], "PNG"),
        (["order", "--draw", "folder.png"], "folder.png"),
        (["order", "--grid", "100000x100000"], "100000x100000"),
        (["order", "--grid", f"1x{10**9}"], f"1x{10**9}"),
        (["order", "--grid", MANY], "HEIGHTxWIDTH"),
        (["encoders", "--grid", "100000x100000"], "100000x100000"),
        (["encoders", "--dim", MANY], "--dim"),
        (["encoders", "--dim", str(2**61 - 1)], "--dim"),
        (["pesi", "gilbert", "--grid", "100000x100000"], "100000x100000"),
        (["pesi", "gilbert", "--grid", "70x60"], "70x60"),
        (["pesi", "gilbert", "--dim", "1000000000"], "--dim"),
        (["pesi", "learned", "--seed", str(2**64)], "--seed"),
        (["pesi", "--model", "resnet18", "--checkpoint", "table.safetensors", "--table", "head"], "head"),
        (["three-cell", "show", "--size", "2147483648"], "--size"),
        (["three-cell", "show", "--draw", ""], "PNG"),
        (["three-cell", "export", "probe", "--cell", "100000"], "pixels"),
        (["three-cell", "export", "loop"], "loop"),
        (["report", "table5", "--to", "."], "--to"),
        (["report", "table5", "--to", ""], "--to"),
        (["status", "--seeds", "0,²"], "0,²"),
        (["status", "--seeds", MANY], "999"),
        (["status", "--seeds", "0,00"], "0,00"),
        (["run", "table5", "--epochs", MANY], "--epochs"),
        (["run", "table5", "--jobs", str(2**63)], "--jobs"),
        (["run", "table5", "--resource", "on=1"], "on=1"),
        (["run", "table5", "--resource", "jobs=1"], "jobs=1"),
        (["run", "table5", "--resource", "=1"], "NAME=VALUE"),
        (["run", "table5", "--preset", "smoke", "--out", "/proc/nowhere"], "/proc/nowhere"),
        (["explore", "--host", ""], "--host"),
        (["explore", "--host", "\udcff"], "Cannot listen"),
        (["explore", "--host", "x" * 300], "Cannot listen"),
        (["explore", "--host", "a..b"], "Cannot listen"),
    ],
)
def test_a_mistake_is_named(typed, named, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.png").mkdir()
    (tmp_path / "loop").symlink_to("loop")
    save_file({"pos_embed": torch.rand(1, 10, 8)}, tmp_path / "table.safetensors")
    with fuzzing.nothing_slow():
        code, said = fuzzing.run(typed, {}, "utf-8")
    assert code in (1, 2)
    assert named in said


def test_a_model_without_patches_is_measured_by_the_table_of_its_file(tmp_path):
    save_file({"pos_embed": torch.rand(1, 10, 8)}, tmp_path / "table.safetensors")
    typed = ["pesi", "--model", "resnet18", "--checkpoint", str(tmp_path / "table.safetensors"), "--json"]
    code, said = fuzzing.run(typed, {}, "utf-8")
    assert code == 0
    assert json.loads(said)["rows"][0]["grid"] == [3, 3]


@pytest.mark.parametrize("size", ["abc", "", "0", "²", "9" * 5000])
def test_a_number_of_processes_that_is_none(size, tmp_path):
    for typed in (["run", "table4"], ["run", "table5", "--preset", "smoke"]):
        with fuzzing.nothing_slow():
            code, said = fuzzing.run([*typed, "--out", str(tmp_path)], {"WORLD_SIZE": size}, "utf-8")
        assert code == 2
        assert "WORLD_SIZE" in said


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "cp1252"])
@pytest.mark.parametrize(
    "typed", [["status"], ["report", "table5", "--to", "-"], ["three-cell", "show"], ["order", "📦"]]
)
def test_terminals_that_cannot_show_everything(typed, encoding):
    code, said = fuzzing.run(typed, {}, encoding)
    assert code == (2 if "📦" in typed else 0)
    assert said


def test_a_terminal_without_width():
    _, said = fuzzing.run(["tables"], {"COLUMNS": "0"}, "utf-8")
    assert "table5" in said


@pytest.mark.parametrize(
    "content", [b'{"metrics": "\xff"}', b"[" * 100_000, b'{"metrics": 1}', b"9" * 5000, b"[]", b""]
)
def test_a_damaged_result_counts_as_none(content, tmp_path):
    run = measured("smoke", "gilbert")
    file = folder_of(run, tmp_path) / RESULT
    file.parent.mkdir()
    file.write_bytes(content)
    assert status_of(run, tmp_path).state == "waiting"


def test_nobody_listens_on_all_addresses_by_mistake(monkeypatch):
    monkeypatch.setattr(socket, "create_server", lambda *args, **more: pytest.fail("listens"))
    for host in ("", " "):
        with pytest.raises(LoopeError, match="--host"):
            explore._listen(host, 0)


@pytest.mark.parametrize("words", [["tables"], ["tables", "--json"], ["--help"]])
def test_a_reader_that_goes_away_leaves_no_traceback(words):
    command = [sys.executable, "-m", "loope", *words]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        process.stdout.close()
        said = process.stderr.read()
    assert process.returncode in (0, 1)
    assert "Traceback" not in said
    assert "Exception" not in said
