"""Real pairs of a private and a public table, as in the papers; read when asked for, through PRIVMW_DATA.

`python benches/pairs.py` prints each with the public set's own largest error, before any private round.

ADULT is split as the authors split it (same seeds, same order of records): nine records of ten are private,
and the public set is a tenth as long as all of them, drawn by sex with replacement, from *all* records. So
public records may be private ones too: an experiment on errors, not a claim of privacy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np
import real_data

import privmw as pmw


@dataclass(frozen=True)
class Pair:
    """A private table to be answered for by re-weighting a public one."""

    name: str
    private: pmw.Table
    public: pmw.Table
    workload: pmw.Workload
    delta: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "delta", 1 / self.private.n**2)

    def start_error(self, workload: pmw.Workload | None = None) -> float:
        """The largest error when the public table answers. Looks at private records: for experiments."""
        asked = self.workload if workload is None else workload
        ours, theirs = self.public.counts(asked), self.private.counts(asked)
        return float(np.abs(ours / self.public.n - theirs / self.private.n).max())


def adult(name: str, bias: float) -> Pair:
    """Women in the public set are drawn with their share of all records plus `bias`."""
    everyone = real_data.adult()
    women = everyone.column("sex") == 0
    rng = np.random.RandomState(0)  # the authors' generator: the draws must be theirs
    rows = []
    for people, share in ((women, women.mean() + bias), (~women, 1 - women.mean() - bias)):
        drawn = rng.choice(int(people.sum()), int(0.1 * everyone.n * share), replace=True)
        rows.append(np.flatnonzero(people)[drawn])
    return Pair(
        name,
        as_private(everyone.take(adult_is_private(everyone.n))),
        everyone.take(np.concatenate(rows)),
        pmw.Workload.all(everyone.domain, k=3),
    )


def adult_is_private(records: int) -> np.ndarray:
    """The authors' coin for each record: 43,944 of 48,813 are private."""
    return np.random.RandomState(0).binomial(1, 0.9, records) == 1


@lru_cache(maxsize=4)
def _state(profile: str, file: str) -> pmw.Table:
    return real_data.acs(profile, [file])


def as_private(table: pmw.Table) -> pmw.Table:
    return pmw.Table(zip(table.domain.names, table.columns, strict=True), table.domain, private=True)


def acs(name: str, private: str, public: str, share: float = 1.0) -> Pair:
    """1,024 random three-way marginals of the 67 attributes; of the public records, a random `share`."""
    theirs = _state("acs67", public)
    if share < 1:
        kept = np.random.RandomState(0).choice(theirs.n, int(share * theirs.n), replace=False)
        theirs = theirs.take(kept)
    return Pair(name, as_private(_state("acs67", private)), theirs, acs_workload(theirs.domain))


def acs_workload(domain: pmw.Domain) -> pmw.Workload:
    everything = pmw.Workload.all(domain, k=3)
    return everything.select(np.random.RandomState(0).choice(len(everything), 1024, replace=False))


def reduced(name: str, private: str, public: str) -> Pair:
    """All 3,003 five-way marginals of 15 attributes; the full domain has 172,032 rows, so MWEM can run."""
    theirs = _state("acs15_reduced", public)
    workload = pmw.Workload.all(theirs.domain, k=5)
    return Pair(name, as_private(_state("acs15_reduced", private)), theirs, workload)


HI_18, HI_15, NM_18 = "acs2018_hi", "acs2015_hi", "acs2018_nm"
NE_18, ND_18, WY_18, DE_18 = "acs2018_ne", "acs2018_nd", "acs2018_wy", "acs2018_de"
SD_18 = "acs2018_sd"

# The papers' states (Pennsylvania from its own past, Ohio, New Jersey) are not here. These have their roles:
# the same state earlier, a state alike, and one unlike.
_MAKERS: dict[str, Callable[[str], Pair]] = {
    "ADULT, women undersampled by 0.3": partial(adult, bias=-0.3),
    "ADULT, women undersampled by 0.1": partial(adult, bias=-0.1),
    "ADULT, unbiased 10 %": partial(adult, bias=0.0),
    "HI-18 from HI-15": partial(acs, private=HI_18, public=HI_15),
    "HI-18 from HI-15, 10 %": partial(acs, private=HI_18, public=HI_15, share=0.1),
    "HI-18 from HI-15, 1 %": partial(acs, private=HI_18, public=HI_15, share=0.01),
    "HI-18 from NM-18": partial(acs, private=HI_18, public=NM_18),
    "NE-18 from ND-18": partial(acs, private=NE_18, public=ND_18),
    "NE-18 from WY-18": partial(acs, private=NE_18, public=WY_18),
    "NE-18 from DE-18": partial(acs, private=NE_18, public=DE_18),
    "NE-18 from NM-18": partial(acs, private=NE_18, public=NM_18),
    "NE-18 from HI-18": partial(acs, private=NE_18, public=HI_18),
    "SD-18 from ND-18": partial(acs, private=SD_18, public=ND_18),
    "WY-18 from HI-18": partial(acs, private=WY_18, public=HI_18),
    "WY-18 from SD-18, 2 %": partial(acs, private=WY_18, public=SD_18, share=0.02),
    "reduced HI-18 from HI-15": partial(reduced, private=HI_18, public=HI_15),
    "reduced NE-18 from ND-18": partial(reduced, private=NE_18, public=ND_18),
    "reduced NE-18 from HI-18": partial(reduced, private=NE_18, public=HI_18),
}
NAMES = tuple(_MAKERS)


def pair(name: str) -> Pair:
    """The pair of that name; real_data.NoDataError says why where it cannot be read."""
    return _MAKERS[name](name)


def pairs(*names: str) -> Iterator[Pair]:
    """The named pairs, or all, each read only when its turn comes."""
    return map(pair, names or NAMES)


def main() -> None:
    print("pair, private n, public records, distinct, marginals, cells; largest error: workload, three-way")
    for each in pairs():
        distinct = pmw.Support.from_table(each.public).size
        three_way = each.start_error(pmw.Workload.all(each.private.domain, k=3))
        print(
            f"{each.name}: n {each.private.n:,}, public {each.public.n:,} ({distinct:,} distinct), "
            f"{len(each.workload):,} marginals, {each.workload.cells:,} cells; "
            f"{each.start_error():.4f}, {three_way:.4f}"
        )


if __name__ == "__main__":
    main()
