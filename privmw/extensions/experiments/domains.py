"""The domains of the data sets: what their publishers and the papers' authors say, not what records hold."""

from functools import lru_cache
from importlib.resources import files

from privmw.data.domain import Domain
from privmw.secrecy import expect, shown

_FILES = {
    "adult": "adult.json",
    "acs67": "survey.json",
    "acs15_reduced": "survey.json",
    "loans": "loans.json",
}
# The papers' reduced survey: few enough records are possible for MWEM on all of them.
_REDUCED = (
    "DEYE", "DEAR", "ESR", "PRIVCOV", "HINS4", "HINS3", "RACAIAN", "RACASN", "RACBLK", "RACSOR",
    "RACPI", "RACWHT", "SEX", "DREM", "HINS1",
)  # fmt: skip


def domain(name: str) -> Domain:
    """The domain of a data set: "adult", "acs67", "acs15_reduced" or "loans".

    adult: 13 attributes, with the bins and the order of codes of the authors of MW-Pub. acs67 and
    acs15_reduced: the codes of the survey's dictionary in its order, -1 first where a question does not apply
    to everybody. loans: sizes alone, as its publisher gives no labels.

    >>> domain("adult")["capital-gain"].label(5), domain("acs67")["AGEP10"].label(9)
    ('[0, 1)', '[90, 120]')
    >>> domain("acs15_reduced").size
    172032
    """
    expect("name", name, str, "a string")
    if name not in _FILES:
        raise ValueError(f"name ({shown(name)}) must be one of {', '.join(_FILES)}")
    return _read(name)


@lru_cache(maxsize=len(_FILES))
def _read(name: str) -> Domain:
    path = files("privmw.extensions.experiments").joinpath(_FILES[name])
    whole = Domain.from_json(path.read_text(encoding="utf-8"))
    return whole.project(_REDUCED) if name == "acs15_reduced" else whole
