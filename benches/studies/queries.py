"""Questions asked of a release: how often the intervals of ranges, means and quantiles hold the truth.

    python benches/study.py queries coverage                 # 200 releases: two sets, two budgets, two orders
    python benches/study.py queries coverage --drift         # a public table of an earlier year as well
    python benches/study.py queries coverage --seeds 5

Each release is `release_auto` on all two-way or three-way marginals of seven attributes of ADULT and of the
survey (HI-18). The public table is a tenth of the records, drawn for every release; with --drift also the
survey of 2015, which is no sample of the private population. Questions: 40 random ranges of one or two
attributes, the distribution function and the quantiles of binned and of whole numbers, and means by group.
The share of 95 % intervals that hold the private table's own figure is printed by kind of question.

Needs PRIVMW_DATA. True figures look at private records, so nothing here is private. `--smoke` runs one seed
of one set.
"""

from __future__ import annotations

import argparse
import itertools
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import real_data

import privmw as pmw

HOURS = [0, 10, 20, 30, 35, 40, 41, 50, 60, 100]
WAGES = [0, 1, 10_000, 20_000, 30_000, 40_000, 50_000, 75_000, 100_000, 200_000, 1_000_000]
ADULT = {
    "age": {"edges": [15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 95]},
    "education-num": 17,
    "hours-per-week": {"edges": HOURS},
    "sex": None,
    "race": None,
    "marital-status": None,
    "income": None,
}
SURVEY = {
    "AGEP": {"edges": [0, 5, 10, 15, 20, 25, 30, 35, 40, 45, 50, 55, 60, 65, 70, 75, 80, 100]},
    "SCHL": 25,
    "WAGP": {"edges": WAGES, "missing": "none"},
    "SEX": None,
    "RAC1P": None,
    "MAR": None,
    "ESR": None,
}
# Of each set: numbers in bins, whole numbers, and attributes whose values are groups.
ROLES = {
    "ADULT": (("age", "hours-per-week"), ("education-num",), ("sex", "income", "marital-status")),
    "survey": (("AGEP", "WAGP"), ("SCHL",), ("SEX", "MAR", "ESR")),
}
DRIFT = "survey, from 2015"
ROLES[DRIFT] = ROLES["survey"]
KINDS = ("range", "two ranges", "prefix", "cdf", "mean", "quantile in bins", "quantile of whole numbers")
RANGES = 40
ORDERS = (2, 3)  # of the marginals measured


@lru_cache(maxsize=3)
def records(name: str) -> tuple[pmw.Domain, pa.Table, pa.Table | None]:
    """The records of a set; the public ones where they are not drawn among them."""
    if name == "ADULT":
        frame = parquet.read_table(real_data.folder("adult") / "adult_raw.parquet", columns=list(ADULT))
        return _domain(ADULT, frame), frame, None
    folder = real_data.folder("acs_pums")
    years = [
        _survey(parquet.read_table(folder / f"{file}.parquet", columns=list(SURVEY)))
        for file in ("acs2018_hi", "acs2015_hi")
    ]
    return _domain(SURVEY, pa.concat_tables(years)), years[0], years[1] if name == DRIFT else None


def case(name: str, seed: int) -> tuple[pmw.Table, pmw.Table]:
    """The private and the public table of a set."""
    domain, private, public = records(name)
    if public is None:
        order = np.random.default_rng([11, seed]).permutation(private.num_rows)
        tenth = private.num_rows // 10
        private, public = private.take(order[tenth:]), private.take(order[:tenth])
    return (
        pmw.Table.from_frame(private, domain, private=True),
        pmw.Table.from_frame(public, domain, private=False),
    )


def _survey(frame: pa.Table) -> pa.Table:
    wages = [None if wage is None or wage < 0 else wage for wage in frame["WAGP"].to_pylist()]
    schooling = [max(int(code), 0) for code in frame["SCHL"].to_pylist()]
    frame = frame.set_column(frame.column_names.index("WAGP"), "WAGP", pa.array(wages, pa.int64()))
    return frame.set_column(frame.column_names.index("SCHL"), "SCHL", pa.array(schooling, pa.int64()))


def _domain(declared: dict, frame: pa.Table) -> pmw.Domain:
    """Labels, where none are declared, are those of all records: a study of errors, not of privacy."""
    return pmw.Domain(
        {
            name: sorted(set(frame[name].to_pylist())) if declaration is None else declaration
            for name, declaration in declared.items()
        }
    )


def exact(private: pmw.Table) -> pmw.Release:
    """A "release" of the private records themselves, whose answers are the truth. NOT PRIVATE."""
    support = pmw.Support.from_table(as_public(private))
    ledger = pmw.accounting.Ledger(pmw.Budget.zcdp(1), pmw.accounting.Neighbors.REPLACE_ONE, n=private.n)
    workload = pmw.Workload.all(private.domain, k=1)
    return pmw.Release(support, workload, support.start(), ledger=ledger, settings={})


def as_public(table: pmw.Table) -> pmw.Table:
    return pmw.Table(zip(table.domain.names, table.columns, strict=True), table.domain, private=False)


def questions(name: str, domain: pmw.Domain) -> list[tuple[str, Callable[..., pa.Table], str]]:
    """Kind, what to ask of a release at a level, and the column of the figure."""
    binned, whole, groups = ROLES[name]
    draws, found = np.random.default_rng(7), []

    def drawn(attribute: str) -> tuple[object, object]:
        ends = domain[attribute].edges or tuple(range(domain[attribute].size))
        low, high = sorted(draws.choice(len(ends), 2, replace=False))
        return ends[low], ends[high]

    for number in range(RANGES):
        one, other = draws.choice([*binned, *whole], 2, replace=False)
        kind, where = KINDS[number % 3], {}
        if kind == "prefix":
            where[one] = (None, drawn(one)[1])
            group = draws.choice(groups)
            where[group] = domain[group].label(int(draws.integers(domain[group].size)))
        else:
            where[one] = drawn(one)
        if kind == "two ranges":
            where[other] = drawn(other)
        found.append((kind, lambda release, level, where=where: _share(release, where, level), "answer"))
    for attribute in (*binned, *whole):
        kind = KINDS[5] if attribute in binned else KINDS[6]
        for by in (None, *groups[:2]):
            options = {"by": by, "kind": "pyarrow"}
            for column, kind_of, method, more in (
                ("share", "cdf", "cdf", ()),
                ("mean", "mean", "mean", ()),
                ("quantile", kind, "quantile", ([0.25, 0.5, 0.75],)),
            ):
                ask = lambda release, level, m=method, a=attribute, more=more, o=options: getattr(release, m)(  # noqa: E731
                    a, *more, level=level, **o
                )
                found.append((kind_of, ask, column))
    return found


def _share(release: pmw.Release, where: dict, level: float | None) -> pa.Table:
    from privmw.release.questions import answer_to, conditions_on

    answer = answer_to(release, conditions_on(release, where), level)._asdict()
    return pa.table({column: [value] for column, value in answer.items()})


def coverage_of(job: tuple[str, int, float, int]) -> dict[str, list[tuple[bool, float]]]:
    """In a worker process: for each kind of question whether intervals hold, and their relative width."""
    name, order, epsilon, seed = job
    pmw.kernels.set_threads(1)
    private, public = case(name, seed)
    workload = pmw.Workload.all(private.domain, k=order)
    support = pmw.Support.from_table(public)
    release = pmw.release_auto(private, support, workload, epsilon=epsilon, rng=seed, public_is_public=True)
    truth, held = exact(private), {kind: [] for kind in KINDS}
    for kind, ask, column in questions(name, private.domain):
        ours, right = ask(release, 0.95), ask(truth, None)
        low, high = (ours[end].to_numpy(zero_copy_only=False).astype(float) for end in ("low", "high"))
        value = right[column].to_numpy(zero_copy_only=False).astype(float)
        offered = np.isfinite(low) & np.isfinite(value)
        if kind == "cdf":  # a share of 0 or 1 is known
            offered &= (high > low) & (value > 0) & (value < 1)
        inside = (low - 1e-9 <= value) & (value <= high + 1e-9)
        held[kind] += list(zip(inside[offered].tolist(), (high - low)[offered].tolist(), strict=True))
    return held


def coverage(names: tuple[str, ...], epsilons: list[float], seeds: int, workers: int) -> Iterator[str]:
    """The table in Markdown, as it is ready."""
    yield "| set | order | epsilon | releases | " + " | ".join(KINDS) + " | all |"
    yield "|---|---|---|---|" + "---|" * (len(KINDS) + 1)
    everything: list[bool] = []
    with ProcessPoolExecutor(max_workers=workers) as pool:
        for name, order, epsilon in itertools.product(names, ORDERS, epsilons):
            jobs = [(name, order, epsilon, seed) for seed in range(seeds)]
            by_kind: dict[str, list[bool]] = {kind: [] for kind in KINDS}
            for held in pool.map(coverage_of, jobs):
                for kind in KINDS:
                    by_kind[kind] += [inside for inside, _ in held[kind]]
            of_set = [inside for held in by_kind.values() for inside in held]
            everything += of_set
            shares = [f"{np.mean(by_kind[kind]):.3f}" if by_kind[kind] else "" for kind in KINDS]
            shown = " | ".join([*shares, f"{np.mean(of_set):.3f}"])
            yield f"| {name} | {order} | {epsilon:g} | {seeds} | {shown} |"
    count = len(names) * len(ORDERS) * len(epsilons) * seeds
    yield f"| all | | | {count} |" + " |" * len(KINDS) + f" {np.mean(everything):.3f} |"


def main() -> None:
    """Read the command line and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("coverage",))
    parser.add_argument("--seeds", type=int, default=25)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[0.25, 1.0])
    parser.add_argument("--drift", action="store_true")
    parser.add_argument("--only", default="", help="sets whose names start so")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    names = tuple(name for name in ROLES if name.startswith(given.only) and (given.drift or name != DRIFT))
    try:
        if given.smoke:
            names, given.epsilons, given.seeds, given.workers = names[:1], [1.0], 1, 1
        for line in coverage(names, given.epsilons, given.seeds, given.workers):
            print(line, flush=True)
    except real_data.NoDataError as error:
        raise SystemExit(str(error)) from None


if __name__ == "__main__":
    main()
