"""The papers' data sets from their publishers' files; real ones where PRIVMW_DATA has the records."""

import json
import os
from pathlib import Path

import numpy as np
import pytest

import privmw as pmw
from privmw.extensions import experiments

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv, parquet

DATA = os.environ.get("PRIVMW_DATA")
real = pytest.mark.skipif(not DATA, reason="PRIVMW_DATA is not set")

UCI_COLUMNS = (
    "age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
    "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week", "native-country",
    "income",
)  # fmt: skip
PEOPLE = [
    "39, State-gov, 77516, Bachelors, 13, Never-married, Adm-clerical, Not-in-family, White, Male, 2174, 0, "
    "40, United-States, <=50K",
    "90, ?, 77053, HS-grad, 9, Widowed, ?, Not-in-family, Black, Female, 0, 4356, 9, ?, >50K",
]
# In the order of the domain: sex, income, race, ...
CODES = [[1, 0, 4, 1, 4, 7, 1, 4, 39, 8, 0, 4, 3], [0, 1, 2, 1, 6, 0, 0, 15, 0, 5, 5, 0, 9]]
TEST_LINE = "|1x3 Cross validator"


def write(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def uci_files(folder):
    """The two files of UCI, with empty last lines, and the test split's first line and full stops."""
    train = write(folder / "adult.data", *PEOPLE, "")
    return train, write(folder / "adult.test", TEST_LINE, *(f"{person}." for person in PEOPLE), "")


@pytest.mark.parametrize("private", [False, True])
def test_the_files_of_uci_are_read_as_they_are(tmp_path, private):
    table = experiments.adult(*uci_files(tmp_path), private=private)
    assert table.private is private
    assert table.domain == experiments.domain("adult")
    assert np.array_equal([table.column(name) for name in table.domain], np.array(CODES + CODES).T)


def test_adult_is_also_read_from_columns_with_names(tmp_path):
    with_header = write(tmp_path / "adult.csv", ",".join(UCI_COLUMNS), *PEOPLE)
    columns = zip(*(person.split(", ") for person in PEOPLE), strict=True)
    typed = {
        name: [int(x) for x in column] if column[0].isdigit() else column
        for name, column in zip(UCI_COLUMNS, columns, strict=True)
    }
    parquet.write_table(pa.table(typed), tmp_path / "adult.parquet")
    for path in (with_header, tmp_path / "adult.parquet"):
        assert experiments.adult(path, private=False).codes().tolist() == CODES


def test_every_edge_of_the_authors_bins_has_their_code(tmp_path):
    gains = [0, 1, 999, 1000, 9999, 10000, 14999, 15000, 20000, 30000, 49999, 50000, 99999]
    people = [PEOPLE[0].replace("2174", str(gain)) for gain in gains]
    table = experiments.adult(write(tmp_path / "adult.data", *people), private=False)
    assert table.column("capital-gain").tolist() == [5, 6, 6, 7, 15, 0, 0, 1, 2, 3, 3, 4, 4]


def survey_file(path, names, **values):
    """One person who is asked nothing but what has no -1, in the form of the Census Bureau."""
    domain = experiments.domain("acs67")
    row = {"SERIALNO": "2018GQ0000001", "AGEP": 37}
    for name in names:
        if name != "AGEP10":
            row[name] = "" if -1 in domain[name].labels else domain[name].labels[-1]
    row |= values
    return write(path, ",".join(row), ",".join(map(str, row.values())))


@pytest.mark.parametrize("profile", ["acs67", "acs15_reduced"])
@pytest.mark.parametrize("private", [False, True])
def test_an_empty_field_of_the_survey_is_not_applicable(tmp_path, profile, private):
    domain = experiments.domain(profile)
    path = survey_file(tmp_path / "psam_p15.csv", domain.names)
    table = experiments.survey(path, path, private=private, profile=profile)
    assert table.domain == domain
    assert table.n == 2
    for name in domain.names:
        applies = domain[name].size - 1 if domain[name].labels and -1 not in domain[name].labels else 0
        assert table.column(name).tolist() == [3 if name == "AGEP10" else applies] * 2


def test_ages_are_in_tens_and_all_from_ninety_on_together(tmp_path):
    names = experiments.domain("acs67").names
    paths = [survey_file(tmp_path / f"{age}.csv", names, AGEP=age) for age in (0, 9, 10, 89, 90, 99)]
    table = experiments.survey(*paths, private=False)
    assert table.column("AGEP10").tolist() == [0, 0, 1, 8, 9, 9]


def test_loans_are_read_as_codes(tmp_path):
    domain = experiments.domain("loans")
    assert len(domain) == 48
    path = write(tmp_path / "loans.csv", ",".join(domain), ",".join(str(size - 1) for size in domain.sizes))
    table = experiments.loans(path, private=False)
    assert table.codes().tolist() == [[size - 1 for size in domain.sizes]]


def adult_with(old, new):
    return lambda folder, private: experiments.adult(
        write(folder / "adult.data", PEOPLE[1].replace(old, new)), private=private
    )


def survey_with(**values):
    names = experiments.domain("acs15_reduced").names
    return lambda folder, private: experiments.survey(
        survey_file(folder / "psam_p15.csv", names, **values), private=private, profile="acs15_reduced"
    )


WRONG = {
    "label": (adult_with("Black", "Green"), r"adult\.data: column 'race' .* must be one of its 5 labels"),
    "bin": (adult_with("4356", "6000"), r"adult\.data: column 'capital-loss' .* must be from 0 to 5000"),
    "short": (adult_with(", ?, >50K", ""), r"adult\.data must have 15 columns, one for each name"),
    "code": (survey_with(SEX=7), r"psam_p15\.csv: column 'SEX' .* must be one of its 2 labels"),
    "blank": (survey_with(SEX=""), r"psam_p15\.csv: column 'SEX' .* must be one of its 2 labels"),
    "column": (
        lambda folder, private: experiments.survey(
            survey_file(folder / "p.csv", ["SEX"]), private=private, profile="acs15_reduced"
        ),
        r"p\.csv: column 'DEYE' is missing",
    ),
    "loan": (
        lambda folder, private: experiments.loans(write(folder / "loans.csv", "term", "3"), private=private),
        r"loans\.csv: column 'loan_amnt' is missing",
    ),
}


@pytest.mark.parametrize("private", [False, True])
@pytest.mark.parametrize("case", WRONG)
def test_a_file_that_breaks_the_domain_is_refused_by_file_column_and_rule(tmp_path, case, private):
    call, message = WRONG[case]
    with pytest.raises(ValueError, match=message) as refused:
        call(tmp_path, private)
    if private and "adult" not in message:  # of which UCI published every record
        told = str(refused.value).replace(str(tmp_path), "")
        assert not any(value in told for value in ("Green", "6000", "7", "first:"))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: experiments.adult(private=False), r"paths \(none\) must be at least one"),
        (lambda: experiments.survey(private=False), r"paths \(none\) must be at least one"),
        (lambda: experiments.adult(3, private=False), r"path \(3\) must be a path"),
        (
            lambda: experiments.survey("x.csv", private=False, profile="acs68"),
            r"profile \('acs68'\) must be 'acs67' or 'acs15_reduced'",
        ),
        (lambda: experiments.domain("iris"), r"name \('iris'\) must be one of adult, acs67"),
        (lambda: experiments.domain(67), r"name \(67\) must be a string"),
        (lambda: experiments.loans("nowhere.csv", private=False), "nowhere.csv must exist"),
    ],
)
def test_a_wrong_call_is_refused_by_argument_value_and_rule(call, message):
    with pytest.raises((TypeError, ValueError, FileNotFoundError), match=message):
        call()


@real
def test_domains_are_those_of_the_published_descriptions():
    described = json.loads((Path(DATA) / "acs_pums" / "domain.json").read_text())
    for profile, sizes in described["profiles"].items():
        domain = experiments.domain(profile)
        assert dict(zip(domain.names, domain.sizes, strict=True)) == sizes
        for attribute in domain.attributes:
            if attribute.name != "AGEP10":
                assert list(attribute.labels) == described["attributes"][attribute.name]["codes"]
    sizes = json.loads((Path(DATA) / "loans" / "domain.json").read_text())["sizes"]
    assert experiments.domain("loans") == pmw.Domain(sizes)


@real
def test_adult_from_uci_files_has_the_authors_codes(tmp_path):
    pytest.importorskip("pandas")
    raw = parquet.read_table(Path(DATA) / "adult" / "adult_raw.parquet")
    for split, file in (("train", "adult.data"), ("test", "adult.test")):
        people = raw.filter(pc.equal(raw["split"], split)).select(UCI_COLUMNS).to_pylist()
        stop = "." if split == "test" else ""
        lines = [", ".join(map(str, person.values())) + stop for person in people]
        write(tmp_path / file, *([TEST_LINE] if split == "test" else []), *lines, "")
    table = experiments.adult(tmp_path / "adult.data", tmp_path / "adult.test", private=False)
    assert table.n == raw.num_rows == 48_842
    # The authors' codes are of the same records, without what one of the files says twice.
    frame = raw.to_pandas()
    kept = np.flatnonzero(~frame.duplicated())
    coded = parquet.read_table(Path(DATA) / "adult" / "adult_pmwpub.parquet").select(table.domain.names)
    assert np.array_equal(table.codes()[kept], np.stack([column.to_numpy() for column in coded], axis=1))


@real
@pytest.mark.parametrize("profile", ["acs67", "acs15_reduced"])
def test_the_survey_from_csv_is_the_survey_from_parquet(tmp_path, profile):
    path = Path(DATA) / "acs_pums" / "acs2018_wy.parquet"
    described = json.loads(path.with_name("domain.json").read_text())
    raw = parquet.read_table(path)
    blank = [pc.if_else(pc.equal(column, -1), None, column) for column in raw.columns]
    csv.write_csv(pa.table(blank, names=raw.column_names), tmp_path / "psam_p56.csv")
    by_csv = experiments.survey(tmp_path / "psam_p56.csv", private=False, profile=profile)
    by_parquet = experiments.survey(path, private=False, profile=profile)
    assert np.array_equal(by_csv.codes(), by_parquet.codes())
    for name in by_csv.domain:
        codes = described["attributes"][name]["codes"]
        values = np.minimum(raw["AGEP"].to_numpy() // 10, 9) if name == "AGEP10" else raw[name].to_numpy()
        assert by_csv.column(name).tolist() == [codes.index(value) for value in values]
