"""Public records that are private ones are refused however a release is made, by whole raw records.

The domain is coarse on purpose: by codes alone a part of a table cannot be told from another sample.
"""

import os
import warnings
from pathlib import Path

import numpy as np
import pytest

import privmw as pmw
from extensions.cluster.thread_ranks import run_ranks
from marks.slow import slow, slow_among
from privmw.accounting import Budget
from privmw.curator import overlap
from privmw.curator.overlap import shares_records
from privmw.extensions.cluster.sharded_records import ShardedRecords
from privmw.extensions.cluster.sharded_support import ShardedSupport
from privmw.extensions.engines import Counts

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

DOMAIN = pmw.Domain(
    {
        "age": {"edges": [0, 18, 65, 120]},
        "sex": ["F", "M"],
        "work": {"labels": ["office", "farm"], "other": "other"},
    }
)
WORKLOAD = pmw.Workload.all(DOMAIN, k=1)
FAST = pmw.MWPub(rounds=1)


def people(n, seed):
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "age": rng.integers(0, 100, n),
            "sex": rng.choice(["F", "M"], n),
            "work": rng.choice(["office", "farm", "sea", "mine"], n),
            "income": rng.normal(3e4, 1e4, n).round(2),
            "street": [f"Street {number}" for number in rng.integers(0, 500, n)],
            "born": pandas.Timestamp("2000-01-01") - pandas.to_timedelta(rng.integers(0, 9000, n), "D"),
        }
    )


def table_of(frame, *, private=False):
    return pmw.Table.from_frame(frame, DOMAIN, private=private, missing_ok=not private)


def support_of(frame):
    return pmw.Support.from_table(table_of(frame), domain=DOMAIN)


def found(private, public):
    return shares_records(table_of(private, private=True), support_of(public))


PARTS = {
    "a copy": lambda frame: frame.copy(),
    "another order": lambda frame: frame.sample(frac=1, random_state=1),
    "a part": lambda frame: frame.sample(300, random_state=1),
    "other columns first": lambda frame: frame[frame.columns[::-1]].sample(300, random_state=1),
    "without a column": lambda frame: frame.drop(columns="street").sample(300, random_state=1),
    "without a column of the domain": lambda frame: frame.drop(columns="age").sample(300, random_state=1),
    "with a column more": lambda frame: frame.assign(number=range(len(frame))).sample(300, random_state=1),
    "twice": lambda frame: pandas.concat([frame.sample(300, random_state=1)] * 2),
    "among others": lambda frame: pandas.concat([frame.sample(300, random_state=1), people(3_000, 9)]),
}


@pytest.mark.parametrize("how", PARTS)
def test_a_part_of_the_private_frame_is_found_by_its_whole_records(how, monkeypatch):
    private = people(5_000, 1)
    assert found(private, PARTS[how](private))
    assert not found(private, PARTS[how](people(5_000, 2)))
    monkeypatch.setattr(pmw.Table, "trace_names", ())  # by codes alone a part is as another sample
    assert found(private, PARTS[how](private)) == (how in ("a copy", "another order"))


def test_values_are_compared_however_they_are_stored(tmp_path):
    private = people(3_000, 1)
    public = private.sample(300, random_state=1)
    public.to_csv(tmp_path / "public.csv", index=False)
    public.assign(age=public.age.astype(float), sex=public.sex.astype("category")).to_parquet(
        tmp_path / "public.parquet"
    )
    for name in ("public.csv", "public.parquet"):
        for read in (pmw.read_table, pmw.scan_table):
            support = pmw.Support.from_table(read(tmp_path / name, DOMAIN, private=False))
            assert shares_records(table_of(private, private=True), support), (name, read)
    private.to_csv(tmp_path / "private.csv", index=False)
    scan = pmw.scan_table(tmp_path / "private.csv", DOMAIN, private=True)
    assert shares_records(scan, support)
    assert not shares_records(scan, support_of(people(300, 2)))


def test_every_release_refuses_them_before_anything_is_spent(tmp_path):
    private, public = table_of(people(3_000, 1), private=True), support_of(people(3_000, 1)[:300])
    account = pmw.Account.create(tmp_path / "account", Budget.zcdp(1))
    budget = {"epsilon": 0.01, "delta": 1e-9}
    releases = [
        (pmw.release_auto, budget),
        (pmw.PEP(rounds=1).release, budget),
        (FAST.calibrate(**budget), {}),
    ]
    for release, options in releases:
        given = {**options, "rng": 1}
        with pytest.raises(ValueError, match="public records must not be private ones") as refusal:
            release(private, public, WORKLOAD, account=account, **given)
        assert not any(letter.isdigit() for letter in str(refusal.value))
        assert account.runs == ()
        assert release(private, public, WORKLOAD, public_is_public=True, **given).n == 3_000
    with pytest.raises(TypeError, match="public_is_public"):
        pmw.release_auto(private, public, WORKLOAD, epsilon=1, public_is_public="yes")


def test_rows_that_are_no_public_records_are_never_refused():
    domain = pmw.Domain({"a": 8, "b": 6})
    private = pmw.Table.from_codes([[a, b] for a in range(8) for b in range(6)], domain, private=True)
    workload = pmw.Workload.all(domain, k=1)
    full = pmw.Support.full(domain)
    release = pmw.MWPub(rounds=1).release(private, full, workload, epsilon=1, rng=1)
    assert shares_records(private, pmw.Support(full.table, full.counts))  # as public records they would be
    assert release.as_public().samples == ()
    pmw.MWEM(rounds=1).release(private, full, workload, epsilon=1, rng=1)
    pmw.release_auto(private, None, workload, epsilon=1, rng=1)


def test_further_rows_and_several_tables_keep_what_is_compared():
    private, others = people(3_000, 1), people(3_000, 2)
    table, part = table_of(private, private=True), support_of(private[:300])
    both = pmw.Support.from_tables([support_of(others), part])
    assert not shares_records(table, support_of(others))
    for support in (both, both.with_block_weights([1, 2]), both.widened(), part.widened()):
        assert shares_records(table, support)
        assert shares_records(table, support.with_rows([[0, 0, 0]]).support)


def test_counts_without_records_say_that_they_were_not_compared():
    private, support = table_of(people(3_000, 1), private=True), support_of(people(300, 1))
    counts = Counts.from_records(private, WORKLOAD)
    with pytest.warns(UserWarning, match="holds no records: they were not compared with the public ones"):
        pmw.MWPub(rounds=1).release(counts, support, WORKLOAD, epsilon=1, rng=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        pmw.MWPub(rounds=1).release(counts, support, WORKLOAD, epsilon=1, rng=1, public_is_public=True)
        pmw.MWEM(rounds=1).release(counts, pmw.Support.full(DOMAIN), WORKLOAD, epsilon=1, rng=1)


def test_ids_of_units_leave_no_trace(tmp_path):
    frame = people(500, 1).assign(household=range(500))
    frame.to_parquet(tmp_path / "private.parquet")
    capped = {"private": True, "unit": "household", "at_most": 2}
    with_ids = table_of(frame, private=True).trace_names
    for table in (
        pmw.Table.from_frame(frame, DOMAIN, **capped),
        pmw.read_table(tmp_path / "private.parquet", DOMAIN, **capped),
        pmw.scan_table(tmp_path / "private.parquet", DOMAIN, **capped),
    ):
        assert len(table.trace_names) == len(with_ids) - 1


@pytest.mark.parametrize("entries", [["F"], ["F", "M", "x", "y"]])
def test_an_index_beyond_its_dictionary_outside_the_domain_leaves_no_trace(entries):
    arrow = pytest.importorskip("pyarrow")
    indices = arrow.array([0, 2**20, None], arrow.int32())
    column = arrow.DictionaryArray.from_arrays(indices, arrow.array(entries), safe=False)
    frame = arrow.table({"a": [0, 1, 1], "outside": column})
    table = pmw.Table.from_frame(frame, pmw.Domain({"a": 2}), private=True)
    assert [trace.tolist() for trace in table.traces.values()] == [[0, 0, 0]]


def test_a_sample_of_many_public_records_is_enough(monkeypatch):
    from privmw.data import make_support

    monkeypatch.setattr(make_support.Sampler.__init__, "__defaults__", (1_000,))
    private = people(5_000, 1)
    support = support_of(pandas.concat([people(4_000, 3), private.sample(2_000, random_state=1)]))
    assert support.samples[0].table.n == 750
    assert shares_records(table_of(private, private=True), support)
    assert shares_records(table_of(private, private=True), support_of(private))
    assert not shares_records(table_of(private, private=True), support_of(people(6_000, 4)))


@pytest.mark.parametrize("size", [1, 3])
def test_whole_records_of_several_ranks_are_compared_on_rank_0(size):
    private, others = people(3_000, 1), people(3_000, 2)

    def run(comm):
        verdicts = []
        for public in (private.sample(300, random_state=1), others):
            part = table_of(public).take(np.arange(comm.rank, len(public), comm.size))
            support = ShardedSupport.from_table(ShardedRecords(part, comm))
            shares = ShardedSupport.of(support_of(public), comm)
            mine = table_of(private, private=True)
            sharded = ShardedRecords(mine.take(np.arange(comm.rank, mine.n, comm.size)), comm)
            for each in (support, shares):
                verdicts.append(shares_records(mine if comm.rank == 0 else None, each))
                verdicts.append(shares_records(sharded, each))
        return verdicts

    results = run_ranks(size, run)
    assert results[0] == [True] * 4 + [False] * 4
    assert not any(map(any, results[1:]))


def survey(name):
    if "PRIVMW_DATA" not in os.environ:
        pytest.skip("PRIVMW_DATA is not set")
    return pandas.read_parquet(Path(os.environ["PRIVMW_DATA"]) / "acs_pums" / f"{name}.parquet")


STATE_DOMAIN = pmw.Domain({"AGEP": {"edges": [0, 18, 65, 120]}, "SEX": [1, 2], "DEYE": [1, 2]})
STATE_PARTS = {
    "a copy": lambda frame: frame.copy(),
    "another order": lambda frame: frame.sample(frac=1, random_state=1),
    "300 records": lambda frame: frame.sample(300, random_state=1),
    "2,000 records": lambda frame: frame.sample(2_000, random_state=1),
    "4,000 records": lambda frame: frame.sample(4_000, random_state=1),
    "a copy without a column": lambda frame: frame.drop(columns="AGEP"),
    "300 records without a column": lambda frame: frame.drop(columns="COW").sample(300, random_state=2),
    "a copy with reordered columns": lambda frame: frame[frame.columns[::-1]],
}


def by_command(private, public, folder, suffix):
    from cli.cases import release_line
    from privmw.cli import main

    STATE_DOMAIN.write(folder / "domain.json")
    for name, frame in {"private": private, "public": public}.items():
        path = folder / f"{name}.{suffix}"
        frame.to_parquet(path) if suffix == "parquet" else frame.to_csv(path, index=False)
    files = {name: folder / f"{name}.{suffix}" for name in ("private", "public")}
    line = release_line(**files, domain=folder / "domain.json", output=folder / "out", marginals=1, seed=1)
    return main([*line, "--quiet", "--force"])


def by_csv(private, public, folder, capsys):
    return by_command(private, public, folder, "csv") == 2 and "holds records of" in capsys.readouterr().err


def by_parquet(private, public, folder, capsys):
    refused = by_command(private, public, folder, "parquet") == 2
    return refused and "holds records of" in capsys.readouterr().err


def refused(make):
    try:
        make()
    except ValueError as error:
        return "public records must not be private ones" in str(error)
    return False


def by_synthesizer(private, public, folder, capsys):
    synthesizer = pmw.Synthesizer(epsilon=0.01, marginals=1, domain=STATE_DOMAIN, rng=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "private frame: left out")
        return refused(lambda: synthesizer.fit(private, public=public))


def released(private, public):
    support = pmw.Support.from_table(public, domain=STATE_DOMAIN)
    workload = pmw.Workload.all(STATE_DOMAIN, k=1)
    return refused(lambda: pmw.release_auto(private, support, workload, epsilon=0.01, rng=1))


def by_frames(private, public, folder, capsys):
    return released(
        pmw.Table.from_frame(private, STATE_DOMAIN, private=True),
        pmw.Table.from_frame(public, STATE_DOMAIN, private=False, missing_ok=True),
    )


def by_tables(private, public, folder, capsys):
    private.to_csv(folder / "private.csv", index=False)
    public.to_parquet(folder / "public.parquet")
    return released(
        pmw.read_table(folder / "private.csv", STATE_DOMAIN, private=True),
        pmw.read_table(folder / "public.parquet", STATE_DOMAIN, private=False, missing_ok=True),
    )


WAYS = [by_csv, by_parquet, by_synthesizer, by_frames, by_tables]


@pytest.mark.parametrize("way", slow_among(WAYS, [by_csv, by_parquet]))
@pytest.mark.parametrize("how", slow_among(STATE_PARTS, list(STATE_PARTS)[3:]))
def test_records_of_a_state_are_refused_in_every_way(how, way, tmp_path, capsys):
    state = survey("acs2018_hi").sample(13_780, random_state=1)
    assert way(state, STATE_PARTS[how](state), tmp_path, capsys)


@pytest.mark.parametrize("way", slow_among(WAYS, [by_csv, by_parquet]))
def test_the_other_half_of_a_state_is_accepted_in_every_way(way, tmp_path, capsys):
    state = survey("acs2018_hi").sample(frac=1, random_state=1)
    assert not way(state[:7_200], state[7_200:], tmp_path, capsys)


@pytest.mark.parametrize("draws", [3, *slow(40)])
def test_few_columns_of_two_states_years_or_halves_are_accepted(draws):
    hawaii, before, nebraska = map(survey, ("acs2018_hi", "acs2015_hi", "acs2018_ne"))
    pairs = [(nebraska, hawaii), (hawaii, nebraska), (hawaii, before), (hawaii[::2], hawaii[1::2])]
    rng = np.random.default_rng(1)
    columns = [str(name) for name in hawaii.columns if 1 < hawaii[name].nunique() < 40]
    chosen = [["MSP", "RACNH", "OC", "QTRBIR"]]  # many Hawaiians match the few of Nebraska
    chosen += [rng.choice(columns, rng.integers(3, 9), replace=False).tolist() for _ in range(draws)]
    for names in chosen:
        values = pandas.concat([hawaii, before, nebraska])[names]
        domain = pmw.Domain({name: sorted(values[name].unique().tolist()) for name in names})
        for private, public in pairs:
            table = pmw.Table.from_frame(private[names], domain, private=True)
            public_table = pmw.Table.from_frame(public[names], domain, private=False)
            assert not shares_records(table, pmw.Support.from_table(public_table)), names


def test_two_populations_need_a_bound_of_their_own(monkeypatch):
    # Each of 500,000 rows has .05 private records and 1 public one: 9,000 matches, by chance.
    rng = np.random.default_rng(1)
    domain = pmw.Domain({"a": 1000, "b": 500})

    def table(n, private):
        codes = rng.integers(0, 500_000, n)
        return pmw.Table({"a": codes // 500, "b": codes % 500}, domain, private=private)

    private = table(25_000, True)
    others = rng.integers(0, 2, 475_000)
    zeros = {"a": np.zeros(475_000, int), "b": others}
    private = pmw.Table(
        {name: np.concatenate([private.column(name), zeros[name]]) for name in "ab"}, domain, private=True
    )
    support = pmw.Support.from_table(table(200_000, False))
    assert not shares_records(private, support)
    monkeypatch.setattr(overlap, "_upper_bound", lambda pairs: 0.0)
    assert shares_records(private, support)
