"""False alarms and power of `release.agreement()`: on good releases, and on planted failures of falling size.

    python benches/study.py quality            # about 200 good releases, shifted ones, planted failures
    python benches/study.py quality --smoke    # one of each

ADULT's halves need PRIVMW_DATA; without it they are left out. Runs are seeded, so they repeat.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import real_data

import privmw as pmw
from privmw.extensions.population import draw_population

METHODS = {
    "auto": pmw.release_auto,
    "pep": pmw.PEP().release,
    "mw-pub": pmw.MWPub().release,
    "mwem-pub": pmw.MWEMPub().release,
}
DELTA = 1e-9
SHAPES = {  # records in each file, attributes, order of the marginals
    "made-up, 20,000 x 14, pairs": (20_000, 14, 2),
    "made-up, 20,000 x 14, triples": (20_000, 14, 3),
    "made-up, 5,000 x 8, triples": (5_000, 8, 3),
}
ADULT = "halves of ADULT, 24,421 x 13, pairs"
LOST = (0.3, 0.1, 0.03, 0.01, 0.003)  # shares of the records in a value, or a pair, that no public row has


@dataclass(frozen=True)
class Job:
    """One release: of public and private records of one population, or with a planted failure."""

    data: str
    method: str
    epsilon: float
    seed: int
    shift: float = 0.0
    value: float = 0.0  # share of the private records whose value no public row has
    pair: float = 0.0  # share whose pair of values no public row has


@lru_cache(maxsize=1)
def adult() -> pmw.Table:
    return real_data.adult()


def tables(job: Job) -> tuple[np.ndarray, np.ndarray, pmw.Domain, int]:
    """The codes of the public and the private records, their domain and the order of the marginals."""
    if job.data == ADULT:
        codes = adult().codes()
        codes = codes[np.random.default_rng(job.seed).permutation(len(codes))]
        half = len(codes) // 2
        return codes[:half], codes[half : 2 * half], adult().domain, 2
    n, attributes, order = SHAPES[job.data]
    public = draw_population(n, attributes=attributes, seed=2 * job.seed)
    private = draw_population(n, attributes=attributes, shift=job.shift, seed=2 * job.seed + 1)
    return public.codes(), private.codes(), public.domain, order


def run(job: Job) -> bool:
    """Whether the release of a job agrees with what it measured."""
    pmw.kernels.set_threads(1)
    public, private, domain, order = tables(job)
    rng = np.random.default_rng(job.seed)
    if job.value:  # the last attribute gets a further value
        sizes = [*domain.sizes[:-1], domain.sizes[-1] + 1]
        domain = pmw.Domain(dict(zip(domain.names, sizes, strict=True)))
        private[rng.random(len(private)) < job.value, -1] = sizes[-1] - 1
    if job.pair:  # the commonest values of two attributes, which public rows then have no more together
        first, second = (int(np.bincount(private[:, a]).argmax()) for a in (0, 2))
        public = public[(public[:, 0] != first) | (public[:, 2] != second)]
        private = private[(private[:, 0] != first) | (private[:, 2] != second)]
        chosen = rng.random(len(private)) < job.pair
        private[chosen, 0], private[chosen, 2] = first, second
    release = METHODS[job.method](
        pmw.Table.from_codes(private, domain, private=True),
        pmw.Support.from_table(pmw.Table.from_codes(public, domain, private=False)),
        pmw.Workload.all(domain, k=order),
        epsilon=job.epsilon,
        delta=DELTA,
        rng=job.seed,
    )
    return release.agreement().agrees


def tabulate(
    workers: ProcessPoolExecutor, groups: dict[tuple[str, ...], list[Job]], what: str
) -> Iterator[str]:
    """One line a group: how many of its releases disagree."""
    total = releases = 0
    for names, jobs in groups.items():
        told = sum(not agrees for agrees in workers.map(run, jobs))
        total, releases = total + told, releases + len(jobs)
        yield f"| {' | '.join(names)} | {told} of {len(jobs)} |"
    yield f"| {what} in all{' |' * (len(next(iter(groups))) - 1)} | {total} of {releases} |"


def lines(workers: ProcessPoolExecutor, seeds: int) -> Iterator[str]:
    data = list(SHAPES)
    try:
        adult()
        data.append(ADULT)
    except real_data.NoDataError as why:
        yield f"Without ADULT: {why}."
    for title, shift, epsilons in (
        ("Good releases: public and private records of one population", 0.0, (0.1, 1.0)),
        ("Low noise, one population", 0.0, (4.0,)),
        ("Another population (the demo's shift)", 1.0, (0.1, 1.0, 4.0)),
    ):
        yield f"\n{title}\n\n| records | method | epsilon | disagree |\n|---|---|---|---|"
        yield from tabulate(
            workers,
            {
                (name, method, f"{epsilon:g}"): [Job(name, method, epsilon, s, shift) for s in range(seeds)]
                for name in data
                if not (shift and name == ADULT)
                for method in METHODS
                for epsilon in epsilons
            },
            "alarms",
        )
    shape = next(iter(SHAPES))
    for title, kind in (("a value", "value"), ("a pair of values", "pair")):
        yield f"\nPlanted: {title} that no public row has, {shape}, epsilon 1\n"
        yield "| share | method | told |\n|---|---|---|"
        yield from tabulate(
            workers,
            {
                (f"{share:.1%}", method): [Job(shape, method, 1.0, s, **{kind: share}) for s in range(seeds)]
                for share in LOST
                for method in METHODS
            },
            "told",
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=7, help="releases of each setting (default: 7)")
    parser.add_argument("--smoke", action="store_true", help="one of each")
    options = parser.parse_args()
    with ProcessPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as workers:
        for line in lines(workers, 1 if options.smoke else options.seeds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
