"""Write a self-contained HTML page with tables and images."""

import base64
from collections.abc import Sequence
from html import escape

STYLE = """
:root { color-scheme: light dark; --muted: light-dark(#666, #aaa); --line: light-dark(#ddd, #444);
  --accent: light-dark(#1f5fae, #8ab8f5) }
body { font: 16px/1.55 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem;
  background: light-dark(#fff, #16181c); color: light-dark(#1b1d21, #e6e6e6) }
h1 { line-height: 1.2 } h2 { margin-top: 2.2rem; line-height: 1.25 }
p, dl { max-width: 46rem } p.picture { max-width: none }
.lead { font-size: 1.2rem; border-left: 4px solid var(--accent); padding-left: 1rem }
.muted, tr.muted td { color: var(--muted) }
img { max-width: 100%; background: white; border-radius: 6px }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums }
td, th { padding: .2rem .7rem; border-bottom: 1px solid var(--line); text-align: right; white-space: nowrap }
td:first-child, th:first-child { text-align: left }
dt { font-weight: 600 } dd { margin: 0 0 .6rem 1.2rem }
pre { overflow-x: auto; padding: .7rem 1rem; border-radius: 6px; background: light-dark(#f4f5f7, #22252b) }
"""


def page(title: str, *parts: str) -> str:
    """Return a document made of the results of the other functions."""
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1>{''.join(parts)}</body></html>\n"
    )


def text(heading: str, *paragraphs: str) -> str:
    """Return a heading with paragraphs."""
    return f"<h2>{escape(heading)}</h2>" + "".join(paragraph(each) for each in paragraphs)


def paragraph(words: str) -> str:
    """Return a paragraph."""
    return f"<p>{escape(words)}</p>"


def lead(words: str) -> str:
    """Return a paragraph that stands out."""
    return f"<p class='lead'>{escape(words)}</p>"


def note(words: str) -> str:
    """Return a paragraph that stands back."""
    return f"<p class='muted'>{escape(words)}</p>"


def terms(entries: Sequence[tuple[str, str]]) -> str:
    """Return a list of terms with their explanations."""
    return f"<dl>{''.join(f'<dt>{escape(term)}</dt><dd>{escape(what)}</dd>' for term, what in entries)}</dl>"


def code(lines: str) -> str:
    """Return preformatted text."""
    return f"<pre>{escape(lines)}</pre>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]], references: Sequence[Sequence[str]] = ()) -> str:
    """Return a table, with the rows of `references` standing back at its end."""

    def line(cells: Sequence[str], tag: str = "td", kind: str = "") -> str:
        return f"<tr{kind}>{''.join(f'<{tag}>{escape(cell)}</{tag}>' for cell in cells)}</tr>"

    lines = [line(head, "th"), *(line(row) for row in rows), *(line(row, kind=" class='muted'") for row in references)]
    return f"<div class='wide'><table>{''.join(lines)}</table></div>"


def picture(png: bytes, description: str) -> str:
    """Return an image embedded in the page."""
    data = base64.b64encode(png).decode()
    return f"<p class='picture'><img alt='{escape(description, quote=True)}' src='data:image/png;base64,{data}'></p>\n"
