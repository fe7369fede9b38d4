"""Hooks of mkdocs: what makes pages that read well on GitHub a site that works offline."""

import re
from pathlib import Path

from latex2mathml.converter import convert
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

from loope.explorer.export import export

ROOT = Path(__file__).parent.parent
ICON = ROOT / "src" / "loope" / "explorer" / "static" / "icon.svg"
FORMULA = re.compile(r"^```math\n(.*?)^```$", re.DOTALL | re.MULTILINE)
SESSION = re.compile(r"^```python(\n>>>)", re.MULTILINE)


def on_pre_build(config: MkDocsConfig) -> None:
    """The live page is part of the site; it is written where it is missing."""
    if not (ROOT / "docs" / "explore" / "index.html").exists():
        export(ROOT / "docs" / "explore")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Examples and the icon lie outside of docs/: examples are there to download, the icon is the explorer's."""
    files.append(File.generated(config, "assets/icon.svg", abs_src_path=str(ICON)))
    for path in sorted((ROOT / "examples").iterdir()):
        if path.is_file():
            files.append(File.generated(config, f"examples/{path.name}", abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, **_: object) -> str:
    """Prepare a page for the site.

    Formulas become MathML, which browsers draw without a script; sessions are named so, which GitHub does not draw in
    colour, and lose their prompts when copied; links to the project's files become the site's.
    """
    markdown = FORMULA.sub(lambda found: convert(" ".join(found[1].split()), display="block"), markdown)
    markdown = SESSION.sub("```pycon\\1", markdown)
    return markdown.replace("](../examples/", "](examples/").replace("](../../examples/", "](../examples/")
