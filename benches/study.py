"""Runs one of the studies: scripts that print tables, beside the benches that pytest runs.

python benches/study.py                    # what there is
python benches/study.py accuracy adult     # one of them, with its own arguments
"""

from __future__ import annotations

import ast
import runpy
import sys
from pathlib import Path

FOLDER = Path(__file__).parent / "studies"


def main() -> None:
    studies = {path.stem: path for path in sorted(FOLDER.glob("*.py"))}
    if len(sys.argv) > 1 and sys.argv[1] in studies:
        del sys.argv[0]  # the study sees its own name and arguments
        runpy.run_path(str(studies[sys.argv[0]]), run_name="__main__")
        return
    for name, path in studies.items():
        about = ast.get_docstring(ast.parse(path.read_text())) or ""
        print(f"{name:16} {about.splitlines()[0]}")
    if len(sys.argv) > 1:
        sys.exit(f"study ({sys.argv[1]}) must be one of these")


if __name__ == "__main__":
    main()
