"""The notebook of these pages, docs/notebook.ipynb: runs it, and makes a page of it for mkdocs.

`python docs/notebook.py` runs every cell and stores what it shows, in the file (nbclient and ipykernel: the
extra `test`). mkdocs calls `on_files`, which needs neither. tests/docs/test_notebook.py runs it and compares.
"""

from __future__ import annotations

import html
import json
import re
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).parent / "notebook.ipynb"
SECONDS = 300  # of one cell, at most


def on_files(files: Any, config: Any) -> Any:
    """Add the page of the notebook: a hook of mkdocs."""
    from mkdocs.structure.files import File

    content = page(json.loads(FILE.read_text("utf-8")))
    files.append(File.generated(config, "notebook.md", content=content))
    return files


def page(notebook: dict[str, Any]) -> str:
    """The Markdown of a notebook: its texts, its code, and what each cell showed."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        parts += [shown for shown in map(_shown, cell["outputs"]) if shown]
    return "\n\n".join(parts) + "\n"


def _shown(output: dict[str, Any]) -> str:
    """What one output shows: HTML as it is, without empty lines, which would end it; text in a box."""
    data = output.get("data", {})
    if "text/html" in data:
        lines = "".join(data["text/html"]).splitlines()
        return "<div>\n" + "\n".join(line.strip() for line in lines if line.strip()) + "\n</div>"
    text = "".join(data.get("text/plain") or output.get("text", ""))
    return f"<pre><code>{html.escape(text.rstrip())}</code></pre>" if text.strip() else ""


def run(folder: str) -> dict[str, Any]:
    """The notebook with what its cells show now; it writes its files into a folder."""
    import nbclient
    import nbformat

    notebook = nbformat.read(FILE, as_version=4)
    nbclient.NotebookClient(
        notebook, timeout=SECONDS, kernel_name="python3", resources={"metadata": {"path": folder}}
    ).execute()
    for cell in notebook.cells:
        cell.metadata.clear()  # times
    notebook.metadata = {"language_info": {"name": "python"}}
    stored: dict[str, Any] = json.loads(nbformat.writes(notebook))
    return stored


def without_numbers(notebook: dict[str, Any]) -> list[list[str]]:
    """What every cell showed, as text, with every number replaced: noise is new at every run."""
    found = []
    for cell in notebook["cells"]:
        texts = [_shown(output) for output in cell.get("outputs", ())]
        texts = [re.sub(r"<svg.*?</svg>|<style.*?</style>", "", text, flags=re.S) for text in texts]
        texts = [" ".join(re.sub(r"<[^>]*>", " ", text).lower().split()) for text in texts]
        found.append([re.sub(r"[−-]?\d[\d,.]*(?:e-?\d+)?", "#", text) for text in texts])
    return found


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        ran = run(scratch)
    FILE.write_text(json.dumps(ran, indent=1, ensure_ascii=False) + "\n", "utf-8")
    print(f"{len(ran['cells'])} cells, {FILE.stat().st_size:,} bytes", file=sys.stderr)
