"""What pyproject.toml says of the project, and the versions that CI installs."""

import re
from itertools import chain
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.version import Version
from PIL import Image

import loope

tomllib = pytest.importorskip("tomllib")  # from Python 3.11 on

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
EXTRAS = PROJECT["project"]["optional-dependencies"]
LISTED = [*PROJECT["project"]["dependencies"], *PROJECT["build-system"]["requires"], *chain(*EXTRAS.values())]
REQUIREMENTS = [each for each in map(Requirement, LISTED) if each.name != "loope"]


def plain(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def pinned():
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    return {plain(name): version for name, version in (line.split("==") for line in lines)}


def needs(extra):
    """The packages that an extra installs, with those of the extras it names."""
    found = set()
    for each in map(Requirement, EXTRAS[extra]):
        found |= set().union(*map(needs, each.extras)) if each.name == "loope" else {plain(each.name)}
    return found


@pytest.mark.parametrize("requirement", sorted({str(each) for each in REQUIREMENTS}))
def test_every_dependency_is_bounded_by_a_major_version(requirement):
    read = Requirement(requirement)
    (most,) = [each.version for each in read.specifier if each.operator in ("<", "==")]
    if "==" not in requirement:
        assert re.fullmatch(r"\d+", most)
    # What CI installs is allowed, and is of the newest major version that is.
    version = Version(pinned()[plain(read.name)])
    assert version in read.specifier
    assert "==" in requirement or version.major == int(most) - 1


def test_constraints_name_versions_and_nothing_of_a_machine():
    for name, version in pinned().items():
        assert re.fullmatch(r"[a-z0-9-]+", name)
        assert str(Version(version)) == version


def test_extras_hold_what_their_guides_use():
    assert "timm" in needs("onnx")
    assert {"timm", "pandas", "scipy", "torchvision"} <= needs("train")


def test_the_project_says_where_to_read_about_it():
    assert all(address.startswith("https://") for address in PROJECT["project"]["urls"].values())
    assert "Paper" in PROJECT["project"]["urls"]


def test_versions_agree():
    version = loope.__version__
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == version
    assert cited["license"] == PROJECT["project"]["license"]
    assert [each["name"] for each in cited["authors"]] == [each["name"] for each in PROJECT["project"]["authors"]]
    assert cited["references"][0]["url"] == PROJECT["project"]["urls"]["Paper"]
    newest = re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1]
    assert newest == version


def test_the_readme_cites_the_same_paper():
    (paper,) = yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
    entry = re.search(r"```bibtex\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)[1]
    fields = {name: " ".join(text.split()) for name, text in re.findall(r"(\w+) += \{(.*?)\}", entry, re.DOTALL)}
    assert fields["title"] == paper["title"]
    assert fields["author"] == " and ".join(
        f"{each['family-names']}, {each['given-names']}" for each in paper["authors"]
    )
    assert fields["year"] == str(paper["year"])


def test_the_readme_takes_a_minute():
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 120
    with Image.open(ROOT / "docs" / "images" / "explorer.webp") as recording:
        assert recording.n_frames > 10
    assert (ROOT / "docs" / "images" / "explorer.webp").stat().st_size < 1_500_000


def test_the_workflow_runs_what_the_project_runs():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    typed = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert ".ci/run" in typed
    for command in typed:
        if command.startswith("make "):
            assert re.search(rf"^{command.split()[1]}:", (ROOT / "Makefile").read_text(), re.MULTILINE)


@pytest.mark.parametrize(
    "form", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml")), ids=lambda form: form.stem
)
def test_issue_forms_are_complete(form):
    fields = yaml.safe_load(form.read_text())
    if form.stem == "config":
        assert set(fields) <= {"blank_issues_enabled", "contact_links"}
        return
    assert {"name", "description", "body"} <= set(fields)
    names = [each["id"] for each in fields["body"]]
    assert len(set(names)) == len(names)
    assert all(each["attributes"]["label"] for each in fields["body"])


def test_ci_installs_the_constraints_and_runs_everything():
    ci = (ROOT / ".ci" / "run").read_text()
    assert re.search(r"^export CONSTRAINTS=constraints.txt$", ci, re.MULTILINE)
    assert re.findall(r"^make (\S+)$", ci, re.MULTILINE) == ["check", "test", "test-all"]
