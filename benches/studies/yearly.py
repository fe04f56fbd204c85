"""Last year's release as this year's public table, on real years: true errors, mean and standard error.

    python benches/study.py yearly            # both pairs of years, five seeds: under a minute of one core
    python benches/study.py yearly --smoke    # one seed

Of the first year a twentieth of the records is public; the others are private, and released at epsilon .5
from it. The second year is released at epsilon .5 from that release, from the same twentieth, and from the
first year's records themselves, as if they were public: the best that a release of them could do. Needs
PRIVMW_DATA. Errors look at private records, so nothing here is private; seeds make runs repeatable.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import numpy as np
import real_data

import privmw as pmw

EPSILON, DELTA = 0.5, 1e-9
SHARE = 0.05  # of the first year's records, public
YEARS: dict[str, tuple[Callable[[], pmw.Table], Callable[[], pmw.Table], int]] = {
    "national 2018, 2019": (lambda: real_data.nist(2018), lambda: real_data.nist(2019), 128),
    "HI-15, HI-18": (
        lambda: real_data.acs("acs67", ["acs2015_hi"]),
        lambda: real_data.acs("acs67", ["acs2018_hi"]),
        256,
    ),
}


def private(table: pmw.Table) -> pmw.Table:
    return pmw.Table.from_codes(table.codes(), table.domain, private=True)


def errors(answers: np.ndarray, table: pmw.Table, workload: pmw.Workload) -> tuple[float, float]:
    """The largest error, and the mean over the marginals of the L1 distance."""
    gaps = np.abs(answers - table.counts(workload) / table.n)
    return float(gaps.max()), float(gaps.sum() / len(workload))


def run(first: pmw.Table, second: pmw.Table, workload: pmw.Workload, seed: int) -> dict[str, tuple]:
    """The errors of one seed, by what was released from what."""
    is_public = np.random.default_rng(seed).random(first.n) < SHARE
    public, protected = first.take(is_public), first.take(~is_public)
    sample = pmw.Support.from_table(public)
    budget = {"epsilon": EPSILON, "delta": DELTA}
    last_year = pmw.release_auto(private(protected), sample, workload, **budget, rng=2 * seed)
    found = {"first year from the public twentieth": errors(last_year.answers(), protected, workload)}
    starts = {
        "the public twentieth": sample,
        "last year's release": last_year.as_public(),
        "last year's records (not private)": pmw.Support.from_table(first),
    }
    for name, support in starts.items():
        found[f"{name}, as it is"] = errors(support.answers(workload), second, workload)
        release = pmw.release_auto(private(second), support, workload, **budget, rng=2 * seed + 1)
        found[f"second year from {name}"] = errors(release.answers(), second, workload)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--smoke", action="store_true", help="one seed")
    options = parser.parse_args()
    pmw.kernels.set_threads(1)
    for name, (read_first, read_second, marginals) in YEARS.items():
        first, second = read_first(), read_second()
        workload = pmw.Workload.sample(first.domain, k=3, size=marginals, seed=0)
        runs = [run(first, second, workload, seed) for seed in range(1 if options.smoke else options.seeds)]
        print(f"\n{name}: {first.n:,} and {second.n:,} records, {marginals} three-way marginals")
        print(f"{len(runs)} seeds: largest error, mean L1 (each with its standard error)")
        for line in runs[0]:
            both = np.array([found[line] for found in runs])
            spread = both.std(axis=0, ddof=1) / len(runs) ** 0.5 if len(runs) > 1 else np.zeros(2)
            shown = (
                f"{mean:.4f} ({error:.4f})" for mean, error in zip(both.mean(axis=0), spread, strict=True)
            )
            print(f"  {line:52} {'   '.join(shown)}")


if __name__ == "__main__":
    main()
