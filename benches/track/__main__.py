"""python -m benches.track COMMAND: what a commit costs, counted and compared.

work            the kernels' work on fixed runs against work.json: exact, any difference fails
instructions    callgrind's counts against instructions.json: 2 % more fails
update          write both files anew, and print what changed
compare A B     times of two commits, paired; exit code 1 where one is surely slower
record [A ...]  measure commits (HEAD) into history.jsonl
page            history.jsonl as one static page
proof           planted slowdowns that must be found, and identical builds that must not be flagged
"""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from . import compare, instructions, page
from .builds import ROOT, build_of, git, sources_of, this_build
from .differences import instruction_differences, work_differences
from .history import KINDS, read_history, record
from .instructions import ROWS

FOLDER = Path(__file__).parent
WORK, INSTRUCTIONS = FOLDER / "work.json", FOLDER / "instructions.json"
THRESHOLD = 0.02  # of instructions
UPDATE = "`python -m benches.track update` writes the files; say in the commit why"


def write(file: Path, content: Any) -> None:
    file.write_text(json.dumps(content, indent=1) + "\n")


def check_work(update: bool) -> int:
    before = json.loads(WORK.read_text()) if WORK.exists() else {}
    after = this_build().work()
    lines = work_differences(before, after)
    print(f"work: {len(after)} runs, {len(lines)} differ from {WORK.name}", *lines, sep="\n  ")
    if update:
        write(WORK, after)
        return 0
    if lines:
        print(UPDATE)
    return bool(lines)


def check_instructions(update: bool) -> int:
    instructions.require_valgrind()
    build = this_build()
    toolchain, after = instructions.toolchain(build), instructions.count_all(build)
    before = (
        json.loads(INSTRUCTIONS.read_text()) if INSTRUCTIONS.exists() else {"toolchain": {}, "counts": {}}
    )
    counts, said = comparable(before, toolchain)
    gated = {name: number for name, number in after.items() if not said or name in counts}
    worse, moved = instruction_differences(counts, gated, THRESHOLD)
    print(
        f"instructions: {len(gated)} counts, {len(worse)} more than {100 * THRESHOLD:g} % up",
        *said,
        sep="\n  ",
    )
    print(*(f"  {line}" for line in moved), *(f"  MORE {line}" for line in worse), sep="\n")
    if update:
        write(INSTRUCTIONS, {"toolchain": toolchain, "counts": after})
        return 0
    if worse:
        print(UPDATE)
    return bool(worse)


def comparable(before: dict[str, Any], now: dict[str, str]) -> tuple[dict[str, int], list[str]]:
    """The baseline's counts that can be compared with those of this toolchain, and what was done for it."""
    was, counts = before["toolchain"], dict(before["counts"])
    said: list[str] = []
    if not was:
        return counts, said
    if any(was[what] != now[what] for what in ("compiler", "machine", "python", "numpy")):
        said.append(
            f"Python, numpy or compiler are not the baseline's: '{instructions.FROM_PYTHON}' is not gated"
        )
        counts.pop(instructions.FROM_PYTHON, None)
    if any(was[what] != now[what] for what in ("compiler", "machine")):
        try:
            if git("status", "--porcelain", str(INSTRUCTIONS)):
                raise ValueError("the baseline must be committed")
            commit = git("log", "-1", "--format=%H", "--", str(INSTRUCTIONS))
            with sources_of(commit) as tree:
                (counts,) = instructions.count_kernels(tree)
            said.append(
                f"the baseline was counted anew from {commit[:12]}: its compiler is {was['compiler']}"
            )
        except (RuntimeError, ValueError) as error:
            counts = {}
            said.append(f"NOT GATED: {now['compiler']} is not the baseline's compiler, and {error}")
    return counts, said


def run_compare(given: argparse.Namespace) -> int:
    rule = rule_of(given)
    with ExitStack() as stack:
        base, head = (stack.enter_context(build_of(commit)) for commit in (given.base, given.head))
        runs = [run for run in head.run("worker", "runs") if given.only in run]
        intervals = compare.compare(base, head, runs, rule)
    print(compare.table(intervals, rule))
    if missing := [run for run in runs if run not in intervals]:
        print(f"not in both: {', '.join(missing)}")
    return any(rule.flags(interval) for interval, _ in intervals.values())


def rule_of(given: argparse.Namespace) -> compare.Rule:
    chosen = {name: getattr(given, name) for name in ("clock", "threshold", "width", "most")}
    return compare.Rule(**{name: value for name, value in chosen.items() if value is not None})


def run_proof(given: argparse.Namespace) -> int:
    """The gates themselves, tried on this build."""
    build, rule = this_build(), rule_of(given)
    plain, again, planted = instructions.count_kernels(ROOT, ROWS, ROWS, ROWS * 103 // 100)
    same = sum(plain[name] == again[name] for name in plain)
    print(f"instructions, counted again: {same} of {len(plain)} kernels have the same count")
    worse, _ = instruction_differences(plain, planted, THRESHOLD)
    print(f"instructions, 3 % more rows: {len(worse)} of {len(plain)} kernels flagged", *worse, sep="\n  ")
    runs = [run for run in build.run("worker", "runs") if given.only in run]
    print(f"paired, planted 5 % slower: {len(runs)} runs")
    slower = compare.compare(build, build, runs, rule, slower=0.05)
    print(compare.table(slower, rule))
    flagged = 0
    for trial in range(given.trials):
        intervals = compare.compare(build, build, runs, rule)
        wrong = [run for run, (interval, _) in intervals.items() if rule.flags(interval)]
        flagged += bool(wrong)
        print(f"identical builds, trial {trial + 1}: {', '.join(wrong) or 'nothing'} flagged", flush=True)
    print(f"identical builds: flagged in {flagged} of {given.trials} trials")
    return 0


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benches.track",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in ("work", "instructions"):
        commands.add_parser(name).add_argument("--update", action="store_true", help="write the file anew")
    commands.add_parser("update")
    for name in ("compare", "proof"):
        command = commands.add_parser(name)
        if name == "compare":
            command.add_argument("base")
            command.add_argument("head")
        else:
            command.add_argument("--trials", type=int, default=20)
        command.add_argument("--only", default="", help="runs whose name contains this")
        command.add_argument("--clock", choices=compare.CLOCKS, help="wall; processor where others disturb")
        command.add_argument("--threshold", type=float, help="flagged if surely slower by more (0.02)")
        command.add_argument("--width", type=float, help="an interval so wide is narrow (0.02)")
        command.add_argument("--most", type=int, help="pairs of processes (40)")
    recording = commands.add_parser("record")
    recording.add_argument("commits", nargs="*", default=["HEAD"])
    recording.add_argument("--only", nargs="+", choices=KINDS, default=KINDS, help="what is measured")
    commands.add_parser("page").add_argument("-o", "--out", type=Path, default=Path("track.html"))
    given = parser.parse_args()
    if given.command == "work":
        return check_work(given.update)
    if given.command == "instructions":
        return check_instructions(given.update)
    if given.command == "update":
        return check_work(True) or check_instructions(True)
    if given.command == "compare":
        return run_compare(given)
    if given.command == "proof":
        return run_proof(given)
    if given.command == "record":
        record(given.commits, given.only)
        return 0
    given.out.write_text(page.render(read_history()))
    print(given.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
