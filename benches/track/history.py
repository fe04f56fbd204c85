"""The history: one JSON line a commit, in the order in which the commits were made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from . import instructions
from .builds import Build, build_of, git, sources_of, this_build

FILE = Path(__file__).with_name("history.jsonl")
KINDS = ("work", "instructions", "instructions from Python", "errors")
TOTALS = ("passes", "rows x marginals", "Newton steps", "kernel bytes")


def read_history(file: Path = FILE) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def write_history(entries: list[dict[str, Any]], file: Path = FILE) -> None:
    """Each commit once; the last entry of a commit is kept."""
    latest = {entry["commit"]: entry for entry in entries}
    ordered = sorted(latest.values(), key=lambda entry: (entry["date"], entry["commit"]))
    file.write_text("".join(f"{json.dumps(entry)}\n" for entry in ordered))


def measure(build: Build, commit: str, kinds: list[str]) -> dict[str, Any]:
    """What is counted of a build. What an old build cannot do is left out, with the reason."""
    full, date, subject = git("log", "-1", "--format=%H%n%cI%n%s", commit).splitlines()
    entry: dict[str, Any] = {"commit": full[:12], "date": date, "subject": subject}
    entry["toolchain"] = instructions.toolchain(build)
    measures: dict[str, Callable[[], Any]] = {
        "work": lambda: {
            run: {what: counts[what] for what in TOTALS} for run, counts in build.work(skip=True).items()
        },
        "instructions": lambda: instructions.count_kernels(build.root)[0],
        "instructions from Python": lambda: instructions.count_release(build),
        "errors": lambda: build.run("errors"),
    }
    for kind in kinds:
        try:
            entry[kind] = measures[kind]()
        except RuntimeError as error:
            entry[kind], entry[f"no {kind}"] = {}, str(error).splitlines()[0]
    return entry


def record(commits: list[str], kinds: list[str]) -> None:
    """Build and measure these commits, and write each to the history as soon as it is measured.

    Kinds that a commit's line has already and that are not measured now are kept.
    """
    for commit in commits:
        # Instructions of kernels need the sources alone.
        with sources_only(commit) if set(kinds) == {"instructions"} else build_of(commit) as build:
            entry = measure(build, commit, kinds)
        known = {old["commit"]: old for old in read_history()}
        write_history([*known.values(), known.get(entry["commit"], {}) | entry])
        print(f"{entry['commit']} {entry['subject']}", flush=True)


@contextmanager
def sources_only(commit: str) -> Iterator[Build]:
    with sources_of(commit) as tree:
        yield Build(this_build().python, tree)
