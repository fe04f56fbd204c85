"""Synthetic records take the values of one public record with the same codes, or of a near one."""

import datetime

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

import privmw as pmw  # noqa: E402
import privmw.io.public_records  # noqa: E402
from privmw.io.public_records import PublicRecords  # noqa: E402
from privmw.io.public_source import PublicSource  # noqa: E402

DOMAIN = pmw.Domain(
    {
        "sex": ["F", "M"],
        "age": {"edges": [0, 18, 65, 99]},
        "wage": {"edges": [0, 1, 20_000, 60_000, 10**6]},
        "income": {"edges": [0, 1, 20_000, 60_000, 10**6]},
        "job": {"labels": ["clerk", "nurse"], "other": "other"},
    }
)


def people(n, seed=0):
    """Records of which no wage exceeds the income, and no child has a wage."""
    rng = np.random.default_rng(seed)
    age = rng.integers(0, 100, n)
    wage = np.where((age >= 18) & (rng.random(n) < 0.8), rng.integers(1, 90_000, n), 0)
    income = wage + np.where((age >= 18) & (rng.random(n) < 0.5), rng.integers(1, 30_000, n), 0)
    return pa.table(
        {
            "sex": np.array(["F", "M"])[rng.integers(0, 2, n)],
            "age": age,
            "wage": wage,
            "income": income,
            "job": np.array(["clerk", "nurse", "smith", "monk"])[rng.integers(0, 4, n)],
        }
    )


def drawn(table, public, seed=0):
    return table.to_frame(bins="draw", public=public, seed=seed)


def test_all_values_of_a_record_come_from_one_public_record_with_its_codes():
    public = people(3_000)
    table = pmw.Table.from_frame(public, DOMAIN, private=False)
    many = table.take(np.random.default_rng(1).integers(0, table.n, 20_000))
    records = drawn(many, public)
    assert set(map(tuple, zip(*records.to_pydict().values(), strict=True))) <= set(
        map(tuple, zip(*public.to_pydict().values(), strict=True))
    )
    assert pmw.Table.from_frame(records, DOMAIN, private=False) == many
    assert set(records.column("job").to_pylist()) == {"clerk", "nurse", "smith", "monk"}


def test_each_public_record_with_the_codes_is_drawn_equally_often():
    public = people(4_000)
    table = pmw.Table.from_frame(public, DOMAIN, private=False)
    codes = table.codes()
    row = codes[np.argmax((codes[:, 0] == 1) & (codes[:, 2] == 3))]
    alike = np.flatnonzero((codes == row).all(axis=1))
    assert len(alike) > 20
    n = 200 * len(alike)
    records = drawn(pmw.Table.from_codes(np.tile(row, (n, 1)), DOMAIN, private=False), public, seed=5)
    wages = np.array(records.column("wage").to_pylist())
    values, counts = np.unique(np.array(public.column("wage"))[alike], return_counts=True)
    observed = np.array([(wages == value).sum() for value in values])
    expected = 200 * counts
    # Chi-squared, 6 standard deviations: drawing half of the records twice as often gives hundreds of them.
    assert ((observed - expected) ** 2 / expected).sum() < len(values) + 6 * np.sqrt(2 * len(values))


def test_a_record_without_such_a_public_record_takes_the_values_of_a_near_one():
    public = people(4_000)
    table = pmw.Table.from_frame(public, DOMAIN, private=False)
    lacking = public.filter(pa.array(np.array(public.column("sex").to_pylist()) == "F"))
    men = table.take(np.flatnonzero(table.column("sex") == 1))
    records = drawn(men, lacking)
    assert pmw.Table.from_frame(records, DOMAIN, private=False) == men
    wage, income = (np.array(records.column(name).to_pylist()) for name in ("wage", "income"))
    together = set(zip(*(lacking.column(name).to_pylist() for name in ("wage", "income")), strict=True))
    own = [pair in together for pair in zip(wage.tolist(), income.tolist(), strict=True)]
    assert np.mean(own) > 0.99  # sex tells nothing of the bins
    assert np.mean(wage > income) < 0.002
    apart = np.array([drawn(men, lacking, seed).column("wage").to_pylist() for seed in (1, 2)])
    assert np.mean(apart[0] > income) > 0.05  # the test would notice values drawn one by one


def test_values_of_bins_that_no_public_record_has_together_are_still_those_of_the_bins():
    public = people(500)
    rng = np.random.default_rng(3)
    codes = np.column_stack([rng.integers(0, size, 5_000) for size in DOMAIN.sizes])
    table = pmw.Table.from_codes(codes, DOMAIN, private=False)
    records = drawn(table, public)
    assert pmw.Table.from_frame(records, DOMAIN, private=False) == table
    for name in ("age", "wage", "income", "job"):
        assert set(records.column(name).to_pylist()) <= set(public.column(name).to_pylist())


def test_the_nearest_of_all_public_records_is_taken_where_they_are_few():
    domain = pmw.Domain(dict.fromkeys("abc", 3) | {"x": {"edges": [0, 10, 20]}})
    rng = np.random.default_rng(4)
    codes = np.column_stack([rng.integers(0, size, 40) for size in domain.sizes])
    source = pa.table({name: codes[:, place] for place, name in enumerate("abc")} | {"x": 10 * codes[:, 3]})
    public = PublicRecords([PublicSource(source)], domain)
    every = np.array(np.meshgrid(*map(range, domain.sizes))).reshape(4, -1).T
    donors = public.donors(pmw.Table.from_codes(every, domain, private=False), np.random.default_rng(0))
    weights = public._mutual_information()["x"]
    assert weights[3] == weights.max()
    scores = ((codes[None] == every[:, None]) * weights.astype(np.float32)).sum(axis=2)
    taken = scores[np.arange(len(every)), donors.rows]
    assert (taken >= scores.max(axis=1) - 1e-5).all()


def test_drawn_values_do_not_depend_on_batches(monkeypatch, tmp_path):
    monkeypatch.setattr(privmw.io.output, "OUTPUT_BATCH_ROWS", 17)
    public, table = people(200), pmw.Table.from_frame(people(300, seed=9), DOMAIN, private=False)
    table.write(tmp_path / "x.feather", bins="draw", public=public, seed=3)
    from pyarrow import feather

    assert feather.read_table(tmp_path / "x.feather").to_pydict() == drawn(table, public, 3).to_pydict()


def test_several_public_files_are_one_and_may_lack_columns(tmp_path):
    from pyarrow import parquet

    public = people(600)
    parquet.write_table(public.slice(0, 300), tmp_path / "a.parquet")
    parquet.write_table(public.slice(300).drop_columns(["job", "wage"]), tmp_path / "b.parquet")
    table = pmw.Table.from_frame(public, DOMAIN, private=False)
    records = drawn(table, [tmp_path / "a.parquet", tmp_path / "b.parquet"])
    assert pmw.Table.from_frame(records, DOMAIN, private=False) == table
    assert set(records.column("income").to_pylist()) <= set(public.column("income").to_pylist())
    assert set(records.column("job").to_pylist()) == {"clerk", "nurse", "other"}  # not in both files
    wages = np.array(records.column("wage").to_pylist())
    assert (wages[np.array(public.column("wage")) == 0] == 0).all()


def test_rows_with_equal_hashes_are_told_apart(monkeypatch):
    def colliding(columns):
        return np.zeros(len(columns[0]), np.uint64)

    monkeypatch.setattr(privmw.io.public_records, "row_hashes", colliding)
    public = people(300)
    table = pmw.Table.from_frame(public, DOMAIN, private=False)
    assert pmw.Table.from_frame(drawn(table, public), DOMAIN, private=False) == table


def test_spread_values_are_whole_where_edges_are_and_zero_stays_zero():
    domain = pmw.Domain(
        {
            "age": {"edges": [0, 1, 18, 99], "open": True},
            "rate": {"edges": [0, 0.01, 1.5]},
            "born": {"edges": ["1950-01-01", "2000-01-01"]},
        }
    )
    codes = np.repeat([[0, 0, 0], [1, 1, 0], [2, 1, 0]], 4_000, axis=0)
    table = pmw.Table.from_codes(codes, domain, private=False)
    frame = table.to_frame(bins="spread", seed=1)
    age, rate, born = (np.array(column.to_pylist()) for column in frame.columns)
    assert frame.schema.types == [pa.int64(), pa.float64(), pa.date32()]
    assert set(age[:4_000]) == {0}
    assert set(age[4_000:8_000]) == set(range(1, 18))
    assert set(age[8_000:]) == set(range(18, 100))
    assert set(rate[:4_000]) == {0}
    assert set(rate[4_000:]) == {round(cents / 100, 2) for cents in range(1, 151)}
    assert born.min() >= datetime.date(1950, 1, 1)
    assert born.max() <= datetime.date(2000, 1, 1)
    assert len(set(born)) > 5_000
    assert pmw.Table.from_frame(frame, domain, private=False) == table


def test_words_for_missing_values_come_back_as_the_public_records_have_them():
    pandas = pytest.importorskip("pandas")
    public = pandas.DataFrame({"job": ["a", "?", "b", "a"] * 5, "home": ["a", None, "b", "a"] * 5})
    domain = pmw.Domain.from_public(public)
    records = pmw.Table.from_frame(public, domain, private=False).to_frame(bins="draw", public=public, seed=0)
    assert records["job"].tolist() == public["job"].tolist()
    assert records["home"].isna().tolist() == public["home"].isna().tolist()
