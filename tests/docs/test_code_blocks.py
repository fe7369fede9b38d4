"""Every code block of the documents works: Python ones are doctests, and this tries the rest line by line."""

import re
import shlex
from pathlib import Path

import pytest
import timm
import tomllib
import torch
import typer.main
from PIL import Image
from safetensors.torch import save_file
from typer.testing import CliRunner

import loope
from loope.cli import main as cli
from loope.lab.experiments.table import get_table

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
# Run by other tests: the notebook's page as a whole, formulas by building the site.
ELSEWHERE = {"walkthrough.md": {"python", "text"}}
SHELL = ("console", "bash")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
runner = CliRunner(env={"COLUMNS": "200", "NO_COLOR": "1", "TERM": "dumb"})


def blocks(page):
    found = re.findall(r"^```(\w*)\n(.*?)^```$", page.read_text(), re.DOTALL | re.MULTILINE)
    return [(language, body) for language, body in found if language not in ELSEWHERE.get(page.name, ())]


def shell_lines():
    for page in PAGES:
        for language, body in blocks(page):
            if language in SHELL:
                for line in re.sub(r"\s*\\\n\s*", " ", body).splitlines():
                    command = re.sub(r"\s+#.*", "", line).removeprefix("$ ").strip()
                    if command:
                        yield pytest.param(command, id=f"{page.stem}: {command}")


def mentioned():
    """Commands inside sentences, whole ones only: `loope pesi --json` but not `loope ...`."""
    for page in PAGES:
        text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
        for command in dict.fromkeys(re.findall(r"`(loope [^`]+)`", text)):
            yield pytest.param(command, id=f"{page.stem}: {command}")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_blocks_are_of_kinds_that_are_run(page):
    for language, body in blocks(page):
        assert language in ("python", "math", "bibtex", *SHELL), f"a block in {language!r} is not run by any test"
        assert language != "python" or ">>>" in body, "write it as a doctest, so that it is run"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_code_fits_into_the_page(page):
    """What is typed and what it prints: wider lines have to be scrolled."""
    bodies = re.findall(r"^ *```[^\n]*\n(.*?)^ *```$", page.read_text(), re.DOTALL | re.MULTILINE)
    assert [line for body in bodies for line in body.splitlines() if len(line) > 90] == []


def loope_words(command):
    """The arguments of the `loope` in a line: after variables, under a launcher, or wrapped by sbatch."""
    words = shlex.split(command)
    for word in words:
        if word.startswith("loope "):
            return shlex.split(word)[1:]
    return words[words.index("loope") + 1 :] if "loope" in words else None


def parsed(words):
    """Values of the parameters, by their names in Python; raises where the command line would refuse."""
    command, context = typer.main.get_command(cli.app), None
    name = "loope"
    while True:
        context = command.make_context(name, list(words), parent=context)
        if not hasattr(command, "commands"):
            return name, context.params
        name, command, words = command.resolve_command(context, [*context._protected_args, *context.args])


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with the files that the documents speak of."""
    monkeypatch.chdir(tmp_path)
    torch.manual_seed(0)
    vit = timm.create_model("vit_tiny_patch16_224", depth=1)
    save_file({"pos_embed": vit.pos_embed.detach()}, "vit.safetensors")
    backbone = timm.create_model("vit_tiny_patch16_224", img_size=32, depth=1)
    setr = loope.segmentation.SETR(backbone, 3)
    loope.attach(setr, "gilbert")
    loope.save(setr, "setr.safetensors", model_args={"depth": 1})
    Image.new("RGB", (60, 40), (90, 120, 30)).save("street.jpg")
    (tmp_path / "photos").mkdir()
    for number in range(2):
        Image.new("RGB", (60, 40), (90, 120 * number, 30)).save(f"photos/{number}.jpg")
    save_file(timm.create_model("test_vit").state_dict(), "test_vit.safetensors")
    return tmp_path


@pytest.mark.parametrize("command", list(shell_lines()))
def test_lines_of_shell_blocks_work(command, workplace):
    words = shlex.split(command)
    if words[0] == "make":
        assert re.search(rf"^{words[1]}:.*##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    elif words[:2] == ["pip", "install"]:
        extras = re.fullmatch(r"(?:loope|\.)(?:\[([\w,]+)\])?", words[2])[1]
        assert set((extras or "").split(",")) - {""} <= set(PROJECT["optional-dependencies"])
    elif words[0].startswith(".venv/bin/"):
        installed = {re.match(r"[\w-]+", each)[0] for each in PROJECT["optional-dependencies"]["dev"]}
        assert words[0].removeprefix(".venv/bin/") in installed
    elif "[--" in command:  # a synopsis
        known = runner.invoke(cli.app, [words[1], "--help"]).output
        assert [option for option in re.findall(r"--[\w-]+", command) if option not in known] == []
    else:
        run_small(loope_words(command))


def run_small(words):
    """The same command, with the paper's tables in their smoke variant and without a cluster, browser or network."""
    name, values = parsed(words)
    if name == "run":
        chosen = get_table(values["table"]).select(values["preset"], *(values["only"] or ()))
        assert chosen
        smoke = get_table(values["table"]).select("smoke")[0].run.name
        words = ["run", values["table"], "--preset", "smoke", "--only", smoke, "--on", "here"]
    elif name in ("status", "report"):
        words = [*words, "--preset", "smoke"]
    elif name == "explore":
        words = ["explore", "--export", "page"]
    elif name == "swap":
        assert timm.is_model(values["model"])
        shorter = [str(min(1, values["steps"])), "--batch-size", "1"]
        words = ["swap", "test_vit", *words[2:], "--steps", *shorter]
    elif name == "diagnose":
        assert timm.is_model(values["model"])
        rest = ["--encoder", values["encoder"]] if values["encoder"] else []
        words = ["diagnose", "test_vit", "--images", "photos", *rest]
    elif values.get("model"):
        words = [*words, "--checkpoint", "vit.safetensors"]
    done = runner.invoke(cli.app, words, env={"LOOPE_WEIGHTS": "."})
    assert done.exit_code == 0, (done.output, done.exception)


def check_names(name, values):
    """Check that names which the parser takes as plain words exist."""
    if "preset" in values and values.get("table"):
        assert get_table(values["table"]).select(values["preset"], *(values.get("only") or ()))
    for encoder in values.get("encoders") or ():
        assert encoder in loope.list_encoders()
    for order in (values.get("names") or ()) if name == "order" else ():
        assert order in loope.list_orders()


@pytest.mark.parametrize("command", list(mentioned()))
def test_commands_in_sentences_are_accepted(command):
    words = [word for word in shlex.split(command)[1:] if word not in ("|", "...")]
    if words == [word for word in words if word.startswith("--")]:
        assert runner.invoke(cli.app, words).exit_code == 0
        return
    try:
        found = parsed(words)
    except Exception as error:
        # A command may be named without what it needs; anything else would be a mistake in the text.
        assert type(error).__name__ in ("MissingParameter", "NoArgsIsHelpError"), error  # noqa: PT017
    else:
        check_names(*found)
