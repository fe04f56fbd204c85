"""`privmw postprocess` as a person uses it: noisy counts in, fitted ones and records out, or one line."""

import json

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import pyarrow as pa
import pyarrow.parquet as parquet

import privmw as pmw
import privmw.extensions.postprocess.command
from cli.cases import names_in, release_line, write_pair
from privmw import postprocess
from privmw.cli import main
from privmw.extensions.postprocess.command import FITS

FILES = ["certificate.json", "fitted.parquet", "report.html", "synthetic.parquet"]
DOMAIN = pmw.Domain({"age": {"edges": [0, 18, 65, 100]}, "sex": ["F", "M"]})
TRUE = np.array([[60.0, 55], [110, 0], [0, 20]])


@pytest.fixture
def here(tmp_path, monkeypatch, blank_pictures):
    """noisy.csv and domain.json: the total, both marginals and the histogram of 245 people."""
    monkeypatch.chdir(tmp_path)
    DOMAIN.write("domain.json")
    rng = np.random.default_rng(4)
    lines = ["attribute_1,value_1,attribute_2,value_2,noisy_count,noise,scale"]
    for names, axes in (((), (0, 1)), (("age",), 1), (("sex",), 0), (("age", "sex"), ())):
        counts = TRUE.sum(axis=axes)
        for codes in np.ndindex(counts.shape):
            words = [f'{name},"{DOMAIN[name].label(code)}"' for name, code in zip(names, codes, strict=True)]
            told = ",".join(words + [","] * (2 - len(words)))
            lines.append(f"{told},{counts[codes] + rng.laplace(0, 8):.3f},laplace,8")
    (tmp_path / "noisy.csv").write_text("\n".join(lines) + "\n")
    return tmp_path


def line(*more, method="reweight", measurements="noisy.csv", output="out"):
    words = ["postprocess", measurements, "--domain", "domain.json", "--method", method, "-o", output]
    return [*words, *map(str, more)]


def refused(capsys, *words, said, code=2):
    assert main(list(words)) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert said in captured.err
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("method", FITS)
def test_every_method_writes_what_the_library_fits(method, here, capsys):
    assert main(line(method=method)) == 0
    said = capsys.readouterr().out
    assert "Solved: " in said
    assert "6 rows, all that the domain has" in said
    measured = postprocess.read_noisy_marginals("noisy.csv", DOMAIN)
    fit = FITS[method](measured)
    found = parquet.read_table("out/fitted.parquet").to_pydict()
    assert found["fitted"] == fit.fitted_counts().tolist()
    assert found["noisy_count"] == measured.noisy_counts.tolist()
    assert found["standard_deviation"] == np.sqrt(measured.variances).tolist()
    told = json.loads((here / "out" / "certificate.json").read_text())
    assert told["method"] == fit.certificate.method
    assert told["misfit"] == fit.certificate.misfit
    assert told["unique"]
    assert len(told["stages"]) == len(fit.certificate.stages)
    if method == "ols":
        assert names_in(here / "out") == FILES[:3]
        assert "No synthetic records: some weights are negative" in said
    else:
        assert names_in(here / "out") == FILES
        records = pmw.read_table("out/synthetic.parquet", DOMAIN, private=False)
        assert abs(records.n - fit.weights.sum()) <= 1


def test_a_public_number_of_records_is_held(here, capsys):
    assert main(line("--records", 245)) == 0
    assert parquet.read_table("out/synthetic.parquet").num_rows == 245
    assert "weigh 245 records" in capsys.readouterr().out


def test_a_public_file_says_which_rows_there_are(here, capsys):
    parquet.write_table(pa.table({"age": [5, 30, 30, 70], "sex": ["F", "F", "F", "M"]}), "public.parquet")
    assert main(line("--public", "public.parquet", "--bins", "draw", "--seed", 1, "--json")) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["rows"] == 3
    assert told["files"] == FILES
    assert told["unreached"] > 3
    assert told["records"] == parquet.read_table("out/synthetic.parquet").num_rows
    found = parquet.read_table("out/synthetic.parquet").to_pydict()
    assert set(zip(found["age"], found["sex"], strict=True)) <= {(5, "F"), (30, "F"), (70, "M")}


def test_constraints_leave_no_records_that_break_them(here, capsys):
    (here / "rules.json").write_text('{"invalid": [{"age": ["[0, 18)"], "sex": ["F"]}]}')
    assert main(line("--constraints", "rules.json")) == 0
    records = pmw.read_table("out/synthetic.parquet", DOMAIN, private=False)
    assert not ((records.column("age") == 0) & (records.column("sex") == 0)).any()
    assert "No row of the support lies in 1 measured cell" in capsys.readouterr().out


def test_priorities_are_followed(here, capsys):
    assert main(line("--setting", "priorities=sex; total + age; age,sex", method="sequential")) == 0
    told = json.loads((here / "out" / "certificate.json").read_text())
    assert [stage["name"] for stage in told["stages"]] == ["sex", "total; age", "age x sex"]


def test_reweight_and_max_fit_take_their_settings(here, capsys):
    measured = postprocess.read_noisy_marginals("noisy.csv", DOMAIN)
    assert main(line("--setting", "downweight=std", "--setting", "confidence=0.9", "--quiet")) == 0
    expected = postprocess.reweight(measured, downweight="std", confidence=0.9).fitted_counts()
    assert parquet.read_table("out/fitted.parquet")["fitted"].to_pylist() == expected.tolist()
    assert main(line("--setting", "slack=1", "--quiet", method="max-fit", output="other")) == 0
    expected = postprocess.max_fit(measured, slack=1.0).fitted_counts()
    assert parquet.read_table("other/fitted.parquet")["fitted"].to_pylist() == expected.tolist()
    assert capsys.readouterr().out == ""


def test_randomised_rounding_follows_its_seed(here, capsys):
    for name in ("a", "b"):
        assert main(line("--setting", "rounding=randomised", "--seed", 3, "--quiet", output=name)) == 0
    assert parquet.read_table("a/synthetic.parquet") == parquet.read_table("b/synthetic.parquet")


def test_what_a_release_measured_is_fitted_and_a_seed_stays_marked(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    assert main(release_line(seed=1)) == 0
    words = line(
        "--public", "public.parquet", measurements="out/measurements.parquet", output="fit", method="nnls"
    )
    assert main(words) == 0
    assert "NOT FOR RELEASE" in capsys.readouterr().out
    assert not json.loads((tmp_path / "fit" / "certificate.json").read_text())["for_release"]
    assert "NOT FOR RELEASE" in (tmp_path / "fit" / "report.html").read_text("utf-8")
    assert names_in(tmp_path / "fit") == FILES


def test_answers_of_nothing_have_no_records(here, capsys):
    (here / "none.csv").write_text(
        "attribute_1,value_1,noisy_count,noise,scale\nsex,F,-9,laplace,2\nsex,M,-3,laplace,2\n"
    )
    assert main(line(measurements="none.csv", method="nnls")) == 0
    assert "less than half a record" in capsys.readouterr().out
    assert names_in(here / "out") == FILES[:3]


def test_more_records_than_memory_holds_are_not_made(here, capsys):
    (here / "many.csv").write_text("attribute_1,value_1,noisy_count,noise,scale\nsex,F,1e15,laplace,2\n")
    assert main(line(measurements="many.csv", method="nnls")) == 0
    assert "1e+15 records do not fit in memory" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            line("--setting", "downweight=std", method="nnls"),
            "(downweight=std) must come with --method reweight",
        ),
        (line("--setting", "priorities=total"), "(priorities=total) must come with --method sequential"),
        (line("--setting", "slack=1"), "--setting (slack=1) must come with --method max-fit"),
        (line("--bins", "draw"), "--bins (draw) must come with --public"),
        (
            line("--setting", "priorities=total;agee", method="sequential"),
            "priorities: attribute 'agee' is not in",
        ),
        (
            line("--setting", "priorities=total", method="sequential"),
            "priorities must cover all that was measured",
        ),
        (
            line("--setting", "priorities=total;total;age;sex;age,sex", method="sequential"),
            "each marginal only once",
        ),
        (
            line("--setting", "priorities=", method="sequential"),
            "priorities: attribute '' is not in the domain",
        ),
        (line("--setting", "confidence=1"), "confidence (1.0) must be above 0 and below 1"),
        (line(method="wavelets"), "--method (wavelets) must be ols, nnls"),
        (line("--records", "0"), "must be positive"),
        (line(measurements="none.parquet"), "none.parquet must exist"),
        (line(measurements="domain.json"), "domain.json must be a .parquet, .csv"),
        (line("--public", "none.parquet"), "--public (none.parquet) must exist"),
        (line("--constraints", "none.json"), "none.json"),
        (line(output="nowhere/out"), "--output (nowhere/out) must lie in a folder that exists"),
        (line(output="domain.json"), "--output (domain.json) exists"),
        (["postprocess"], "required"),
    ],
)
def test_bad_options_are_refused_in_one_line(words, said, here, capsys):
    before = names_in(here)
    refused(capsys, *words, said=said)
    assert names_in(here) == before


def test_a_bad_file_is_refused_and_nothing_is_written(here, capsys):
    with open("noisy.csv", "a") as file:
        file.write("age,300,,,1,laplace,8\n")
    refused(
        capsys,
        *line(),
        said="noisy.csv: column 'value_1': attribute 'age': value (300) must be from 0 to 100",
    )
    assert names_in(here) == ["domain.json", "noisy.csv"]


def test_a_domain_too_large_to_weigh_is_refused_with_a_hint(here, capsys):
    pmw.Domain({"sex": ["F", "M"], "id": 2**31}).write("large.json")
    (here / "few.csv").write_text("attribute_1,value_1,noisy_count,noise,scale\nsex,F,9,laplace,2\n")
    words = [word.replace("domain.json", "large.json") for word in line(measurements="few.csv")]
    refused(capsys, *words, said="must have at most 2^28 rows to weigh them all (give --public")


def test_mixed_noise_is_told_to_those_who_reweight(here, capsys):
    with open("noisy.csv", "a") as file:
        file.write("sex,F,,,99,gaussian,8\n")
    refused(capsys, *line(), said="marginal ('sex',) must have one noise for all its cells")
    assert main(line("--quiet", method="nnls")) == 0
