"""How many files and functions of privmw a record passes in `privmw release` (auto), by sys.setprofile.

    python benches/study.py passage          # one line
    python benches/study.py passage -v       # and the functions of each file
    python benches/study.py passage --hops   # and every function, in the order of the first calls

Files and functions that run on the way from two parquet files to the release's folder are counted once each;
lambdas, comprehensions and what runs at import are not counted. The figure tells how much code there is to
read between the command and the curator and back.
"""

from __future__ import annotations

import sys
import tempfile
import threading
from collections import Counter
from contextlib import redirect_stderr, redirect_stdout
from io import StringIO
from pathlib import Path
from types import FrameType

import privmw
from privmw.cli import main as run_command
from privmw.extensions.population import draw_population

ROOT = f"{Path(privmw.__file__).parent}/"
ATTRIBUTES, PUBLIC, PRIVATE = 6, 3_000, 5_000


def passed(arguments: list[str]) -> list[tuple[str, int, str]]:
    """(file, line, name) of every function of privmw that a command calls, by first calls."""
    calls: dict[tuple[str, int, str], None] = {}

    def watch(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "call" and code.co_filename.startswith(ROOT) and not code.co_name.startswith("<"):
            calls[code.co_filename.removeprefix(ROOT), code.co_firstlineno, code.co_name] = None

    threading.setprofile(watch)
    sys.setprofile(watch)
    try:
        with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
            exit_code = run_command(arguments)
    finally:
        sys.setprofile(None)
        threading.setprofile(None)
    if exit_code:
        sys.exit(f"privmw {arguments[0]} ended with {exit_code}")
    return list(calls)


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        public = draw_population(PUBLIC, attributes=ATTRIBUTES, seed=1)
        public.write(folder / "public.parquet")
        public.domain.write(folder / "domain.json")
        draw_population(PRIVATE, attributes=ATTRIBUTES, shift=1.0, seed=2).write(folder / "private.parquet")
        options = {
            "private": folder / "private.parquet",
            "public": folder / "public.parquet",
            "domain": folder / "domain.json",
            "marginals": 3,
            "epsilon": 1,
            "bins": "label",
            "output": folder / "out",
        }
        calls = passed(["release", *(f"--{option}={value}" for option, value in options.items())])
    functions = Counter(file for file, _, _ in calls)
    print(f"{len(functions)} files and {len(calls)} functions of privmw from `privmw release` to its folder")
    if "-v" in sys.argv[1:]:
        for file, count in sorted(functions.items()):
            print(f"{count:4} {file}")
    if "--hops" in sys.argv[1:]:
        print(*(f"{file}:{line} {name}" for file, line, name in calls), sep="\n")


if __name__ == "__main__":
    main()
