"""The command line as a person uses it: files in, files out, and what it says on the way."""

import json
import re

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import pyarrow as pa
import pyarrow.parquet as parquet

import privmw as pmw
import privmw.cli.answer
import privmw.cli.inspect
import privmw.cli.refusal
from cli.cases import ATTRIBUTES, FILES, RELEASED, N, names_in, release_line, write_pair
from privmw.cli import COMMANDS, main


@pytest.fixture
def here(tmp_path, monkeypatch, blank_pictures):
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    return tmp_path


def test_a_release_writes_its_files_and_states_its_promise_first(here, capsys):
    assert main(release_line()) in RELEASED
    said = capsys.readouterr()
    assert set(names_in(here / "out")) == FILES
    assert said.out.startswith("Protected: one record of 400 (a public number)")
    assert "epsilon = 1 " in said.out
    assert "not for release" not in said.out.lower()
    assert "Written:\n  out/answers.parquet" in said.out
    assert names_in(here) == ["domain.json", "out", "private.parquet", "public.parquet"]


def test_every_file_of_a_release_says_the_same(released):
    out = released / "out"
    release = pmw.load_release(out / "release.npz")
    answers = parquet.read_table(out / "answers.parquet")
    assert np.array_equal(answers["answer"].to_numpy(), release.answers())
    measured = parquet.read_table(out / "measurements.parquet")
    assert measured.num_rows == sum(map(len, release.measurements))
    told = json.loads((out / "privacy.json").read_text())
    assert told["statement"] == release.statement()
    assert pmw.accounting.Ledger.from_json(json.dumps(told["ledger"])) == release.ledger
    assert (told["epsilon"], told["n"], told["for_release"]) == (
        release.ledger.epsilon(told["delta"]),
        N,
        False,
    )
    synthetic = pmw.read_table(out / "synthetic.parquet", release.support.domain, private=False)
    assert synthetic == release.sample(seed=1)
    assert "What is promised" in (out / "report.html").read_text("utf-8")


@pytest.mark.parametrize(
    "method", ["auto", "mw-pub", "pep", "mwem", "mwem-pub", "gem", "dual-query", "fem", "rap"]
)
def test_every_method_releases(method, here, capsys):
    rounds = {"auto": None, "gem": "1"}.get(method, "3")  # a round of GEM trains a network
    public = None if method in ("mwem", "rap", "gem") else "public.parquet"  # GEM-Pub is trained for longer
    # Three rounds of MWEM do not reach what they measured, and it says so.
    assert main([*release_line(method=method, rounds=rounds, public=public), "--json"]) in RELEASED
    told = json.loads(capsys.readouterr().out)
    names = {
        "auto": "PEP",
        "mw-pub": "MWPub",
        "pep": "PEP",
        "mwem": "MWEM",
        "mwem-pub": "MWEMPub",
        "gem": "GEM",
        "dual-query": "DualQuery",
        "fem": "FEM",
        "rap": "RAP",
    }
    assert told["settings"]["algorithm"] == names[method]
    assert told["epsilon"] <= 1
    assert told["for_release"] is True
    without = {"public-values.parquet"} if method in ("mwem", "gem", "rap") else set()
    assert set(told["files"]) == FILES - without


@pytest.mark.parametrize("method", ["dual-query", "fem"])
def test_best_responses_do_without_a_public_file_and_say_that_nothing_is_measured(method, here, capsys):
    assert main(release_line(method=method, public=None, rounds=3, seed=1)) == 0
    told = capsys.readouterr()
    told = told.out + told.err
    assert "measured: nothing" in told
    assert "no public table: rows are grown from what is drawn alone" in told
    assert "Nothing was measured: there are no noisy counts" in told


def test_a_delta_of_zero_is_pure_privacy(here, capsys):
    assert main([*release_line(method="mwem", public=None, delta=0, rounds=2), "--json"]) in RELEASED
    told = json.loads(capsys.readouterr().out)
    assert (told["epsilon"], told["delta"]) == (1, 0)


def test_a_seed_repeats_a_run_and_marks_it(released, capsys):
    assert main(release_line(seed=1, output="again")) == 0
    assert "NOT FOR RELEASE" in capsys.readouterr().out
    for name in FILES:
        assert (released / "out" / name).read_bytes() == (released / "again" / name).read_bytes(), name


def test_a_config_records_a_run_and_repeats_it_with_changes(here, capsys):
    assert main(release_line(seed=3, config="run.toml", marginals="1,2")) == 0
    recorded = (here / "run.toml").read_text()
    assert 'private = "private.parquet"' in recorded
    assert "marginals = [1, 2]" in recorded
    assert main(["release", "--config", "run.toml", "-o", "again"]) == 0
    one, two = (pmw.load_release(here / name / "release.npz") for name in ("out", "again"))
    assert one == two
    assert len(two.workload) == ATTRIBUTES + ATTRIBUTES * (ATTRIBUTES - 1) // 2
    assert (here / "run.toml").read_text() == recorded
    assert main(["release", "--config", "run.toml", "-o", "other", "--epsilon", "2"]) == 0
    assert pmw.load_release(here / "other" / "release.npz").ledger.rho > one.ledger.rho


def test_a_config_is_not_recorded_for_a_run_that_failed(here, capsys):
    assert main(release_line(config="run.toml", private="missing.parquet")) == 2
    assert not (here / "run.toml").exists()


def test_answers_on_the_command_line_are_the_releases(released, capsys):
    domain = pmw.Domain.read("domain.json")
    release = pmw.load_release("out/release.npz")
    name, label = domain.names[1], domain[domain.names[1]].label(0)
    code = domain["age"].code(37)
    in_words = f"age={domain['age'].label(code)}"
    assert main(["answer", "out", "--query", f"age=37,{name}={label}", "--query", in_words, "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["answers"]
    assert first["fraction"] == release.answer(["age", name], [code, 0])
    assert first["count"] == first["fraction"] * N
    assert second["fraction"] == release.answer(["age"], [code])


def test_an_evaluation_says_that_it_is_not_private_and_leaves_the_release_alone(released, capsys):
    before = {path.name: path.read_bytes() for path in (released / "out").iterdir()}
    assert main(["evaluate", "out", "--private", "private.parquet"]) == 0
    assert capsys.readouterr().out.startswith("NOT PRIVATE")
    assert before == {path.name: path.read_bytes() for path in (released / "out").iterdir()}
    folder = released / "out-not-private"
    assert names_in(folder) == ["evaluation.json", "report.html"]
    told = json.loads((folder / "evaluation.json").read_text())
    assert told["for_release"] is False
    release = pmw.load_release("out/release.npz")
    private = pmw.read_table("private.parquet", release.support.domain, private=True)
    assert told["release"]["max_error"] == pmw.evaluate(release, private).max_error
    truth = private.counts(release.workload) / N
    start = np.abs(release.support.answers(release.workload) - truth).max()
    assert told["public_start"]["max_error"] == pytest.approx(start, abs=1e-12)
    assert "NOT PRIVATE" in (folder / "report.html").read_text("utf-8")
    assert "NOT PRIVATE" not in (released / "out" / "report.html").read_text("utf-8")


def test_inspect_tells_of_public_things_what_a_release_will_do(here, capsys):
    line = [
        "inspect",
        "public.parquet",
        "--domain",
        "domain.json",
        "--marginals",
        "2",
        "--n",
        "5000",
        "--json",
    ]
    assert main(line) == 0
    told = json.loads(capsys.readouterr().out)
    support = pmw.Support.from_table(
        pmw.read_table("public.parquet", pmw.Domain.read("domain.json"), private=False)
    )
    assert (told["rows"], told["records"], told["marginals"], told["n"]) == (support.size, N, 6, 5000)
    assert told["plan"]["noise"][0]["fraction"] > 0
    assert main([*line[:-1], "--epsilon", "0.5", "--method", "mw-pub", "--rounds", "7"]) == 0
    assert "7 rounds" in capsys.readouterr().out


def test_inspect_reckons_with_the_unit(here, capsys):
    line = ["inspect", "public.parquet", "--domain", "domain.json", "--marginals", "2"]
    line += ["--n", "5000", "--method", "mw-pub", "--rounds", "7"]
    told = []
    for unit in ([], ["--unit", "household", "--at-most", "3"]):
        assert main([*line, *unit, "--json"]) == 0
        told.append(json.loads(capsys.readouterr().out))
    assert [(one["unit"], one["at_most"]) for one in told] == [("record", 1), ("household", 3)]
    one, three = (found["plan"]["noise"][0]["scale"] for found in told)
    assert three == pytest.approx(3 * one)
    assert main([*line, "--unit", "household", "--at-most", "3"]) == 0
    assert "neighbouring tables replace one household of at most 3 records." in capsys.readouterr().out
    assert main([*line, "--unit", "household"]) != 0
    assert "--unit (household) must come with --at-most" in capsys.readouterr().err


def test_a_proposed_domain_reads_the_file_it_came_from(here, capsys):
    assert main(["domain", "public.parquet", "-o", "proposed.json"]) == 0
    domain = pmw.Domain.read("proposed.json")
    assert len(domain) == ATTRIBUTES
    assert pmw.read_table("public.parquet", domain, private=False).n == N
    capsys.readouterr()
    assert (
        main(["domain", "public.parquet", "--columns", "age,sex", "--bins", "3", "--setting", "other=else"])
        == 0
    )
    printed = json.loads(capsys.readouterr().out)
    assert list(printed) == ["age", "sex"]
    assert printed["age"]["open"]
    assert printed["sex"]["other"] == "else"
    closed = ["--setting", "other=", "--setting", "missing=no"]
    assert main(["domain", "public.parquet", "--columns", "age,sex", *closed]) == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["sex"] == ["F", "M"]
    assert "missing" not in printed["age"]


def test_constraints_leave_no_weight_on_rows_that_break_them(here, capsys):
    domain = pmw.Domain.read("domain.json")
    name, label = domain.names[1], domain[domain.names[1]].label(0)
    age = domain["age"].label(domain["age"].code(37))
    (here / "rules.json").write_text(json.dumps({"invalid": [{"age": [age], name: [label]}]}))
    assert main(release_line(constraints="rules.json", seed=0)) == 0
    assert main(["answer", "out", "--query", f"age=37,{name}={label}", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["answers"][0]["fraction"] == 0


def test_records_that_are_other_among_numbers_are_evaluated_too(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rooms = pa.table({"rooms": [1, 2, 3, 9, None] * 40, "owner": [True, False] * 100})
    parquet.write_table(rooms, "public.parquet")
    parquet.write_table(rooms, "private.parquet")
    pmw.Domain({"rooms": {"labels": [1, 2, 3], "other": "more"}, "owner": ["false", "true"]}).write(
        "domain.json"
    )
    assert main(release_line(epsilon=100, seed=0, public_is_public=True)) == 0
    assert main(["evaluate", "out", "--private", "private.parquet", "--json"]) == 0
    told = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert told["synthetic"]["max_error"] < 0.02


def test_quiet_says_nothing_and_json_says_one_object(here, capsys):
    assert main([*release_line(), "--quiet"]) in RELEASED
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "")
    assert main([*release_line(output="two"), "--json"]) in RELEASED
    said = capsys.readouterr()
    assert len(said.out.splitlines()) == 1
    assert said.err == ""


@pytest.mark.parametrize("bins", ["label", "midpoint", "draw"])
def test_synthetic_records_show_bins_as_asked(bins, here, capsys):
    assert main(release_line(bins=bins, records=50, seed=0)) == 0
    ages = parquet.read_table(here / "out" / "synthetic.parquet")["age"].to_pylist()
    assert len(ages) == 50
    public = set(parquet.read_table(here / "public.parquet")["age"].to_pylist())
    if bins == "label":
        assert all(re.fullmatch(r"\[\d+, \d+[)\]]", age) for age in ages)
    elif bins == "draw":
        assert set(ages) <= public


def test_intervals_are_written_beside_answers_when_asked_for(here, capsys):
    assert main(release_line(intervals="0.9", seed=3)) in RELEASED
    table = parquet.read_table(here / "out" / "answers.parquet")
    assert table.column_names[-5:] == ["answer", "standard_error", "low", "high", "represented"]
    release = pmw.load_release(here / "out" / "release.npz")
    np.testing.assert_array_equal(table["high"].to_numpy(), release.intervals(0.9).high)
    assert json.loads(table.schema.metadata[b"privmw"])["level"] == 0.9
    assert "How far off answers are expected to be" in (here / "out" / "report.html").read_text()
    capsys.readouterr()
    (here / "out" / "answers.parquet").unlink()
    assert main(["finish", "out", "--intervals", "0.8"]) in RELEASED
    again = parquet.read_table(here / "out" / "answers.parquet")
    np.testing.assert_array_equal(again["high"].to_numpy(), release.intervals(0.8).high)
    assert main(["finish", "out", "--intervals", "0.8"]) == 2
    assert "answers.parquet exists" in capsys.readouterr().err
    assert main(release_line(intervals="1.5", output="other")) == 2
    assert "--intervals (1.5) must be from 0.5 to 0.999" in capsys.readouterr().err


def test_some_marginals_can_be_sampled(here, capsys):
    assert main([*release_line(sample=2), "--json"]) in RELEASED
    assert len(pmw.load_release("out/release.npz").workload) == 2


def test_the_demo_goes_the_whole_way(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    assert main(["demo", "--n", "500"]) == 0
    said = capsys.readouterr().out
    for command in ("inspect", "release", "evaluate", "answer"):
        assert f"$ privmw {command}" in said
    demo = tmp_path / "privmw-demo"
    assert names_in(demo) == [
        "domain.json",
        "out",
        "out-not-private",
        "private.parquet",
        "public.parquet",
    ]
    assert set(names_in(demo / "out")) == FILES
    told = json.loads((demo / "out-not-private" / "evaluation.json").read_text())
    assert told["release"]["max_error"] < told["public_start"]["max_error"]


@pytest.mark.parametrize("command", [None, *COMMANDS])
def test_every_command_explains_itself(command, capsys):
    assert main([*([] if command is None else [command]), "--help"]) == 0
    assert "usage: privmw" in capsys.readouterr().out


def test_a_household_is_protected_whole_and_accounted_for(here, capsys):
    table = parquet.read_table("private.parquet")
    households = pa.array([number // 3 for number in range(table.num_rows)])
    parquet.write_table(table.append_column("household", households), "private.parquet")
    assert (
        main(["account", "new", "spent.jsonl", "--epsilon", "3", "--delta", "1e-6", "--unit", "household"])
        == 0
    )
    for output, most in (("two", 2), ("one", 1)):
        more = {"unit": "household", "at_most": most, "account": "spent.jsonl", "delta": "1e-6"}
        assert main(release_line(**more, output=output)) in RELEASED
        assert f"Protected: one household of at most {most} record" in capsys.readouterr().out
        release = pmw.load_release(f"{output}/release.npz")
        assert release.n == sum(min(most, 3 if number < N // 3 else N % 3) for number in range(N // 3 + 1))
        assert release.ledger.epsilon(1e-6) <= 1
    assert len(pmw.Account("spent.jsonl").runs) == 2
    assert main(release_line(account="spent.jsonl", delta="1e-6", output="records")) == 2
    assert "unit ('record') must be the account's 'household'" in capsys.readouterr().err
    assert main(release_line(unit="household", output="half")) == 2
    assert "--unit (household) must come with --at-most" in capsys.readouterr().err
