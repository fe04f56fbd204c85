"""A release from no public file, from one with fewer columns, and from several: all of a run's commands."""

import json

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import pyarrow as pa
import pyarrow.parquet as parquet

import privmw as pmw
import privmw.cli.outputs
from cli.cases import FILES, RELEASED, N, names_in, release_line, write_pair
from privmw.cli import main
from privmw.extensions.population import draw_values


@pytest.fixture
def here(tmp_path, monkeypatch, blank_pictures):
    """Besides the pair: fewer.parquet lacks two columns, and second.parquet is another public file."""
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    public = parquet.read_table("public.parquet")
    parquet.write_table(public.select(["region", "age"]), "fewer.parquet")
    second = draw_values(300, attributes=4, shift=0.5, seed=77)
    parquet.write_table(pa.table(second), "second.parquet")
    return tmp_path


PUBLIC = {"none": None, "fewer columns": "fewer.parquet", "several": ["public.parquet", "second.parquet"]}


def refused(line, folder, capsys):
    before = names_in(folder)
    code, said = main(line), capsys.readouterr().err
    assert (code, len(said.splitlines())) == (2, 1), said
    assert names_in(folder) == before
    return said


@pytest.mark.parametrize("public", PUBLIC)
def test_a_release_finishes_and_is_evaluated_whatever_the_public_files(public, here, capsys):
    assert main(release_line(public=PUBLIC[public], seed=1, config="run.toml")) in RELEASED
    said = capsys.readouterr()
    written = FILES - ({"public-values.parquet"} if public == "none" else set())
    assert set(names_in(here / "out")) == written
    growth = pmw.load_release("out/release.npz").growth()
    told = json.loads((here / "out" / "quality.json").read_text())
    assert told["growth"]["grown_rows"] == growth.grown_rows > 0
    if public == "several":
        assert growth.public_rows > 0
        assert " grown, which carry " in said.out
    else:
        assert growth.public_rows == 0
        assert f"{growth.rows:,} rows, all grown: none is a public record." in said.out
        assert "There is no public start" in (here / "out" / "report.html").read_text("utf-8")
    assert ("no public table: " in said.err) == (public == "none")
    assert ("lacks the columns sex, " in said.err) == (public == "fewer columns")

    assert main(["release", "--config", "run.toml", "-o", "again", "--quiet"]) in RELEASED
    first, again = (pmw.load_release(f"{folder}/release.npz") for folder in ("out", "again"))
    assert first == again

    for name in ("quality.json", "synthetic.parquet"):
        (here / "out" / name).unlink()
    assert main(["finish", "out", "--quiet"]) in RELEASED
    assert set(names_in(here / "out")) == written

    capsys.readouterr()
    assert main(["evaluate", "out", "--private", "private.parquet"]) == 0
    assert ("public start" in capsys.readouterr().out) == (public == "several")
    evaluation = json.loads((here / "out-not-private" / "evaluation.json").read_text())
    assert ("public_start" in evaluation) == (public == "several")


def test_the_files_of_the_command_line_replace_those_of_a_config(here, capsys):
    assert main(release_line(public=PUBLIC["several"], seed=1, config="run.toml", method="pep")) in RELEASED
    assert 'public = ["public.parquet", "second.parquet"]' in (here / "run.toml").read_text()
    line = ["release", "--config", "run.toml", "-o", "one", "--public", "second.parquet", "--quiet"]
    assert main(line) in RELEASED
    capsys.readouterr()
    assert pmw.load_release("one/release.npz").support.records == 300
    (here / "bad.toml").write_text("public = [1]\n")
    assert "must be text or a list of texts" in refused(["release", "--config", "bad.toml"], here, capsys)


def test_each_of_several_files_has_a_weight_of_its_own(here, capsys):
    line = release_line(public=PUBLIC["several"], seed=1, method="pep")
    assert main([*line, "--quiet"]) in RELEASED
    support = pmw.load_release("out/release.npz").support
    assert support.blocks.sum(axis=0).tolist() == [N, 300]


def test_a_run_goes_on_with_the_same_files_only(here, monkeypatch, capsys):
    with monkeypatch.context() as patch:
        patch.setattr(privmw.cli.run_folder.RunFolder, "save", _interrupt)
        assert main(release_line(public=PUBLIC["several"], seed=1)) == 130
    assert "other options (public)" in _said(release_line(public="public.parquet", seed=1), capsys)
    assert "other options (public)" in _said(release_line(public=None, seed=1), capsys)
    assert main([*release_line(public=PUBLIC["several"], seed=1), "--quiet"]) in RELEASED


def _interrupt(*_):
    raise KeyboardInterrupt


def _said(line, capsys):
    capsys.readouterr()
    assert main(line) == 2
    return capsys.readouterr().err


def test_values_of_bins_are_drawn_from_all_public_files(here, capsys):
    for name, age in (("public", 20), ("second", 21)):
        table = parquet.read_table(f"{name}.parquet")
        ages = pa.array([age] * table.num_rows)
        parquet.write_table(table.set_column(table.column_names.index("age"), "age", ages), f"{name}.parquet")
    line = release_line(public=PUBLIC["several"], seed=1, bins="draw", method="pep")
    assert main([*line, "--quiet"]) in RELEASED
    assert set(parquet.read_table("out/synthetic.parquet")["age"].to_pylist()) == {20, 21}


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"public": ["public.parquet", "fewer.parquet"]}, "fewer.parquet lacks the column 'sex', 'born'"),
        ({"public": "foreign.parquet"}, "foreign.parquet"),
        ({"public": ["public.parquet", "foreign.parquet"]}, "foreign.parquet"),
        ({"public": ["public.parquet", "nowhere.parquet"]}, "nowhere.parquet"),
        ({"public": "fewer.parquet", "method": "pep"}, "sex"),
        ({"public": "fewer.parquet", "method": "mw-pub"}, "sex"),
        (
            {"public": None, "method": "mwem-pub"},
            "(auto, dual-query, fem, gem, mwem and rap do without)",
        ),
        (
            {"method": "rap"},
            "public file (public.parquet) must not be given with --method rap: it makes its rows itself",
        ),
        ({"public": ["second.parquet", "private.parquet"]}, "private.parquet holds records of"),
    ],
)
def test_bad_public_files_are_refused_before_anything_is_spent(options, said, here, capsys):
    parquet.write_table(pa.table({"colour": ["red", "blue"]}), "foreign.parquet")
    assert said in refused(release_line(**options), here, capsys)


def test_a_small_file_of_private_records_is_found_beside_a_large_one(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path, n=3_000, attributes=8)
    parquet.write_table(parquet.read_table("private.parquet").slice(0, 1_800), "leaked.parquet")
    said = refused(release_line(public=["public.parquet", "leaked.parquet"]), tmp_path, capsys)
    assert "leaked.parquet holds records of private.parquet" in said


def test_inspect_takes_no_file_or_several(here, capsys):
    options = ["--domain", "domain.json", "--marginals", "2", "--json"]
    assert main(["inspect", *options, "--n", "5000"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["records"], told["rows"], told["uncommon_values_a_row"]) == (0, 0, None)
    assert main(["inspect", *options[:-1], "--n", "5000"]) == 0
    text = capsys.readouterr().out
    assert "no public row, 4 attributes" in text
    assert "no public table: rows are grown" in text
    assert main(["inspect", "public.parquet", "second.parquet", *options]) == 0
    assert json.loads(capsys.readouterr().out)["records"] == N + 300
    assert main(["inspect", "fewer.parquet", *options]) == 0
    assert json.loads(capsys.readouterr().out)["quality"]["coverage"]["lacking"] == ["sex", "born"]
    assert main(["inspect", *options, "--n", "5000", "--method", "mwem"]) == 0
    capsys.readouterr()
    assert "--n must be given" in refused(["inspect", *options], here, capsys)
