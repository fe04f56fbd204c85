"""Labels in, frames out: `Release.answer`, `marginal`, `answers_frame`, and the kind of frame."""

import pickle

import numpy as np
import pytest

import privmw as pmw

pytest.importorskip("pyarrow")
pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pytest.importorskip("narwhals")

DOMAIN = pmw.Domain(
    {
        "age": {"edges": [0, 18, 65, 100], "missing": "unknown"},
        "sex": ["F", "M"],
        "rooms": {"labels": [1, 2, 5], "other": "more"},
        "answer": 2,
    }
)
WORKLOAD = pmw.Workload.all(DOMAIN, k=2)


def people(n, seed):
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(0, 90, n)),
            "sex": rng.choice(["F", "M"], n, p=[0.6, 0.4]),
            "rooms": rng.choice([1, 2, 5, 9], n),
            "answer": rng.integers(0, 2, n),
        }
    )


def released(private=None, public=None, **options):
    private = people(4000, 1) if private is None else private
    public = people(500, 2) if public is None else public
    table = pmw.Table.from_frame(private, DOMAIN, private=True)
    support = pmw.Support.from_table(pmw.Table.from_frame(public, DOMAIN, private=False))
    return pmw.PEP(select="all", **options).calibrate(rho=0.1)(table, support, WORKLOAD, rng=0)


@pytest.fixture(scope="module")
def release():
    return released()


def test_a_marginal_is_a_frame_with_a_row_for_each_cell(release):
    frame = release.marginal("sex", "age")
    assert list(frame.columns) == ["sex", "age", "answer", "standard_error", "low", "high", "represented"]
    assert len(frame) == 8
    assert frame["age"].cat.categories.tolist() == ["[0, 18)", "[18, 65)", "[65, 100]", "unknown"]
    answers = release.answers(pmw.Workload(DOMAIN, [("age", "sex")]))
    by_labels = frame.set_index(["age", "sex"])["answer"]
    for cell in range(8):
        names, codes = pmw.Workload(DOMAIN, [("age", "sex")]).query(cell)
        labels = tuple(DOMAIN[name].label(code) for name, code in zip(names, codes, strict=True))
        assert by_labels[labels] == answers[cell]


def test_standard_errors_are_those_of_the_intervals(release):
    intervals = release.intervals(0.9, workload=pmw.Workload(DOMAIN, [("age", "sex")]))
    frame = release.marginal("age", "sex", level=0.9)
    assert np.array_equal(frame["standard_error"], intervals.standard_errors, equal_nan=True)
    assert np.array_equal(frame["high"], intervals.high)
    inside = (intervals.low > 0) & (intervals.high < 1)
    assert inside.sum() >= 4
    reach = (intervals.high - intervals.answers)[inside] / intervals.standard_errors[inside]
    assert reach == pytest.approx(np.full(inside.sum(), reach[0]))
    assert 1.6 < reach[0] < 1.75


def test_answers_below_one_record_have_no_standard_error():
    public = people(500, 2).query("age < 65")  # no row can answer for the old
    found = released(public=public).marginal("age")
    old = found[found["age"] == "[65, 100]"].iloc[0]
    assert old["answer"] == 0
    assert np.isnan(old["standard_error"])
    assert old["high"] > 0.1
    assert not old["represented"]


def test_an_answer_by_labels_is_a_cell_of_its_marginal(release):
    frame = release.answer(age=37, sex="F")
    assert list(frame.columns) == ["age", "sex", "answer", "standard_error", "low", "high"]
    marginal = release.marginal("age", "sex").set_index(["age", "sex"]).loc[("[18, 65)", "F")]
    row = frame.iloc[0]
    assert (row["age"], row["sex"]) == ("[18, 65)", "F")
    assert row["answer"] == pytest.approx(marginal["answer"], abs=1e-15)
    assert row["standard_error"] == marginal["standard_error"]
    assert row["answer"] == release.answer(["age", "sex"], [1, 0])
    assert release.answer(age=None).iloc[0]["age"] == "unknown"
    assert release.answer(rooms=7).iloc[0]["rooms"] == "more"


def test_an_attribute_may_have_the_name_of_a_figure(release):
    frame = release.marginal("answer", level=None)
    assert list(frame.columns) == ["answer", "answer_"]
    assert frame["answer"].tolist() == [0, 1]
    assert frame["answer_"].sum() == pytest.approx(1)


def test_the_frame_of_all_answers_is_that_of_the_files(release, tmp_path):
    pq = pytest.importorskip("pyarrow.parquet")
    from privmw.release.cells import write_answers

    frame = release.answers_frame(kind="pyarrow")
    write_answers(release, tmp_path / "answers.parquet", intervals=release.intervals())
    written = pq.read_table(tmp_path / "answers.parquet").cast(frame.schema)
    assert frame.equals(written.replace_schema_metadata(None))
    assert release.answers_frame(pmw.Workload(DOMAIN, [("sex",)]), level=None)["value_1"].tolist() == [
        "F",
        "M",
    ]


def test_what_has_no_interval_has_an_answer():
    table = pmw.Table.from_frame(people(1000, 1), DOMAIN, private=True)
    release = pmw.MWEM(rounds=2).release(table, None, WORKLOAD, epsilon=1.0, rng=0)
    frame = release.marginal("sex")
    assert frame["answer"].sum() == pytest.approx(1)
    assert frame[["standard_error", "low", "high"]].isna().all(axis=None)
    assert release.answer(sex="M")["low"].isna().all()


def test_frames_come_out_as_they_came_in(release):
    import pyarrow as pa

    kinds = {
        "pandas": (pandas.DataFrame, pandas.DataFrame),
        "polars": (polars.from_pandas, polars.DataFrame),
        "pyarrow": (pa.Table.from_pandas, pa.Table),
    }
    for kind, (made, cls) in kinds.items():
        frame = made(people(500, 2))
        table = pmw.Table.from_frame(frame, DOMAIN, private=False)
        assert table.frame_kind == kind
        for same in (table, table.take([0, 1]), table.project(["sex"]), pickle.loads(pickle.dumps(table))):
            assert isinstance(same.to_frame(), cls)
        assert isinstance(table.to_frame("polars"), polars.DataFrame)
        found = released(public=frame, private=made(people(1000, 1)))
        for out in (found.sample(5).to_frame(), found.marginal("sex"), found.answer(sex="F")):
            assert isinstance(out, cls)
        assert isinstance(found.answers_frame(level=None), cls)
    codes = pmw.Table.from_codes([[0, 0, 0, 0]], DOMAIN, private=False)
    assert isinstance(codes.to_frame(), pa.Table)


def test_a_private_frame_decides_before_a_public_one_and_without_any():
    private = pmw.Table.from_frame(people(1000, 1), DOMAIN, private=True)
    public = pmw.Table.from_frame(polars.from_pandas(people(500, 2)), DOMAIN, private=False)
    workload = pmw.Workload.all(DOMAIN, k=1)
    for support in (pmw.Support.from_table(public), None):
        release = pmw.release_auto(private, support, workload, epsilon=1.0, rng=0)
        assert release.sample(3).frame_kind == release.frame_kind == "pandas"


def test_a_loaded_release_makes_pyarrow_frames_unless_told(release, tmp_path):
    import pyarrow as pa

    release.save(tmp_path / "x.release")
    loaded = pmw.load_release(tmp_path / "x.release")
    assert isinstance(loaded.marginal("sex"), pa.Table)
    assert loaded.marginal("sex", kind="pandas").equals(release.marginal("sex"))


def test_intervals_asked_again_are_the_same_and_nothing_is_refitted(release, monkeypatch):
    workload = pmw.Workload(DOMAIN, [("age", "rooms")])
    first = release.intervals(workload=workload)
    assert np.array_equal(released().intervals(workload=workload).high, first.high)
    from privmw.release.errors.response import Response

    monkeypatch.setattr(Response, "_solve", None)
    assert np.array_equal(release.intervals(workload=workload).high, first.high)
    with pytest.raises(TypeError):
        release.intervals(workload=workload, seed=1)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda r: r.answer(sxe="F"), ValueError, "attribute 'sxe' is not in the domain; did you mean 'sex'"),
        (lambda r: r.answer(sex="X"), ValueError, r"attribute 'sex': value \('X'\) must be one of"),
        (lambda r: r.answer(age=130), ValueError, r"attribute 'age': value \(130\) must be from 0 to 100"),
        (lambda r: r.answer(["sex"]), TypeError, "names and codes, or labels by name"),
        (lambda r: r.answer(["sex"], [0], age=3), TypeError, "names and codes, or labels by name"),
        (lambda r: r.marginal(), ValueError, "must have 1 to 6 attributes"),
        (lambda r: r.marginal("sex", "sex"), ValueError, "must not name an attribute twice"),
        (lambda r: r.marginal("sex", level=2), ValueError, r"level \(2.0\) must be from 0.5 to 0.999"),
        (lambda r: r.marginal("sex", kind="csv"), ValueError, r"kind \('csv'\) must be 'pyarrow'"),
        (lambda r: r.answers_frame("sex"), TypeError, r"workload \('sex'\) must be a Workload"),
    ],
)
def test_what_is_wrong_is_refused_by_name(release, call, error, message):
    with pytest.raises(error, match=message):
        call(release)
