"""The documents say what the code does; their examples are run as doctests."""

import ast
import csv
import importlib.util
import re
from pathlib import Path

import pytest

import loope
from docs import matrix

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("build_docs", ROOT / "docs" / "build.py")
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)


@pytest.mark.parametrize("page_and_mark", build.TABLES, ids="-".join)
def test_tables_are_fresh(page_and_mark):
    page, mark = page_and_mark
    text = (ROOT / page).read_text()
    assert build.with_table(text, mark, build.TABLES[page_and_mark]()) == text, "run `make docs`"
    assert build.with_table(text, mark, "") != text


def test_the_table_of_encoders_shows_measured_costs(tmp_path, monkeypatch):
    monkeypatch.setattr(build, "COSTS", tmp_path / "costs.csv")
    assert build.costs() == {}
    build.COSTS.write_text("encoder,train,infer\npape,1.23,1.45\n")
    row = next(line for line in build.encoders_table().splitlines() if line.startswith("| `pape`"))
    assert "| 1.23 | 1.45 |" in row


def test_documents_do_not_import_tests():
    for script in (ROOT / "docs").glob("*.py"):
        nodes = list(ast.walk(ast.parse(script.read_text())))
        modules = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
        modules |= {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
        assert modules, script
        assert "tests" not in {module.partition(".")[0] for module in modules}, script


def test_the_matrix_lists_every_model_and_encoder():
    """tests/surgery checks each pair; the file must list the same pairs, all of which work."""
    with matrix.FILE.open(newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["model", *loope.list_encoders()], "run `make matrix`"
    assert rows == [[model, *["yes"] * len(loope.list_encoders())] for model in matrix.MODELS], "run `make matrix`"


@pytest.mark.parametrize("page", [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")], ids=lambda p: p.name)
def test_links_and_pictures_exist(page):
    text = page.read_text()
    targets = re.findall(r"\]\(([^)]+?)\)", text) + re.findall(r'src="([^"]+)"', text)
    for target in filter(None, (target.split("#")[0] for target in targets)):
        if not target.startswith(("http", "explore/")):  # the live page is written with the site
            assert (page.parent / target).exists(), target


def test_every_make_target_is_explained():
    makefile = (ROOT / "Makefile").read_text()
    phony = re.search(r"^\.PHONY: (.*)$", makefile, re.MULTILINE)[1].split()
    assert {"demo", "test", "check", "bench", "docs", "help"} <= set(phony)
    for target in phony:
        assert re.search(rf"^{target}:.*## \w", makefile, re.MULTILINE), target
