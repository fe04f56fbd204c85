"""Relations between values hold in every record that is drawn, whatever the codes are."""

import datetime

import numpy as np
import pytest

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

import privmw as pmw  # noqa: E402

RNG = np.random.default_rng(5)
N = 600
WAGE = RNG.integers(0, 100, N) * (RNG.random(N) < 0.7)
REST = RNG.integers(0, 60, N)
BORN = np.array([datetime.date(1950, 1, 1) + datetime.timedelta(int(d)) for d in RNG.integers(0, 9000, N)])
LATER = np.array(
    [day + datetime.timedelta(int(d)) for day, d in zip(BORN, RNG.integers(0, 9000, N), strict=True)]
)
PUBLIC = pandas.DataFrame(
    {"wage": WAGE, "rest": REST, "income": WAGE + REST, "copy": WAGE, "born": BORN, "later": LATER}
)
EDGES = {
    "wage": {"edges": [0, 1, 20, 50, 100], "missing": "N"},
    "rest": {"edges": [0, 20, 60], "missing": "N"},
    "income": {"edges": [0, 1, 40, 80, 160], "missing": "N"},
    "copy": {"edges": [0, 1, 20, 50, 100]},
    "born": {"edges": ["1950-01-01", "1960-01-01", "1980-01-01"]},
    "later": {"edges": ["1950-01-01", "1970-01-01", "2000-01-01"]},
}
DOMAIN = pmw.Domain(EDGES)
RULES = {
    "$note": "proposed",
    "order": [{"attributes": ["wage", "income"], "$support": "600"}, {"attributes": ["born", "later"]}],
    "equal": [{"attributes": ["wage", "copy"]}],
    "sum": [{"attributes": ["wage", "rest", "income"]}],
}
CONSTRAINTS = pmw.Constraints(RULES, DOMAIN)


def broken(frame):
    wrong = frame["wage"] > frame["income"]
    wrong |= frame["wage"].notna() & (frame["wage"] != frame["copy"])
    wrong |= pandas.to_datetime(frame["born"]) > pandas.to_datetime(frame["later"])
    return wrong | (frame["wage"] + frame["rest"] - frame["income"]).abs().gt(1e-9)


def random_codes(n=2000, seed=1):
    codes = np.random.default_rng(seed).integers(0, [a.size for a in DOMAIN.attributes], (n, 6))
    return codes[CONSTRAINTS.allows(codes)]


@pytest.mark.parametrize("bins", ["draw", "spread"])
def test_relations_hold_in_every_record(bins):
    table = pmw.Table.from_codes(random_codes(), DOMAIN, private=False)
    public = PUBLIC if bins == "draw" else None
    free = table.to_frame("pandas", bins=bins, public=public, seed=2)
    kept = table.keeping(CONSTRAINTS).to_frame("pandas", bins=bins, public=public, seed=2)
    assert broken(free).mean() > 0.2
    assert broken(kept).sum() == 0
    assert len(kept) == table.n
    again = pmw.Table.from_frame(kept, DOMAIN, private=False)
    unmoved = (again.codes() == table.codes()).all(axis=1).mean()
    assert unmoved > (0.5 if bins == "draw" else 0.3)


def test_records_with_the_codes_of_a_public_record_take_its_values_together():
    table = pmw.Table.from_frame(PUBLIC, DOMAIN, private=False).keeping(CONSTRAINTS)
    records = table.to_frame("pandas", bins="draw", public=PUBLIC, seed=2)
    assert broken(records).sum() == 0
    columns = ["wage", "rest", "income"]
    real = set(map(tuple, PUBLIC[columns].to_numpy()))
    assert set(map(tuple, records[columns].to_numpy())) <= real


def test_files_keep_relations_too(tmp_path):
    PUBLIC.to_csv(tmp_path / "public.csv", index=False)
    table = pmw.Table.from_codes(random_codes(), DOMAIN, private=False).keeping(CONSTRAINTS)
    table.write(tmp_path / "out.csv", bins="draw", public=str(tmp_path / "public.csv"), seed=3)
    assert broken(pandas.read_csv(tmp_path / "out.csv")).sum() == 0


def test_codes_that_no_values_can_keep_are_excluded():
    excluded = CONSTRAINTS.excluded([0, 3])
    assert not excluded[:4].diagonal().any()
    assert excluded[:4].sum() == 12  # of other bins; missing wages exclude nothing
    assert not excluded[4].any()
    support = pmw.Support.full(DOMAIN, CONSTRAINTS)
    assert CONSTRAINTS.mask(support.table).all()
    assert support.size < DOMAIN.size


def test_a_table_that_cannot_keep_its_constraints_is_refused():
    codes = [[3, 0, 1, 0, 0, 0]]  # a wage above the income
    table = pmw.Table.from_codes(codes, DOMAIN, private=False).keeping(CONSTRAINTS)
    with pytest.raises(ValueError, match="constraints must be kept by a record: none of the records can"):
        table.to_frame("pandas", bins="spread", seed=0)


@pytest.mark.parametrize(
    ("rules", "error"),
    [
        ({"order": [{"attributes": ["wage"]}]}, "attributes must be two attributes"),
        ({"sum": [{"attributes": ["wage", "income"]}]}, "attributes must be three or more attributes"),
        ({"equal": [{"attributes": ["wage", "born"]}]}, "must all be numbers, or all dates"),
        ({"sum": [{"attributes": ["born", "later", "born"]}]}, "must be three or more"),
        ({"order": [{"attributes": ["wage", "incom"]}]}, "incom"),
        (
            {"order": [{"attributes": ["wage", "income"], "margin": -1}]},
            "margin \\(-1.*\\) must not be negative",
        ),
        ({"orders": []}, "keys of rules must be invalid, valid, order, equal or sum"),
    ],
)
def test_a_relation_that_means_nothing_is_refused(rules, error):
    with pytest.raises((ValueError, TypeError, KeyError), match=error):
        pmw.Constraints(rules, DOMAIN)


def test_relations_survive_their_file():
    assert pmw.Constraints.read is not None
    text = CONSTRAINTS.to_json()
    assert '"order"' in text
    assert len(CONSTRAINTS) == 4
    import pickle

    assert pickle.loads(pickle.dumps(CONSTRAINTS)) == CONSTRAINTS
