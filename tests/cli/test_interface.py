"""The command line is a contract: commands, options and defaults change on purpose or not at all."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import get_type_hints

import pytest
import typer.main
from typer.testing import CliRunner

from loope.cli import main as cli

FROZEN = Path(__file__).parent / "interface.json"
runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def described(command, path=("loope",)):
    """Every command by its full name, with its arguments and options."""
    found = {" ".join(path): [parameter(command, each) for each in command.params if each.name != "help"]}
    for name, child in getattr(command, "commands", {}).items():
        found |= described(child, (*path, name))
    return found


def parameter(command, each):
    type_of = get_type_hints(command.callback).get(each.name)  # none for what typer adds itself
    default = each.default() if callable(each.default) else each.default
    return {
        "names": [*each.opts, *each.secondary_opts],
        "kind": each.param_type_name,
        "type": type_of.__name__ if isinstance(type_of, type) else re.sub(r"pathlib\.| \| None", "", str(type_of)),
        "required": each.required,
        "many": each.multiple or each.nargs == -1,
        "default": str(default) if isinstance(default, Path) else default,
    }


COMMANDS = described(typer.main.get_command(cli.app))
LEAVES = [name for name in COMMANDS if name not in ("loope", "loope three-cell")]


def test_commands_and_options_are_those_that_were_agreed():
    now = json.loads(json.dumps(COMMANDS))
    assert now == json.loads(FROZEN.read_text()), (
        "the interface changed; if that is meant, write it down: "
        "python -m tests.cli.test_interface, and say it in the CHANGELOG"
    )


def test_the_tool_has_the_commands_of_its_description():
    wanted = "demo explore pesi order three-cell run report status tables segment encoders swap"
    assert {f"loope {name}" for name in wanted.split()} <= set(COMMANDS)


@pytest.mark.parametrize("name", LEAVES)
def test_help_has_an_example_that_names_the_command(name):
    words = name.split()[1:]
    shown = runner.invoke(cli.app, [*words, "--help"])
    assert shown.exit_code == 0
    assert "[[" not in shown.output
    examples = re.search(r"Examples?:(.*)", shown.output, re.DOTALL)
    assert examples, shown.output
    assert name in examples[1]


@pytest.mark.parametrize("name", LEAVES)
def test_every_parameter_says_what_it_is(name):
    command = typer.main.get_command(cli.app)
    for word in name.split()[1:]:
        command = command.commands[word]
    assert [each.name for each in command.params if each.name != "help" and not getattr(each, "help", None)] == []


# Options that say something of their own in each command, because they do something of their own.
OWN_WORDS = {"--checkpoint", "--dim", "--draw", "--export", "--format", "--grid", "--jobs", "--json", "--out", "--seed"}
OWN_WORDS |= {"--to"}


def options_of(name):
    command = typer.main.get_command(cli.app)
    for word in name.split()[1:]:
        command = command.commands[word]
    chosen = [each for each in command.params if each.name != "help" and each.param_type_name == "option"]
    return [parameter(command, each) | {"help": each.help} for each in chosen]


def test_the_same_option_means_the_same_everywhere():
    types, words = {}, {}
    for name in LEAVES:
        for each in options_of(name):
            types.setdefault(each["names"][0], set()).add(each["type"])
            words.setdefault(each["names"][0], set()).add(each["help"])
    assert {name: found for name, found in types.items() if len(found) > 1} == {}
    assert {name for name, found in words.items() if len(found) > 1} <= OWN_WORDS


def test_scripts_can_read_every_command_that_tells_something():
    without = {name for name in LEAVES if not any("--json" in each["names"] for each in COMMANDS[name])}
    assert without == {"loope explore", "loope report"}  # a server; `--format json` with the other formats


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("loope thr", {"three-cell"}),
        ("loope run table", {f"table{number}" for number in range(1, 8)}),
        ("loope report table4 --preset l", {"laptop"}),
        ("loope encoders --js", {"--json"}),
    ],
)
def test_completion_offers_commands_tables_and_presets(typed, offered):
    words = {"_LOOPE_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(typed.count(" "))}
    command = [sys.executable, "-c", "import sys; sys.argv[0] = 'loope'; from loope.cli.main import main; main()"]
    done = subprocess.run(command, env=os.environ | words, capture_output=True, text=True, check=False, timeout=120)
    assert set(done.stdout.split()) == offered, done.stderr


if __name__ == "__main__":
    FROZEN.write_text(json.dumps(COMMANDS, indent=1) + "\n")
