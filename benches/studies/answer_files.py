"""Writing the answers of a release and unbiased answers: processor seconds by format, beside pandas.

    python benches/study.py answer_files            # 5.5 million answers, the sizes of the survey
    python benches/study.py answer_files --smoke    # the same on 14 attributes, for a look

Processor seconds of one run; largest pause: the longest time without a word to the progress bar, which begins
when the answers are there. pandas writes the same columns, made beforehand, as texts and numbers.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import privmw as pmw
from privmw.release.cells import write_answers

sys.path.insert(0, str(Path(__file__).parents[1]))
from shapes import acs67

FORMATS = ("parquet", "feather", "csv")


def main() -> None:
    table = acs67(20_000)
    names = table.domain.names[: 14 if "--smoke" in sys.argv else None]
    domain = pmw.Domain({name: table.domain[name].size for name in names})
    public = pmw.Table({name: table.column(name) for name in names}, domain, private=False)
    private = pmw.Table({name: table.column(name) for name in names}, domain, private=True)
    workload = pmw.Workload.all(domain, k=3)
    mechanism, support = pmw.MWPub(rounds=1).calibrate(rho=1.0), pmw.Support.from_table(public)
    release = mechanism(private, support, workload, public_is_public=True)
    unbiased = pmw.extensions.unbiased.one_shot.OneShot().calibrate(1.0, 1e-9)(private, workload)
    print(f"{workload.cells:,} answers to {len(workload):,} marginals\n")
    print(f"{'':10} {'format':8} {'seconds':>8} {'MB':>7} {'largest pause':>14} {'pandas':>8}")
    writers: dict[str, tuple[Callable[..., None], Callable[[], object]]] = {
        "release": (
            lambda path, progress: write_answers(release, path, progress=progress),
            lambda: pmw.release.cells.cells_frame(workload, {"answer": release.answers()}, "pandas"),
        ),
        "unbiased": (
            lambda path, progress: unbiased.write(path, progress=progress),
            lambda: unbiased.to_frame("pandas"),
        ),
    }
    with tempfile.TemporaryDirectory() as folder:
        for what, (write, frame) in writers.items():
            plain = frame()
            for form in FORMATS:
                ours, pause = timed(write, Path(folder) / f"{what}.{form}")
                size = (Path(folder) / f"{what}.{form}").stat().st_size / 1e6
                options = {"index": False} if form != "feather" else {}
                began = time.process_time()
                getattr(plain, f"to_{form}")(Path(folder) / f"{what}-pandas.{form}", **options)
                theirs = time.process_time() - began
                print(f"{what:10} {form:8} {ours:8.2f} {size:7.1f} {pause:14.2f} {theirs:8.2f}", flush=True)


def timed(write: Callable[..., None], path: Path) -> tuple[float, float]:
    """Processor seconds of writing a file, and the longest time between two words to the progress bar."""
    seen: list[float] = []
    began = time.process_time()
    write(path, lambda rows: seen.append(time.perf_counter()))
    return time.process_time() - began, max((b - a for a, b in pairwise(seen)), default=0)


if __name__ == "__main__":
    main()
