"""Real survey files, raw as they come, from the command line alone."""

import json
import os
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from cli.cases import FILES, RELEASED, names_in
from privmw.cli import main


@pytest.fixture
def survey():
    if not os.environ.get("PRIVMW_DATA"):
        pytest.skip("PRIVMW_DATA is not set")
    return Path(os.environ["PRIVMW_DATA"]) / "acs_pums"


@pytest.mark.slow  # real data; the demonstration goes the same way on made-up people
def test_the_survey_of_one_year_is_released_from_that_of_another(survey, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    public, private = (str(survey / f"{name}.parquet") for name in ("acs2015_hi", "acs2018_hi"))
    assert main(["domain", public, "--other", "other", "-o", "all.json"]) == 0
    assert "'HHID' left out" in capsys.readouterr().err
    profile = json.loads((survey / "domain.json").read_text())["profiles"]["acs67"]
    columns = ",".join("AGEP" if name == "AGEP10" else name for name in profile)
    assert main(["domain", public, "--columns", columns, "--other", "other", "-o", "domain.json"]) == 0
    line = ["--private", private, "--public", public, "--domain", "domain.json", "--marginals", "2"]
    assert main(["release", *line, "--epsilon", "1", "-o", "out"]) in RELEASED
    assert set(names_in(tmp_path / "out")) == FILES
    assert main(["evaluate", "out", "--private", private]) == 0
    told = json.loads((tmp_path / "out-not-private" / "evaluation.json").read_text())
    assert told["release"]["max_error"] < 0.7 * told["public_start"]["max_error"]
    assert told["synthetic"]["max_error"] < 1.5 * told["release"]["max_error"]
