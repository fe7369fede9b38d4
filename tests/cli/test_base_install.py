"""The wheel without extras, alone with its dependencies: each command works, or says which extra to install."""

import importlib.metadata
import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from tests.cli.test_interface import LEAVES

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]

# What is typed, and the extra that it needs.
TYPED = {
    "--version": None,
    "audit vit_tiny_patch16_224": "models",
    "demo --smoke": "train,plots",
    "diagnose vit_tiny_patch16_224 --images .": "train",
    "encoders": None,
    "explore --no-browser": "explore",
    "explore --export page": "explore",
    "order gilbert --grid 3x4": None,
    "order --draw orders.png": "plots",
    "pesi gilbert --grid 3x4": None,
    "pesi --checkpoint model.safetensors": "models",
    "pesi --model vit_tiny_patch16_224": "models",
    "report table5 --preset smoke --to -": "train",
    "run table4 --preset smoke": "train",
    "run table5 --preset smoke --on local": "train",
    "run table5 --preset smoke --on ray": "ray",
    "run table5 --preset smoke --on slurm": "slurm",
    "segment picture.png --checkpoint model.safetensors": "models,plots",
    "status": None,
    "swap vit_tiny_patch16_224 gilbert --images . --to model.safetensors": "train",
    "tables": None,
    "three-cell export probe --size 20": None,
    "three-cell show --count 1 --grid 3x3": None,
    "three-cell show --draw cells.png": "plots",
}


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    """The folder of an environment that holds the wheel and what it requires, but no package more."""
    folder = tmp_path_factory.mktemp("alone")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", folder / "wheel"]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (wheel,) = (folder / "wheel").iterdir()
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "env"], check=True)
    # Linked rather than installed: torch is large, and the one of the tests does as well.
    (site,) = (folder / "env").glob("lib/python*/site-packages")
    for name, distribution in required_by(wheel).items():
        assert distribution.files, name
        for top in {file.parts[0] for file in distribution.files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(distribution.locate_file(top))
    pip = [sys.executable, "-m", "pip", "--python", folder / "env", "install", "--quiet", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--disable-pip-version-check", wheel], check=True)
    return folder


def required_by(wheel):
    """The distributions that a wheel requires without extras, and those that they require, by name."""
    (own,) = importlib.metadata.distributions(path=[str(wheel)])
    found, left = {}, list(own.requires)
    while left:
        requirement = Requirement(left.pop())
        name = re.sub(r"[-_.]+", "-", requirement.name).lower()
        if name not in found and (requirement.marker is None or requirement.marker.evaluate({"extra": ""})):
            found[name] = importlib.metadata.distribution(requirement.name)
            left += found[name].requires or []
    return found


def run(alone, *command):
    program, environment = alone / "env" / "bin" / command[0], {"PATH": "/usr/bin:/bin", "COLUMNS": "200"}
    return subprocess.run(
        [program, *command[1:]], cwd=alone, env=environment, capture_output=True, text=True, check=False, timeout=300
    )


def test_only_the_base_packages_are_installed(alone):
    look = "from importlib.util import find_spec as f; print(*(n for n in ('pandas', 'timm', 'rich', 'loope') if f(n)))"
    assert run(alone, "python", "-c", look).stdout.split() == ["rich", "loope"]


@pytest.mark.parametrize("typed", TYPED)
def test_a_command_works_or_names_its_extra(alone, typed):
    (alone / "model.safetensors").touch()
    (alone / "picture.png").touch()
    done = run(alone, "loope", *typed.split())
    said = done.stdout + done.stderr
    assert "Traceback" not in said
    assert "Warning" not in said
    if TYPED[typed] is None:
        assert done.returncode == 0, said
        assert not done.stderr
        assert done.stdout
    else:
        assert done.returncode == 2, said
        assert f"loope[{TYPED[typed]}]" in done.stderr


def test_every_command_was_typed():
    assert {name for name in LEAVES if not any(f"loope {typed}".startswith(name) for typed in TYPED)} == set()


def test_the_library_names_the_extra_too(alone):
    code = "import loope\ntry: loope.load('model.safetensors')\nexcept loope.LoopeError as error: print(error)"
    assert "loope[models]" in run(alone, "python", "-W", "ignore", "-c", code).stdout
