"""Four ways to a wrong release that once ended with exit code 0 and no word, through the command line."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import pyarrow as pa
import pyarrow.parquet as parquet

import privmw as pmw
from cli.cases import release_line
from privmw.cli import main
from privmw.cli.refusal import DISAGREES


@pytest.fixture
def people(tmp_path, monkeypatch, blank_pictures):
    """Two samples of one population of 6,000 with five attributes; `other` is a value of sex and region."""
    monkeypatch.chdir(tmp_path)
    domain = {"age": 6, "sex": {"labels": ["Female", "Male"], "other": "other"}, "owner": 2, "rooms": 4}
    pmw.Domain({**domain, "region": {"labels": ["north", "south"], "other": "other"}}).write("domain.json")
    for seed, name in enumerate(("public", "private")):
        rng = np.random.default_rng(seed)
        age = rng.integers(0, 6, 6_000)
        columns = {
            "age": age,
            "sex": np.where(rng.random(6_000) < 0.76, "Male", "Female"),
            "owner": (rng.random(6_000) * 6 < age).astype(int),
            "rooms": np.minimum(rng.geometric(0.5, 6_000) - 1, 3),
            "region": np.where(rng.random(6_000) < 0.5, "north", "south"),
        }
        parquet.write_table(pa.table(columns), f"{name}.parquet")
    return tmp_path


def spell(name, old, new, share=1.0):
    """Change a value of the private file, in a share of the records that have it."""
    table = parquet.read_table("private.parquet")
    rng = np.random.default_rng(9)
    values = [new if value == old and rng.random() < share else value for value in table[name].to_pylist()]
    changed = table.set_column(table.column_names.index(name), name, pa.array(values))
    parquet.write_table(changed, "private.parquet")


def test_a_good_release_of_the_command_line_ends_with_zero(people, capsys):
    assert main(release_line(seed=1)) == 0
    assert "Agrees with what was measured" in capsys.readouterr().out


def test_another_spelling_in_the_private_file_is_told_after_the_release(people, capsys):
    spell("sex", "Male", "MALE")
    assert main(release_line(seed=1)) == DISAGREES
    said = capsys.readouterr()
    assert "sex = other" in said.err  # before: no public row has it
    assert "no row has sex = other, which 7" in said.out
    assert "compare how sex is spelt" in said.out
    told = json.loads(Path("out/quality.json").read_text())
    assert told["agrees"] is False
    assert "DISAGREES" in Path("out/report.html").read_text("utf-8")


def test_a_small_group_that_no_public_row_has_is_told_after_the_release(people, capsys):
    spell("region", "north", "west", share=0.06)  # 3 % of all records
    assert main(release_line(seed=1, epsilon=2)) == DISAGREES
    assert "region = other" in capsys.readouterr().out


def test_less_is_measured_than_asked_and_it_is_said(people, capsys):
    main(release_line(seed=1, epsilon="0.02", marginals=3, force=True))
    said = capsys.readouterr().err
    assert re.search(r"asked: 10 marginals of 3 attributes; measured: .* \([0-9.]+% of n\)", said)


def test_noise_of_more_than_all_records_is_refused_before_the_private_file_pays(people, capsys):
    assert main(release_line(epsilon="0.0001")) == 2
    said = capsys.readouterr().err
    assert "of the records drowns every count" in said
    assert "--force" in said
    assert not (people / "out").exists()
