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
from privmw.cli.refusal import EXIT_DISAGREES


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


def within_noise(name, value):
    """Whether a released value lies within 3 standard deviations of its noisy share."""
    found = pmw.load_release("out/release.npz").agreement()
    attribute = next(attribute for attribute in found.attributes if attribute.name == name)
    (gap,) = (gap for gap in attribute.values if gap.value == value)
    return abs(gap.released - gap.noisy) <= 3 * gap.deviation


@pytest.mark.parametrize(("epsilon", "seed"), [(1, 1), (1, 2), ("0.25", 3)])
def test_another_spelling_in_the_private_file_gets_grown_rows(people, capsys, epsilon, seed):
    spell("sex", "Male", "MALE")  # 76 % of all records
    assert main(release_line(seed=seed, epsilon=epsilon)) == 0
    said = capsys.readouterr()
    assert "(sex = other" in said.err  # before: no public row has it
    assert "rows are grown for" in said.err
    assert re.search(r"values that no public row has: sex = other 7[3-7]\.\d%", said.out)
    assert within_noise("sex", 2)
    told = json.loads(Path("out/quality.json").read_text())
    (sex,) = (entry for entry in told["growth"]["by_attribute"] if entry["attribute"] == "sex")
    assert sex["new_values"][0]["value"] == "other"
    assert 0.72 < sex["new_value_mass"] < 0.78


@pytest.mark.parametrize(("epsilon", "seed"), [(2, 1), (2, 2), (1, 1), (1, 3)])
def test_a_small_group_that_no_public_row_has_gets_grown_rows(people, capsys, epsilon, seed):
    spell("region", "north", "west", share=0.06)  # 3 % of all records
    assert main(release_line(seed=seed, epsilon=epsilon)) == 0
    assert "region = other" in capsys.readouterr().out
    assert within_noise("region", 2)


def test_a_method_that_cannot_grow_rows_tells_of_another_spelling_after_the_release(people, capsys):
    spell("sex", "Male", "MALE")
    assert main(release_line(seed=1, method="mw-pub", rounds=20)) == EXIT_DISAGREES
    said = capsys.readouterr()
    assert "no row of the release will have them: they get 0 at any epsilon" in said.err
    assert "no row has sex = other" in said.out
    assert "compare how sex is spelt" in said.out
    assert "or take --method auto, which grows them" in said.out
    told = json.loads(Path("out/quality.json").read_text())
    assert (told["agrees"], told["growth"]["grown_rows"]) == (False, 0)
    assert "DISAGREES" in Path("out/report.html").read_text("utf-8")


def test_less_is_measured_than_asked_and_it_is_said(people, capsys):
    main(release_line(seed=1, epsilon="0.02", marginals=3, force=True))
    said = capsys.readouterr().err
    assert re.search(r"asked: 10 marginals of 3 attributes; measured: .* \([0-9.]+% of n\)", said)


def test_noise_of_more_than_all_records_is_refused_before_the_private_file_pays(people, capsys):
    assert main(release_line(epsilon="0.0001")) == 2
    said = capsys.readouterr().err
    assert "of the records is larger than every count" in said
    assert "--force" in said
    assert not (people / "out").exists()
