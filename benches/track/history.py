"""The history: one JSON line a commit, in the order in which the commits were made."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import instructions
from .builds import Build, build_of, git

FILE = Path(__file__).with_name("history.jsonl")
TOTALS = ("passes", "rows x marginals", "Newton steps", "kernel bytes")


def read_history(file: Path = FILE) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def write_history(entries: list[dict[str, Any]], file: Path = FILE) -> None:
    """Each commit once; the last entry of a commit is kept."""
    latest = {entry["commit"]: entry for entry in entries}
    ordered = sorted(latest.values(), key=lambda entry: (entry["date"], entry["commit"]))
    file.write_text("".join(f"{json.dumps(entry)}\n" for entry in ordered))


def measure(build: Build, commit: str) -> dict[str, Any]:
    """Everything that is counted of a build. What an old build cannot do is left out, with the reason."""
    full, date, subject = git("log", "-1", "--format=%H%n%cI%n%s", commit).splitlines()
    entry: dict[str, Any] = {"commit": full[:12], "date": date, "subject": subject}
    entry["toolchain"] = instructions.toolchain(build)
    kinds: dict[str, Callable[[], Any]] = {
        "work": lambda: {
            run: {what: counts[what] for what in TOTALS} for run, counts in build.work().items()
        },
        "instructions": lambda: instructions.count_kernels(build.root)[0],
        "instructions from Python": lambda: instructions.count_release(build),
        "errors": lambda: build.run("errors"),
    }
    for kind, count in kinds.items():
        try:
            entry[kind] = count()
        except RuntimeError as error:
            entry[kind], entry[f"no {kind}"] = {}, str(error).splitlines()[0]
    return entry


def record(commits: list[str]) -> None:
    """Build and measure these commits, and write each to the history as soon as it is measured."""
    for commit in commits:
        with build_of(commit) as build:
            entry = measure(build, commit)
        write_history([*read_history(), entry])
        print(f"{entry['commit']} {entry['subject']}", flush=True)
