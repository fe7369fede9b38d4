"""Write a self-contained HTML page with tables and images."""

import base64
from collections.abc import Sequence
from html import escape

STYLE = """
:root { color-scheme: light dark }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem }
img { max-width: 100%; background: white; border-radius: 6px }
table { border-collapse: collapse } td, th { padding: .2rem .8rem; border-bottom: 1px solid #8884; text-align: right }
td:first-child, th:first-child { text-align: left }
"""


def page(title: str, *parts: str) -> str:
    """Return a document made of the results of `text`, `table` and `picture`."""
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{escape(title)}</title>"
        f"<meta name='viewport' content='width=device-width'><style>{STYLE}</style></head>"
        f"<body><h1>{escape(title)}</h1>{''.join(parts)}</body></html>\n"
    )


def text(heading: str, paragraph: str) -> str:
    """Return a heading with a paragraph."""
    return f"<h2>{escape(heading)}</h2><p>{escape(paragraph)}</p>"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table."""
    lines = ["".join(f"<th>{escape(cell)}</th>" for cell in head)]
    lines += ["".join(f"<td>{escape(cell)}</td>" for cell in row) for row in rows]
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>"


def picture(png: bytes, description: str) -> str:
    """Return an image embedded in the page."""
    data = base64.b64encode(png).decode()
    return f"<p><img alt='{escape(description, quote=True)}' src='data:image/png;base64,{data}'></p>"
