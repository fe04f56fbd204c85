"""--format: records, answers and measurements as parquet, csv or feather, with the same contents."""

import json

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.feather as feather
import pyarrow.parquet as parquet

import privmw as pmw
from cli.cases import RELEASED, names_in, release_line
from privmw.cli import main

READ = {"parquet": parquet.read_table, "feather": feather.read_table}


def read(path):
    if path.suffix == ".csv":  # as text: what a type would be guessed from is not in the file
        names = path.read_text("utf-8").partition("\n")[0].replace('"', "").split(",")
        kinds = {name: pa.float64() if name == "answer" else pa.string() for name in names}
        return csv.read_csv(path, convert_options=csv.ConvertOptions(column_types=kinds))
    return READ[path.suffix[1:]](path)


@pytest.mark.parametrize("form", ["csv", "feather"])
def test_records_and_answers_are_the_same_in_every_format(form, released):
    out, seeded = released / "out", ".seeded" * (form == "csv")
    before = {name: read(out / f"{name}.parquet") for name in ("answers", "measurements", "synthetic")}
    for name in before:
        (out / f"{name}.parquet").unlink()
    assert main(["finish", "out", "--seed", "1", "--format", form, "--quiet"]) == 0
    for name, table in before.items():
        found = read(out / f"{name}{seeded}.{form}")
        assert found.column_names == table.column_names
        for column in table.column_names:
            expected = table[column].to_pylist()
            expected = expected if column == "answer" or form != "csv" else list(map(str, expected))
            assert found[column].to_pylist() == expected
    if form == "feather":
        assert json.loads(read(out / "answers.feather").schema.metadata[b"privmw"])["for_release"] is False


def test_what_is_written_in_one_format_is_not_written_in_another(released, capsys):
    before = names_in(released / "out")
    assert main(["finish", "out", "--format", "csv"]) == 2
    assert "out/synthetic.parquet exists (remove it to write another)" in capsys.readouterr().err
    for name in ("answers", "measurements", "synthetic"):
        (released / "out" / f"{name}.parquet").unlink()
    assert main(["finish", "out", "--format", "csv", "--quiet"]) == 0
    in_csv = names_in(released / "out")
    assert {f"{name}.seeded.csv" for name in ("answers", "measurements", "synthetic")} <= set(in_csv)
    assert len(in_csv) == len(before)
    (released / "out" / "answers.seeded.csv").unlink()
    assert main(["finish", "out", "--quiet"]) == 0  # as the others
    assert names_in(released / "out") == in_csv


@pytest.mark.parametrize(
    ("form", "name"), [("csv", "synthetic.seeded.csv"), ("feather", "synthetic.feather")]
)
def test_errors_of_other_marginals_and_of_records_in_any_format(form, name, released, capsys):
    for stem in ("answers", "measurements", "synthetic"):
        (released / "out" / f"{stem}.parquet").unlink()
    assert main(["finish", "out", "--format", form, "--quiet"]) == 0
    line = ["evaluate", "out", "--private", "private.parquet", "--json"]
    assert main([*line, "--marginals", "1,3"]) == 0
    told = json.loads(capsys.readouterr().out)
    release = pmw.load_release("out/release.npz")
    private = pmw.read_table("private.parquet", release.support.domain, private=True)
    asked = pmw.Workload.all(release.support.domain, k=[1, 3])
    assert (told["marginals"], told["cells"]) == (len(asked), asked.cells)
    assert told["release"]["max_error"] == pmw.evaluate(release, private, asked).max_error
    drawn = pmw.read_table(f"out/{name}", release.support.domain, private=False)
    assert told["synthetic"]["rmse"] == pmw.evaluate(drawn, private, asked).rmse
    assert main([*line, "--marginals", "3", "--sample", "2", "-o", "some"]) == 0
    assert json.loads(capsys.readouterr().out)["marginals"] == 2


def test_unbiased_answers_are_the_same_in_every_format(released, blank_pictures):
    line = "measure --private private.parquet --domain domain.json --marginals 2 --epsilon 1 --seed 5 --quiet"
    for form in ("parquet", "feather"):
        assert main([*line.split(), "--format", form, "-o", form]) == 0
    one, other = (read(released / form / f"answers.{form}") for form in ("parquet", "feather"))
    assert one.to_pydict() == other.to_pydict()
    assert np.isfinite(one["standard_error"].to_numpy()).all()


@pytest.mark.parametrize("form", ["csv", "feather"])
def test_a_fit_is_written_in_the_format_asked_for(form, released, blank_pictures):
    line = "postprocess out/measurements.parquet --domain domain.json --method nnls --public public.parquet"
    assert main([*line.split(), "--format", form, "-o", "fit", "--quiet"]) == 0
    seeded = ".seeded" * (form == "csv")
    assert {f"fitted{seeded}.{form}", f"synthetic{seeded}.{form}"} <= set(names_in(released / "fit"))


@pytest.mark.parametrize(("form", "seeded"), [("csv", ".seeded"), ("feather", "")])
def test_measurements_of_every_format_keep_the_mark_of_a_seed(form, seeded, released, capsys, blank_pictures):
    out, name = released / "out", f"measurements{seeded}.{form}"
    for stem in ("answers", "measurements", "synthetic"):
        (out / f"{stem}.parquet").unlink()
    assert main(["finish", "out", "--format", form, "--quiet"]) == 0
    line = f"postprocess out/{name} --domain domain.json --method nnls --public public.parquet -o fit --json"
    assert main(line.split()) == 0
    assert json.loads(capsys.readouterr().out)["for_release"] is False
    domain = pmw.Domain.read("domain.json")
    assert not pmw.read_table(out / f"synthetic{seeded}.{form}", domain, private=False).for_release


@pytest.mark.parametrize(
    "line",
    [
        "measure --private private.parquet --domain domain.json --marginals 2 --epsilon 1 --seed 5 -o new",
        "postprocess out/measurements.parquet --domain domain.json --public public.parquet --method nnls "
        "-o new",
    ],
)
def test_reports_of_fits_and_of_unbiased_answers_have_a_heading_too(line, released, blank_pictures):
    assert main([*line.split(), "--title", "Of <people>", "--quiet"]) == 0
    page = (released / "new" / "report.html").read_text("utf-8")
    assert "<title>NOT FOR RELEASE: Of &lt;people&gt;</title>" in page
    assert "<h1>Of &lt;people&gt;</h1>" in page


@pytest.mark.parametrize("raw", [False, True])
def test_no_csv_has_a_label_that_a_spreadsheet_program_would_run_unless_asked(
    raw, tmp_path, monkeypatch, blank_pictures
):
    monkeypatch.chdir(tmp_path)
    domain = pmw.Domain({"=x": ["=1+1", "plain"], "@y": ["-5", "+49 1"]})
    domain.write("domain.json")
    rng = np.random.default_rng(1)
    for name in ("private", "public"):
        pmw.Table.from_codes(rng.integers(0, 2, (400, 2)), domain, private=False).write(f"{name}.parquet")
    more = ["--format", "raw-csv" if raw else "csv", "--quiet"]
    assert main([*release_line(), *more]) in RELEASED
    measure = ["measure", "--private", "private.parquet", "--domain", "domain.json", "--epsilon", "1"]
    assert main([*measure, "-o", "unbiased", *more]) == 0
    fit = ["postprocess", "out/measurements.csv", "--domain", "domain.json", "--method", "nnls", "-o", "fit"]
    assert main([*fit, *more]) == 0  # it takes labels and names in either spelling
    guard = "" if raw else "'"
    expected = {f"{guard}=1+1", "plain", "-5", f"{guard}+49 1"}
    for file in ("out/answers.csv", "out/measurements.csv", "unbiased/answers.csv", "fit/fitted.csv"):
        columns = read(tmp_path / file).to_pydict()
        values = {*columns["value_1"], *columns["value_2"]} if "value_2" in columns else {*columns["value_1"]}
        assert values - {"", None} <= expected, file
        assert {f"{guard}=1+1", "plain"} <= values, file
        assert f"{guard}=x" in columns["attribute_1"]
    for file in ("out/synthetic.csv", "fit/synthetic.csv"):
        columns = read(tmp_path / file).to_pydict()
        assert list(columns) == [f"{guard}=x", f"{guard}@y"]
        assert f"{guard}=1+1" in columns[f"{guard}=x"]
        assert pmw.read_table(file, domain, private=False).n > 0
