"""The documents say what the code does; their examples are run as doctests."""

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
spec = importlib.util.spec_from_file_location("build_docs", ROOT / "docs" / "build.py")
build = importlib.util.module_from_spec(spec)
spec.loader.exec_module(build)


# The matrix attaches every encoder to every model, which other tests do too.
@pytest.mark.parametrize(
    "page_and_mark",
    [pytest.param(each, marks=pytest.mark.slow if each[1] == "matrix" else ()) for each in build.TABLES],
    ids=lambda each: "-".join(each),
)
def test_tables_are_fresh(page_and_mark):
    page, mark = page_and_mark
    text = (ROOT / page).read_text()
    assert build.with_table(text, mark, build.TABLES[page_and_mark]()) == text, "run `make docs`"
    assert build.with_table(text, mark, "") != text


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
