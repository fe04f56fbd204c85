"""The scikit-learn shaped front: its parameters, its domains, its frames and its refusals."""

import copy
import pickle

import numpy as np
import pytest

import privmw as pmw

for library in ("pyarrow", "narwhals", "pandas", "polars"):
    pytest.importorskip(library)

import pandas  # noqa: E402
import polars  # noqa: E402


def people(n, seed, women=0.5):
    rng = np.random.default_rng(seed)
    return pandas.DataFrame(
        {
            "sex": rng.choice(["F", "M"], n, p=[women, 1 - women]),
            "income": np.clip(np.round(rng.lognormal(3, 0.8, n), 2), 5, 60),
            "rooms": rng.integers(1, 5, n),
        }
    )


PRIVATE, PUBLIC = people(5_000, 1, women=0.8), people(1_000, 2)
DOMAIN = {"sex": ["F", "M"], "income": {"edges": [0, 10, 20, 40, 10_000]}, "rooms": [1, 2, 3, 4]}


@pytest.fixture(scope="module")
def fitted():
    return pmw.Synthesizer(epsilon=2.0, marginals=2).fit(PRIVATE, public=PUBLIC)


def test_two_frames_become_synthetic_records_of_the_same_columns(fitted):
    records = fitted.sample(1_000, seed=0)
    assert isinstance(records, pandas.DataFrame)
    assert list(records.columns) == list(PRIVATE.columns)
    assert len(records) == 1_000
    assert abs((records["sex"] == "F").mean() - 0.8) < 0.05
    # Drawn from public records of the same bin, or the middle of a bin that has none.
    assert set(records["income"]) & set(PUBLIC["income"])
    # The proposed domain has a value for missing incomes, and noise may give it some mass.
    income = records["income"].dropna()
    assert len(income) > 950
    assert income.between(0, 10_000).all()
    assert records["income"].dtype.kind == "f"
    assert records.equals(fitted.sample(1_000, seed=0))
    assert len(fitted.sample()) == len(PRIVATE)
    assert fitted.release_.ledger.for_release
    assert fitted.domain_ == fitted.release_.support.domain
    assert fitted.feature_names_in_.tolist() == list(PRIVATE.columns)


def test_the_front_spends_as_the_functions_do():
    domain = pmw.Domain(DOMAIN)
    synthesizer = pmw.Synthesizer(epsilon=1.0, delta=1e-9, domain=domain, marginals=2, rng=3)
    synthesizer.fit(PRIVATE, public=PUBLIC)
    private = pmw.Table.from_frame(PRIVATE, domain, private=True)
    support = pmw.Support.from_table(pmw.Table.from_frame(PUBLIC, domain, private=False))
    workload = pmw.Workload.all(domain, k=2)
    auto = pmw.release_auto(private, support, workload, epsilon=1.0, delta=1e-9, rng=3)
    assert synthesizer.release_ == auto
    assert not synthesizer.release_.ledger.for_release
    pep = synthesizer.set_params(algorithm=pmw.PEP(rounds=3)).fit(PRIVATE, public=PUBLIC)
    expected = pmw.PEP(rounds=3).calibrate(1.0, 1e-9)(private, support, workload, rng=3)
    assert pep.release_ == expected


def test_without_a_public_frame_a_domain_is_needed_and_enough():
    found = pmw.Synthesizer(domain=DOMAIN, marginals=2).fit(PRIVATE)
    assert found.release_.support.records == 0
    records = found.sample(100)
    assert records["income"].dtype.kind == "i"
    assert records["income"].between(0, 10_000).all()
    with pytest.raises(ValueError, match=r"domain \(None\) must be given where there is no public frame"):
        pmw.Synthesizer().fit(PRIVATE)


def test_files_and_tables_are_taken_too(tmp_path):
    PRIVATE.to_parquet(tmp_path / "private.parquet")
    PUBLIC.to_csv(tmp_path / "public.csv", index=False)
    found = pmw.Synthesizer(marginals=1).fit(tmp_path / "private.parquet", public=tmp_path / "public.csv")
    assert found.release_.n == len(PRIVATE)
    domain = pmw.Domain(DOMAIN)
    private = pmw.Table.from_frame(polars.from_pandas(PRIVATE), domain, private=True)
    public = pmw.Table.from_frame(PUBLIC, domain, private=False)
    found = pmw.Synthesizer(marginals=[("sex", "rooms")]).fit(private, public=public)
    assert found.domain_ == domain
    assert list(found.workload_) == [("sex", "rooms")]
    assert isinstance(found.sample(5), polars.DataFrame)


def test_a_public_frame_may_lack_columns():
    public = PUBLIC[["sex", "rooms"]]
    found = pmw.Synthesizer(domain=DOMAIN, marginals=2).fit(PRIVATE, public=public)
    assert found.release_.settings["algorithm"] == "PEP"
    assert len(found.sample(10)) == 10
    with pytest.raises(ValueError, match=r"bins \('draw'\) must come with a public column 'income'"):
        pmw.Synthesizer(domain=DOMAIN, marginals=2, bins="draw").fit(PRIVATE, public=public)


def test_columns_that_the_proposal_leaves_out_are_said():
    names = [f"person number {place}" for place in range(len(PUBLIC))]
    with pytest.warns(UserWarning, match="column 'name' left out") as said:
        found = pmw.Synthesizer(marginals=1).fit(PRIVATE, public=PUBLIC.assign(name=names))
    assert any("'name'" in note for note in found.notes_)
    assert __file__ in [warning.filename for warning in said]


def test_a_household_is_protected_as_a_whole():
    private = PRIVATE.assign(household=np.arange(len(PRIVATE)) // 3)
    found = pmw.Synthesizer(domain=DOMAIN, marginals=1, unit="household", at_most=2)
    found.fit(private, public=PUBLIC)
    assert found.release_.ledger.unit == "household of at most 2 records"


def test_an_account_adds_up_what_every_fit_spends(tmp_path):
    file = tmp_path / "table.account"
    pmw.Account.create(file, pmw.Budget.approximate(2.0, 1e-9, "zCDP"))
    synthesizer = pmw.Synthesizer(epsilon=1.0, delta=1e-9, domain=DOMAIN, marginals=1, account=file)
    first = synthesizer.fit(PRIVATE).release_
    assert len(pmw.Account(file).runs) == 1
    with pytest.raises(pmw.BudgetError):
        synthesizer.set_params(epsilon=2.0).fit(PRIVATE)
    assert synthesizer.release_ is first


def test_scikit_learn_clones_sets_and_knows_it():
    sklearn = pytest.importorskip("sklearn")
    from sklearn.exceptions import NotFittedError
    from sklearn.utils.validation import check_is_fitted

    one = pmw.Synthesizer(epsilon=0.5, domain=pmw.Domain(DOMAIN), algorithm=pmw.PEP(rounds=2), marginals=1)
    other = sklearn.base.clone(one)
    assert other is not one
    assert {**other.get_params(), "domain": None} == {**one.get_params(), "domain": None}
    assert other.domain == one.domain
    with pytest.raises(NotFittedError):
        check_is_fitted(one)
    check_is_fitted(other.fit(PRIVATE, public=PUBLIC))
    again = sklearn.base.clone(other)
    assert not hasattr(again, "release_")
    assert again.set_params(epsilon=3.0).get_params()["epsilon"] == 3.0
    grid = sklearn.model_selection.ParameterGrid({"marginals": [1, 2], "epsilon": [0.5, 1]})
    assert len([sklearn.base.clone(one).set_params(**point) for point in grid]) == 4


def test_it_is_copied_pickled_and_shown_with_its_parameters(fitted):
    for same in (copy.copy(fitted), pickle.loads(pickle.dumps(fitted))):
        assert same.sample(50, seed=1).equals(fitted.sample(50, seed=1))
    assert repr(fitted) == "Synthesizer(epsilon=2.0, marginals=2)"
    assert repr(pmw.Synthesizer(rng=0)) == "Synthesizer(rng=0)"


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: pmw.Synthesizer().sample(10), ValueError, r"must be fitted first: fit\(private"),
        (lambda: pmw.Synthesizer(epsilon=-1).fit(PRIVATE, public=PUBLIC), ValueError, r"epsilon \(-1\)"),
        (lambda: pmw.Synthesizer(marginals=0).fit(PRIVATE, public=PUBLIC), ValueError, r"marginals \(0\)"),
        (lambda: pmw.Synthesizer(marginals="2").fit(PRIVATE, public=PUBLIC), TypeError, r"marginals \('2'\)"),
        (
            lambda: pmw.Synthesizer(algorithm="PEP").fit(PRIVATE, public=PUBLIC),
            TypeError,
            r"algorithm \('PEP'\)",
        ),
        (lambda: pmw.Synthesizer(bins="mean").fit(PRIVATE, public=PUBLIC), ValueError, r"bins \('mean'\)"),
        (lambda: pmw.Synthesizer(bins="draw", domain=DOMAIN).fit(PRIVATE), ValueError, r"bins \('draw'\)"),
        (
            lambda: pmw.Synthesizer(domain=3).fit(PRIVATE),
            TypeError,
            r"source \(3\) must be a path or a mapping",
        ),
        (lambda: pmw.Synthesizer(domain=DOMAIN).fit(None), TypeError, r"private \(None\) must be a frame"),
        (lambda: pmw.Synthesizer(domain=DOMAIN).fit([1, 2]), TypeError, r"frame \(list\) must be a pandas"),
        (
            lambda: pmw.Synthesizer(unit="home", domain=DOMAIN).fit(PRIVATE),
            (TypeError, ValueError),
            "at_most",
        ),
        (lambda: pmw.Synthesizer().fit(PRIVATE, PUBLIC), TypeError, "positional"),
        (
            lambda: pmw.Synthesizer().fit(PRIVATE[["sex"]], public=PUBLIC),
            ValueError,
            "column 'income' is missing",
        ),
        (
            lambda: pmw.Synthesizer().set_params(eps=1),
            TypeError,
            r"option \('eps'\) must be one of epsilon",
        ),
    ],
)
def test_what_is_wrong_is_refused_by_name_before_anything_is_spent(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_public_table_as_the_private_one_is_refused():
    public = pmw.Table.from_frame(PUBLIC, pmw.Domain(DOMAIN), private=False)
    with pytest.raises(ValueError, match="must be a private table"):
        pmw.Synthesizer(marginals=1).fit(public)


def test_columns_of_the_private_frame_that_are_left_out_are_counted():
    synthesizer = pmw.Synthesizer(domain=DOMAIN, marginals=1)
    with pytest.warns(UserWarning, match="private frame: left out: 2 columns that the domain") as said:
        synthesizer.fit(PRIVATE.assign(name="x", town="y"), public=PUBLIC)
    assert [warning.filename for warning in said] == [__file__]
    assert synthesizer.notes_ == ("frame: left out: 2 columns that the domain does not name",)


def test_the_private_table_is_not_taken_as_the_public_one(tmp_path):
    for name in ("one.csv", "two.csv"):
        PRIVATE.to_csv(tmp_path / name, index=False)
    for pair in ((PRIVATE, PRIVATE), (tmp_path / "one.csv", str(tmp_path / "two.csv"))):
        with pytest.raises(ValueError, match="public must be another table than private: public rows are"):
            pmw.Synthesizer().fit(pair[0], public=pair[1])
