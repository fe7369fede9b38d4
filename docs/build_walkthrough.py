"""The page of the notebook: examples/walkthrough.ipynb, executed, as docs/guides/walkthrough.md with its pictures."""

from base64 import b64decode
from pathlib import Path

import nbformat
from nbclient import NotebookClient

from loope.core.files import write_atomic

NOTEBOOK = Path(__file__).parent.parent / "examples" / "walkthrough.ipynb"
PAGE = Path(__file__).parent / "guides" / "walkthrough.md"
WEIGHTS = "vit_tiny_patch16_224.safetensors"
ABOUT = "*This page is [a notebook](../../examples/walkthrough.ipynb), executed.*"


def execute() -> nbformat.NotebookNode:
    """The notebook with its outputs, in a kernel of its own."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    # Warnings of a slow kernel would otherwise split what is printed.
    NotebookClient(notebook, timeout=300, kernel_name="python3", coalesce_streams=True).execute()
    return notebook


def page(notebook: nbformat.NotebookNode) -> tuple[str, dict[str, bytes]]:
    """As Markdown, and the pictures in it by name."""
    parts: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        for output in cell.outputs:
            if output.get("name") == "stderr":  # what libraries say to the terminal
                continue
            data = output.get("data", {})
            if "image/png" in data:
                name = f"walkthrough-{len(pictures) + 1}.png"
                pictures[name] = b64decode(data["image/png"])
                parts.append(f"![What the lines above draw](../images/{name})")
            else:
                text = output.get("text", data.get("text/plain", ""))
                parts.append(f"```text\n{text.rstrip()}\n```")
    parts.insert(1, ABOUT)
    return "\n\n".join(parts) + "\n", pictures


def draw(images: Path) -> None:
    """Write the page and its pictures."""
    text, pictures = page(execute())
    write_atomic(PAGE, text.encode())
    for name, data in pictures.items():
        write_atomic(images / name, data)
