"""The notebook of the pages runs as it stands, and shows what its file says."""

import importlib.util
import json
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


def module():
    spec = importlib.util.spec_from_file_location("docs_notebook", DOCS / "notebook.py")
    loaded = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(loaded)
    return loaded


def stored():
    return json.loads((DOCS / "notebook.ipynb").read_text("utf-8"))


def test_the_notebook_runs_and_shows_what_is_stored(tmp_path):
    for name in ("nbclient", "ipykernel", "pandas", "pyarrow", "narwhals", "jinja2", "matplotlib"):
        pytest.importorskip(name)
    notebook = module()
    ran = notebook.run(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["people.release", "report.html"]
    shown, expected = notebook.without_numbers(ran), notebook.without_numbers(stored())
    assert shown == expected, "python docs/notebook.py stores what the notebook shows now"


def test_the_page_has_every_text_code_and_panel():
    page = module().page(stored())
    cells = [cell for cell in stored()["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 12
    assert page.count("```python") == len(cells)
    assert page.count('<div class="privmw"') >= 6
    assert all(cell["outputs"] for cell in cells)
    assert not any(output["output_type"] == "error" for cell in cells for output in cell["outputs"])
    html = page.split("```")[2]
    assert "\n\n" not in html[html.index("<div>") : html.rindex("</div>")]


def test_an_output_that_differs_would_be_noticed():
    notebook = module()
    changed = stored()
    place = next(i for i, cell in enumerate(changed["cells"]) if "statement()" in "".join(cell["source"]))
    texts = changed["cells"][place]["outputs"][0]["text"]
    changed["cells"][place]["outputs"][0]["text"] = ["".join(texts).replace("neighbouring", "distant")]
    assert notebook.without_numbers(changed) != notebook.without_numbers(stored())
    changed["cells"][place]["outputs"][0]["text"] = ["".join(texts).replace("20,000", "30,000")]
    assert notebook.without_numbers(changed) == notebook.without_numbers(stored())
