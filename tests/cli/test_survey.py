"""Real survey files, raw as they come, from the command line alone."""

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import numpy as np
import pyarrow as pa
from pyarrow import csv, parquet

from cli.cases import FILES, RELEASED, names_in
from privmw.cli import main


@pytest.fixture
def survey():
    if not os.environ.get("PRIVMW_DATA"):
        pytest.skip("PRIVMW_DATA is not set")
    return Path(os.environ["PRIVMW_DATA"]) / "acs_pums"


def raw_pair(data, name):
    """The raw public and private tables: a tenth of ADULT and the rest, or two years of the ACS."""
    if name == "acs":
        return [parquet.read_table(data / "acs_pums" / f"acs{year}_hi.parquet") for year in (2015, 2018)]
    adult = parquet.read_table(data / "adult" / "adult_raw.parquet")
    tenth = np.random.default_rng(0).random(adult.num_rows) < 0.1
    return [adult.filter(pa.array(tenth)), adult.filter(pa.array(~tenth))]


@pytest.mark.slow  # real data
@pytest.mark.parametrize("form", ["csv", "parquet"])
@pytest.mark.parametrize("name", ["adult", "acs"])
def test_raw_files_become_a_release_at_the_first_attempt(name, form, survey, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write = csv.write_csv if form == "csv" else parquet.write_table
    for which, table in zip(("public", "private"), raw_pair(survey.parent, name), strict=True):
        write(table, f"{which}.{form}")
    assert main(["domain", f"public.{form}", "-o", "domain.json"]) == 0
    assert "room for values that only a private file has" in capsys.readouterr().err
    files = ["--private", f"private.{form}", "--public", f"public.{form}", "--domain", "domain.json"]
    assert main(["release", *files, "--marginals", "3", "--epsilon", "1", "-o", "out"]) in RELEASED
    left_out = "private.csv: left out: 1 column" in capsys.readouterr().err.replace(form, "csv")
    assert left_out == (name == "acs")  # the number of the household; all of ADULT's columns are kept
    assert set(names_in(tmp_path / "out")) == FILES


@pytest.mark.slow  # real data; the demonstration goes the same way on made-up people
def test_the_survey_of_one_year_is_released_from_that_of_another(survey, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    public, private = (str(survey / f"{name}.parquet") for name in ("acs2015_hi", "acs2018_hi"))
    assert main(["domain", public, "--setting", "other=other", "-o", "all.json"]) == 0
    assert "'HHID' left out" in capsys.readouterr().err
    profile = json.loads((survey / "domain.json").read_text())["profiles"]["acs67"]
    columns = ",".join("AGEP" if name == "AGEP10" else name for name in profile)
    assert (
        main(["domain", public, "--columns", columns, "--setting", "other=other", "-o", "domain.json"]) == 0
    )
    line = ["--private", private, "--public", public, "--domain", "domain.json", "--marginals", "2"]
    assert main(["release", *line, "--epsilon", "1", "--seed", "0", "-o", "out"]) in RELEASED
    assert set(names_in(tmp_path / "out")) == FILES
    assert main(["evaluate", "out", "--private", private]) == 0
    told = json.loads((tmp_path / "out-not-private" / "evaluation.json").read_text())
    assert told["release"]["max_error"] < 0.7 * told["public_start"]["max_error"]
    assert told["synthetic"]["max_error"] < 1.5 * told["release"]["max_error"]
