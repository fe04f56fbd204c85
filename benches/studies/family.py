"""One table of the whole family: every algorithm of the papers on the same sets, with the same budgets.

    python benches/study.py family run results.jsonl --minutes 60   # as much as fits; again: goes on
    python benches/study.py family table results.jsonl              # the tables, in Markdown
    python benches/study.py family plot results.jsonl family.svg    # error against epsilon, a panel a set
    python benches/study.py family keep results.jsonl benches/family.csv   # means, for `study.py figures`
    python benches/study.py family run results.jsonl --set "HI-15, "  # one of the SWEEPS: named, or not run

A run stores one JSON line for each (set, method, rounds, epsilon, seed): largest error, mean L1 error of a
marginal, processor seconds. What is stored already is not run again. Seeds come last, so that a table fills
evenly. Rounds follow a stated rule, the default of each algorithm; a number in brackets is the best of all
numbers of rounds that were tried, chosen by the true error as in the papers, which no private run may do.

Needs PRIVMW_DATA. Errors look at private records, so nothing here is private.
"""

from __future__ import annotations

import argparse
import csv
import itertools
import json
import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
import pairs
import real_data

import privmw as pmw

EPSILONS = (0.1, 0.25, 0.5, 1.0)
LARGEST_FULL = 10**6  # rows of a domain that is enumerated


@dataclass(frozen=True)
class Case:
    """Private records, what is public beside them, and the workload."""

    private: pmw.Table
    public: pmw.Support | None
    workload: pmw.Workload

    @property
    def enumerable(self) -> bool:
        """Whether the whole domain can be a support."""
        return self.private.domain.size <= LARGEST_FULL


def _adult(bias: float, order: int = 3, marginals: int | None = None) -> Case:
    pair = pairs.adult("ADULT", bias)
    workload = pair.workload
    if marginals is not None:
        workload = pmw.Workload.sample(pair.private.domain, k=order, size=marginals, seed=0)
    return Case(pair.private, pmw.Support.from_table(pair.public), workload)


def _loans(order: int) -> Case:
    """A tenth of the records, drawn at random, is public; the others are private."""
    table = real_data.loans()
    public = np.random.RandomState(0).binomial(1, 0.1, table.n) == 1
    private = pairs.as_private(table.take(np.flatnonzero(~public)))
    workload = pmw.Workload.sample(table.domain, k=order, size=64, seed=0)
    return Case(private, pmw.Support.from_table(table.take(np.flatnonzero(public))), workload)


def _survey(name: str, reduced: bool = False) -> Case:
    pair = pairs.pair(name)
    workload = pmw.Workload.all(pair.private.domain, k=3) if reduced else pair.workload
    return Case(pair.private, pmw.Support.from_table(pair.public), workload)


SETS: dict[str, Callable[[], Case]] = {
    "ADULT, 286 three-way": lambda: _adult(0.0),
    "ADULT, 286 three-way, women undersampled by 0.3": lambda: _adult(-0.3),
    "reduced survey, 455 three-way": lambda: _survey("reduced HI-18 from HI-15", reduced=True),
    "HI-18 from HI-15, 1,024 three-way": lambda: _survey("HI-18 from HI-15"),
    "HI-18 from NM-18, 1,024 three-way": lambda: _survey("HI-18 from NM-18"),
    "ADULT, 64 three-way": lambda: _adult(0.0, 3, 64),
    "ADULT, 64 five-way": lambda: _adult(0.0, 5, 64),
    "LOANS, 64 three-way": lambda: _loans(3),
    "LOANS, 64 five-way": lambda: _loans(5),
}


def _few(size: int) -> Case:
    """The survey, with so many of its three-way marginals."""
    found = _survey("HI-18 from HI-15")
    everything = pmw.Workload.all(found.private.domain, k=3)
    drawn = np.random.RandomState(0).choice(len(everything), size, replace=False)
    return Case(found.private, found.public, everything.select(drawn))


# One thing varies, as in some figures of the papers; run only where --set names them.
SWEEPS: dict[str, Callable[[], Case]] = {
    "HI-15, 10 %": lambda: _survey("HI-18 from HI-15, 10 %"),
    "HI-15, 1 %": lambda: _survey("HI-18 from HI-15, 1 %"),
    "64 marginals of HI-18": lambda: _few(64),
    "256 marginals of HI-18": lambda: _few(256),
    "4096 marginals of HI-18": lambda: _few(4096),
    "women undersampled by 0.1, ADULT": lambda: _adult(-0.1),
}


@lru_cache(maxsize=1)
def case(name: str) -> Case:
    return (SETS | SWEEPS)[name]()


@dataclass(frozen=True)
class Method:
    """A row of the tables. The first number of rounds is the rule's: None is the algorithm's default."""

    make: Callable[[int | None], object]
    rounds: tuple[int | None, ...] = (None,)
    public: bool = True  # whether it starts from the public rows
    full: bool = False  # on every row of the domain, where that can be enumerated
    attributes: int = 1000  # at most so many
    cells: int = 10**9  # at most so many


METHODS: dict[str, Method] = {
    "MWEM, full domain": Method(lambda t: pmw.MWEM(rounds=t), (None, 10, 100), full=True),
    "PEP, full domain, uniform": Method(
        lambda t: pmw.PEP(rounds=t, start="uniform"), (None, 10, 100), full=True
    ),
    "HDMM, Gaussian": Method(lambda _: pmw.HDMM(), public=False, attributes=13),
    "residual strategy, Gaussian": Method(
        lambda _: pmw.extensions.unbiased.one_shot.OneShot(strategy=pmw.strategies.residual(loss="largest")),
        public=False,
        cells=10**7,
    ),
    "DualQuery": Method(lambda _: pmw.DualQuery(), public=False),
    "FEM": Method(lambda _: pmw.FEM(), public=False),
    "RAP": Method(lambda t: pmw.RAP(softmax=False, rounds=t), (None, 10, 25), public=False),
    "RAP-softmax": Method(lambda t: pmw.RAP(rounds=t), (None, 10, 25), public=False),
    "RAP-softmax, one shot": Method(lambda _: pmw.RAP(select="all"), public=False),
    "GEM": Method(lambda t: pmw.GEM(rounds=t), (None, 10, 25), public=False),
    "release_auto, no public table": Method(lambda _: None, public=False),
    "DualQuery, public rows": Method(lambda _: pmw.DualQuery(oracle="support")),
    "FEM, public rows": Method(lambda _: pmw.FEM(oracle="support")),
    "MWEM+PUB": Method(lambda t: pmw.MWEMPub(rounds=t), (None, 10, 100)),
    "MW-Pub": Method(lambda t: pmw.MWPub(rounds=t), (None, 10, 100)),
    "PEP, public start": Method(lambda t: pmw.PEP(rounds=t), (None, 10, 25)),
    "GEM-Pub": Method(lambda t: pmw.GEM(rounds=t), (None, 10, 25)),
    "release_auto": Method(lambda _: None),
}


def _asked(method: Method, asked: Case) -> pmw.Support | None:
    if method.full:
        return pmw.Support.full(asked.private.domain)
    return asked.public if method.public else None


def applies(method: Method, asked: Case) -> bool:
    """Whether the method can run on a set in reasonable time."""
    if method.full and not asked.enumerable:
        return False
    return len(asked.private.domain) <= method.attributes and asked.workload.cells <= method.cells


def answers(method: Method, asked: Case, rounds: int | None, epsilon: float, seed: int) -> np.ndarray:
    """The released answers of one run."""
    algorithm = method.make(rounds)
    support, delta = _asked(method, asked), 1 / asked.private.n**2
    if algorithm is None:
        release = pmw.release_auto(
            asked.private, support, asked.workload, epsilon=epsilon, delta=delta, rng=seed
        )
        return release.answers()
    mechanism = algorithm.calibrate(epsilon, delta, n=asked.private.n)
    if isinstance(algorithm, pmw.extensions.unbiased.one_shot.OneShot):
        return mechanism(asked.private, asked.workload, rng=seed).answers()
    return mechanism(asked.private, support, asked.workload, rng=seed).answers()


Job = tuple[str, str, int | None, float, int]


def run(job: Job) -> dict[str, object]:
    """In a worker process: one line of the results."""
    name, method, rounds, epsilon, seed = job
    asked = case(name)
    pmw.kernels.set_threads(1)
    began = time.process_time()
    released = answers(METHODS[method], asked, rounds, epsilon, seed)
    seconds = time.process_time() - began
    missed = np.abs(released - asked.private.counts(asked.workload) / asked.private.n)
    return {
        "set": name,
        "method": method,
        "rounds": rounds,
        "epsilon": epsilon,
        "seed": seed,
        "largest": float(missed.max()),
        "l1": float(np.add.reduceat(missed, asked.workload.offsets[:-1]).mean()),
        "seconds": seconds,
    }


def read(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def jobs(given: argparse.Namespace, stored: Iterable[dict]) -> Iterator[Job]:
    """Everything asked for that is not stored, seed after seed."""
    done = {(r["set"], r["method"], r["rounds"], r["epsilon"], r["seed"]) for r in stored}
    names = [name for name in (SETS | SWEEPS if given.set else SETS) if name.startswith(given.set)]
    for seed, name in itertools.product(range(given.seeds), names):
        asked = case(name)
        for label, method in METHODS.items():
            if given.method not in label or not applies(method, asked):
                continue
            tried = method.rounds if given.best else method.rounds[:1]
            for rounds, epsilon in itertools.product(tried, given.epsilons):
                job = (name, label, rounds, epsilon, seed)
                if job not in done:
                    yield job


def fill(given: argparse.Namespace) -> None:
    """Run what is missing and store it, until the minutes are over."""
    path, end = Path(given.results), time.monotonic() + 60 * given.minutes
    waiting = jobs(given, read(path))
    workers = given.workers or len(os.sched_getaffinity(0))
    with ProcessPoolExecutor(max_workers=workers) as pool, path.open("a") as results:
        while time.monotonic() < end and (batch := list(itertools.islice(waiting, 2 * workers))):
            for line in pool.map(run, batch):
                print(json.dumps(line), file=results, flush=True)


def _mean(rows: list[dict], what: str) -> tuple[float, float]:
    values = np.array([row[what] for row in rows])
    error = values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return float(values.mean()), float(error)


def summary(results: list[dict]) -> Iterator[tuple[str, str, float, dict]]:
    """For each set, method and epsilon: figures by the rule, and the least mean of all rounds tried."""
    for name, method, epsilon in itertools.product(SETS | SWEEPS, METHODS, EPSILONS):
        rows = [r for r in results if (r["set"], r["method"], r["epsilon"]) == (name, method, epsilon)]
        ruled = [r for r in rows if r["rounds"] == METHODS[method].rounds[0]]
        if not ruled:
            continue
        tried = [[r for r in rows if r["rounds"] == t] for t in METHODS[method].rounds]
        largest, error = _mean(ruled, "largest")
        yield (
            name,
            method,
            epsilon,
            {
                "largest": largest,
                "error": error,
                "best": min(_mean(part, "largest")[0] for part in tried if part),
                "l1": _mean(ruled, "l1")[0],
                "seconds": _mean(ruled, "seconds")[0],
                "seeds": len(ruled),
            },
        )


def table(results: list[dict]) -> Iterator[str]:
    """The tables in Markdown; mean L1 and seconds are those at the largest epsilon that was run."""
    found = {(name, method, epsilon): line for name, method, epsilon, line in summary(results)}
    for name in SETS | SWEEPS:
        methods = [m for m in METHODS if any((name, m, epsilon) in found for epsilon in EPSILONS)]
        if not methods:
            continue
        yield f"\n**{name}**\n"
        yield "| method | " + " | ".join(f"eps {e:g}" for e in EPSILONS) + " | mean L1 | seconds | seeds |"
        yield "|---|" + "---|" * (len(EPSILONS) + 3)
        for method in methods:
            cells, last = [], None
            for epsilon in EPSILONS:
                line = found.get((name, method, epsilon))
                if line is None:
                    cells.append("")
                    continue
                last = line
                best = f" ({line['best']:.4f})" if line["best"] < line["largest"] else ""
                cells.append(f"{line['largest']:.4f}{best}")
            assert last is not None
            cells += [f"{last['l1']:.3f}", f"{last['seconds']:.1f}", str(last["seeds"])]
            yield f"| {method} | " + " | ".join(cells) + " |"


def keep(results: list[dict], path: str) -> None:
    """The summary as csv: small enough to be committed."""
    with Path(path).open("w", newline="") as file:
        write = csv.writer(file, lineterminator="\n")
        write.writerow(("set", "method", "epsilon", "largest", "error", "l1", "seconds", "seeds"))
        for name, method, epsilon, line in summary(results):
            figures = (f"{line[what]:.4g}" for what in ("largest", "error", "l1", "seconds"))
            write.writerow((name, method, epsilon, *figures, line["seeds"]))


def plot(results: list[dict], path: str) -> None:
    """Largest error against epsilon, a panel a set."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    found = list(summary(results))
    names = [name for name in SETS if any(name == line[0] for line in found)]
    across = 3
    figure, panels = plt.subplots(
        -(-len(names) // across), across, figsize=(13, 4 * -(-len(names) // across)), squeeze=False
    )
    colours = plt.get_cmap("tab20")
    for panel, name in itertools.zip_longest(panels.flat, names):
        if name is None:
            panel.axis("off")
            continue
        for number, method in enumerate(METHODS):
            points = [(line[2], line[3]["largest"]) for line in found if line[:2] == (name, method)]
            if points:
                style = "--" if number % 2 else "-"
                panel.plot(*zip(*points, strict=True), style, marker="o", ms=3, color=colours(number % 20))
        panel.set(xscale="log", yscale="log", title=name, xlabel="epsilon")
        panel.set_xticks(EPSILONS, [f"{e:g}" for e in EPSILONS], minor=False)
        panel.minorticks_off()
    panels.flat[0].set_ylabel("largest error")
    handles = [
        plt.Line2D([], [], color=colours(number % 20), ls="--" if number % 2 else "-", marker="o", ms=3)
        for number in range(len(METHODS))
    ]
    figure.legend(handles, list(METHODS), loc="lower center", ncols=4, frameon=False)
    figure.tight_layout(rect=(0, 0.12, 1, 1))
    figure.savefig(path)


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=["run", "table", "plot", "keep"])
    parser.add_argument("results", help="a file of JSON lines")
    parser.add_argument("target", nargs="?", help="of plot: family.svg; of keep: benches/family.csv")
    parser.add_argument("--set", default="", help="sets whose names start so")
    parser.add_argument("--method", default="", help="methods with this in their names")
    parser.add_argument("--epsilons", type=float, nargs="+", default=list(EPSILONS))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--best", action="store_true", help="other numbers of rounds too")
    given = parser.parse_args()
    try:
        if given.what == "run":
            fill(given)
        elif given.what == "table":
            for line in table(read(Path(given.results))):
                print(line)
        elif given.what == "plot":
            plot(read(Path(given.results)), given.target or "family.svg")
        else:
            keep(read(Path(given.results)), given.target or "benches/family.csv")
    except real_data.NoDataError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
