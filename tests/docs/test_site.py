"""The documentation as a site: built strictly, complete, and without external resources."""

import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

from tests.docs.test_documents import build
from tests.explorer.servers import CHROMIUM, browser, files
from tests.weights import weights

ROOT = Path(__file__).parents[2]
LOADED = re.compile(r"""<(?:script|img|iframe|source)[^>]+src=["']?(https?:)?//|<link[^>]+href=["']?(https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The pages, built as `make docs` does."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return folder


def test_every_page_exists_and_is_in_the_navigation(site):
    pages = {page.relative_to(ROOT / "docs").with_suffix(".html") for page in (ROOT / "docs").rglob("*.md")}
    start = (site / "index.html").read_text()
    for page in pages:
        assert (site / page).is_file(), page
        assert f'href="{page}"' in start or page.name == "index.html", f"{page} is not in the navigation"
    assert not list(site.glob("*.py"))


def test_nothing_is_loaded_from_elsewhere(site):
    assert LOADED.search('<script src="https://cdn.example/x.js">')
    for page in site.rglob("*.html"):
        assert not LOADED.search(page.read_text()), page


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_no_page_asks_another_host(site):
    with files(site) as address, browser() as chromium:
        page = chromium.new_page()
        asked = []
        page.on("request", lambda request: asked.append(request.url))
        for name in ("index", "theory", "api/attach", "guides/walkthrough", "explore/index"):
            page.goto(f"{address}{name}.html", wait_until="networkidle")
        assert len(asked) > 10
        assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_pages_opened_as_files(site):
    """Search, copy buttons and narrow screens work on pages opened as files."""
    with browser() as chromium:
        page = chromium.new_context(viewport={"width": 360, "height": 740}).new_page()
        faults = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto((site / "guides" / "diagnose.html").as_uri())
        page.keyboard.press("s")
        page.keyboard.type("gilbert")
        page.locator(".md-search-result__link[href*='orders.html']").first.wait_for(state="attached")
        for name in ("index", "theory", "pesi", "results/replication", "api/metrics"):
            page.goto((site / f"{name}.html").as_uri())
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), f"{name} is wider than a phone"
        assert faults == []


@pytest.mark.browser
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed")
def test_sessions_are_copied_without_prompts_and_output(site):
    with files(site) as address, browser() as chromium:
        page = chromium.new_context(permissions=["clipboard-read", "clipboard-write"]).new_page()
        for name in ("encoders", "api/encoders"):
            page.goto(f"{address}{name}.html")
            block = page.locator(".highlight", has_text=">>>").first
            block.locator("button").first.click()
            page.get_by_text("Copied to clipboard").wait_for()
            lines = block.inner_text().splitlines()
            typed = [line[4:] for line in lines if line.startswith((">>> ", "... "))]
            assert page.evaluate("navigator.clipboard.readText()").splitlines() == typed
            assert len(typed) < len(lines)


def test_formulas_are_drawn_by_the_browser(site):
    page = (site / "theory.html").read_text()
    assert page.count("<math") == (ROOT / "docs" / "theory.md").read_text().count("```math")
    assert "language-math" not in page


def test_the_api_has_every_public_name(site):
    import loope

    documented = "".join(page.read_text() for page in (site / "api").glob("*.html"))
    modules = {"plots", "segmentation", "__version__"}
    missing = [name for name in loope.__all__ if name not in modules and f'.{name}"' not in documented]
    assert missing == []


def test_the_notebook_runs_and_its_page_is_fresh():
    weights(build.build_walkthrough.WEIGHTS)
    text, pictures = build.build_walkthrough.page(build.build_walkthrough.execute())
    assert len(pictures) == 3
    assert text == build.build_walkthrough.PAGE.read_text(), "run `make docs`"


def test_the_notebook_is_kept_without_outputs():
    cells = nbformat.read(build.build_walkthrough.NOTEBOOK, as_version=4).cells
    assert [cell for cell in cells if cell.cell_type == "code" and (cell.outputs or cell.execution_count)] == []
