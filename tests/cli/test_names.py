"""Names, paths and numbers are checked before torch is loaded: a wrong one is refused in a fraction of a second."""

import json
import os
import re
import subprocess
import sys

import pytest
import timm
import typer.main

import loope
from loope.cli import names
from loope.cli.main import GROUPS, OVERVIEW, app, main
from loope.encoders.describe import ALL_KINDS
from loope.lab.engine.tracking import TRACKERS
from loope.lab.executors import _EXECUTORS
from loope.lab.experiments.report import ENDINGS
from loope.lab.experiments.table import table_names
from loope.lab.reports.formats import FORMATS
from loope.three_cell.dataset import SAMPLERS
from loope.three_cell.export import FORMATS as EXPORT_FORMATS
from loope.three_cell.splits import SPLITS
from tests.cli.test_interface import COMMANDS

# What is typed, the wrong name in it, and a name that the message must offer.
WRONG = [
    ("order gilbertt", "gilbertt", "gilbert"),
    ("encoders lope", "lope", "loope"),
    ("encoders --kind rotari", "rotari", "rotary"),
    ("pesi sincos", "sincos", "sincos2d"),
    ("pesi --model vit_tini_patch16_224", "vit_tini_patch16_224", "vit_tiny_patch16_224"),
    ("audit vit_tini_patch16_224", "vit_tini_patch16_224", "vit_tiny_patch16_224"),
    ("diagnose vit_tini_patch16_224 --images .", "vit_tini_patch16_224", "vit_tiny_patch16_224"),
    ("diagnose vit_tiny_patch16_224 --images . --encoder lope", "lope", "loope"),
    ("swap vit_tini_patch16_224 loope --images . --to a.safetensors", "vit_tini_patch16_224", "vit_tiny_patch16_224"),
    ("swap vit_tiny_patch16_224 lope --images . --to a.safetensors", "lope", "loope"),
    ("run tabel4", "tabel4", "table4"),
    ("run table4 --preset laptob", "laptob", "laptop"),
    ("run table4 --on slurmm", "slurmm", "slurm"),
    ("run table4 --tracker wandd", "wandd", "wandb"),
    ("report tabel4", "tabel4", "table4"),
    ("report table4 --preset laptob", "laptob", "laptop"),
    ("report table4 --format htm", "htm", "html"),
    ("status tabel4", "tabel4", "table4"),
    ("three-cell show --sampler exakt", "exakt", "exact"),
    ("three-cell export out --split tran", "tran", "train"),
    ("three-cell export out --format ngz", "ngz", "npz"),
]
# Other mistakes, and what the message says.
SWAP = "swap vit_tiny_patch16_224 rope_mixed --images . --to a.safetensors"
MISTAKES = {
    f"{SWAP} --images nodir": "There is no folder nodir",
    f"{SWAP} --lr -1": "`lr` must be a positive number, got -1",
    f"{SWAP} --precision bf16": "use one of: bfloat16",
    f"{SWAP} --option foo": "NAME=VALUE, got 'foo'",
    f"{SWAP} --to y": "a .safetensors file, got 'y'",
    f"{SWAP} --to none/a.safetensors": "a folder that exists",
    f"{SWAP} --to broken.safetensors": "broken.safetensors exists already",
    f"{SWAP} --labels nofile": "Cannot read the labels nofile",
    "diagnose vit_tiny_patch16_224 --images nodir": "There is no folder nodir",
    "diagnose vit_tiny_patch16_224 --images . --encoder loope --option foo": "NAME=VALUE, got 'foo'",
    "diagnose broken.safetensors --images .": "'broken.safetensors' is no whole .safetensors file",
    "audit nofile.safetensors": "no file or folder nofile.safetensors",
    "audit broken.safetensors": "'broken.safetensors' is no whole .safetensors file",
    "pesi --checkpoint nofile.safetensors": "no file 'nofile.safetensors'",
    "pesi --checkpoint broken.safetensors": "'broken.safetensors' is no whole .safetensors file",
    "pesi gilbert --dim 0": "--dim",
    "pesi gilbert --directions 0": "--directions",
    "encoders --dim 0": "--dim",
    "explore nofile.safetensors --no-browser --port 0": "no file 'nofile.safetensors'",
    "explore broken.safetensors --no-browser --port 0": "'broken.safetensors' is no whole .safetensors file",
    "explore --host a..b --no-browser": "Cannot listen on a..b",
    "explore --export broken.safetensors": "--export takes a folder, got the file 'broken.safetensors'",
    "demo --out broken.safetensors": "--out takes a folder, got the file 'broken.safetensors'",
    "three-cell show --grid abc": "HEIGHTxWIDTH, got 'abc'",
    "three-cell export out --grid 0x3": "at least 1x1",
    "three-cell export out --cell 0": "--cell",
    "report table4 --to x.xyz": "Unknown ending of a report '.xyz'",
    "report table4 --to .": "--to takes a file",
    "help": "loope --help",
}
PLAIN = {"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"}
TRY = """
import contextlib, io, json, sys
from loope.cli.main import main
for typed in json.loads(sys.argv[1]):
    said = io.StringIO()
    sys.argv = ["loope", *typed.split()]
    with contextlib.redirect_stderr(said):
        try:
            main()
        except SystemExit as end:
            code = end.code
    print(json.dumps([code, said.getvalue(), "torch" in sys.modules]))
    sys.modules.pop("torch", None)  # each line answers for itself
"""


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    typed = [*(line for line, _, _ in WRONG), *MISTAKES]
    folder = tmp_path_factory.mktemp("folder")
    (folder / "broken.safetensors").write_bytes(b"an hour of training")
    command = [sys.executable, "-c", TRY, json.dumps(typed)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True, env=os.environ | PLAIN)
    return dict(zip(typed, map(json.loads, done.stdout.splitlines()), strict=True))


@pytest.mark.parametrize(("typed", "wrong", "offered"), WRONG)
def test_a_wrong_name_is_refused_before_torch_is_loaded(answers, typed, wrong, offered):
    code, said, loaded = answers[typed]
    assert code == 2, said
    assert wrong in said
    assert re.search(rf"\b{offered}\b", said), said
    assert not loaded


@pytest.mark.parametrize("typed", MISTAKES)
def test_a_mistake_is_refused_before_torch_is_loaded(answers, typed):
    code, said, loaded = answers[typed]
    assert code == 2, said
    assert MISTAKES[typed] in said
    assert not loaded


def test_the_names_are_those_of_the_library():
    assert sorted(names.registered("encoder")) == sorted(loope.list_encoders())
    assert sorted(names.registered("order")) == sorted(loope.list_orders())
    assert names.KINDS == ALL_KINDS
    assert set(names.SAMPLERS) == set(SAMPLERS)
    assert names.SPLITS == SPLITS
    assert names.EXPORT_FORMATS == EXPORT_FORMATS
    assert list(FORMATS) == list(names.REPORT_ENDINGS)
    assert names.REPORT_ENDINGS == ENDINGS
    assert names.TRACKERS == TRACKERS
    assert list(names.EXECUTORS) == _EXECUTORS.names()


def test_every_model_of_timm_passes(monkeypatch):
    monkeypatch.delitem(sys.modules, "torch")  # the check is for those who have not loaded it
    for name in [*timm.list_models(), "vit_tiny_patch16_224.augreg_in21k", "vit_tiny_patch16_224_in21k"]:
        names.require_timm_model(name)


def test_encoders_of_ones_own_pass_where_torch_is_loaded():
    names.require_encoders(["registered_by_a_program_that_calls_main"])


def test_loope_alone_shows_what_it_can_do():
    done = subprocess.run(
        [sys.executable, "-c", "import sys; sys.argv = ['loope']; from loope.cli.main import main; main()"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert loope.__version__ in done.stdout
    assert len([line for line in done.stdout.splitlines() if line.strip()]) <= 12
    assert all(len(line) < 80 for line in done.stdout.splitlines())


def test_the_overview_names_commands_and_names_that_exist():
    shown = [line.split() for line in re.findall(r"loope ([a-z][a-z-]*(?: [\w-]+)*)", OVERVIEW)]
    assert len(shown) >= 6
    known = {*loope.list_encoders(), *loope.list_orders(), *timm.list_models(), *table_names(), "--help"}
    for command, *words in shown:
        assert f"loope {command}" in COMMANDS
        assert set(words) <= known


def test_errors_keep_their_lines_but_no_control_characters(monkeypatch, capsys):
    def fail():
        raise loope.LoopeError("two\nlines \x1b[2J")

    monkeypatch.setattr("loope.cli.main.app", fail)
    with pytest.raises(SystemExit):
        main()
    assert capsys.readouterr().err.splitlines() == ["Error: two", "lines \\x1b[2J"]


def test_every_command_has_a_group():
    for name, command in typer.main.get_command(app).commands.items():
        assert command.rich_help_panel in GROUPS, name
