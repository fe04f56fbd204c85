"""Counts that an engine made, as the private file of a command: what records give, or one line of refusal."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import pyarrow.parquet as parquet

import privmw as pmw
from cli.cases import FILES, RELEASED, names_in, release_line, write_pair
from privmw.cli import main
from privmw.extensions.engines import Counts
from privmw.extensions.unbiased import load_unbiased_answers


@pytest.fixture
def here(tmp_path, monkeypatch, blank_pictures):
    """The files of write_pair, and private.counts with the pairs of private.parquet."""
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    count().save("private.counts")
    return tmp_path


def count(orders=2, **options):
    domain = pmw.Domain.read("domain.json")
    private = pmw.read_table("private.parquet", domain, private=True, **options)
    return Counts.from_records(private, pmw.Workload.all(domain, k=orders))


def add_homes():
    table = parquet.read_table("private.parquet")
    parquet.write_table(table.append_column("home", [np.arange(table.num_rows) // 3]), "private.parquet")


def refused(line, capsys):
    before = names_in(Path.cwd())
    code = main(line)
    said = capsys.readouterr()
    assert (code, said.out) == (2, ""), said
    assert len(said.err.splitlines()) == 1, said.err
    assert names_in(Path.cwd()) == before
    return said.err


@pytest.mark.parametrize("method", ["auto", "mw-pub", "dual-query"])
def test_a_release_from_counts_is_that_from_records(here, method):
    for private in ("private.parquet", "private.counts"):
        line = release_line(private=private, method=method, seed=3, output=f"of-{private}")
        assert main([*line, "--quiet"]) in RELEASED
    ours, theirs = (pmw.load_release(f"of-private.{kind}/release.npz") for kind in ("counts", "parquet"))
    assert np.array_equal(ours.answers(), theirs.answers())
    assert ours.ledger.total == theirs.ledger.total


def test_a_method_without_a_public_file_takes_counts(here):
    line = release_line(private="private.counts", public=None, method="mwem", seed=3)
    assert main([*line, "--quiet"]) in RELEASED


def test_fewer_and_smaller_marginals_than_were_counted_may_be_asked(here):
    assert main([*release_line(private="private.counts", marginals="1"), "--quiet"]) in RELEASED
    assert set(names_in(here / "out")) == FILES


def test_what_is_measured_from_counts_is_that_of_records(here):
    for private in ("private.parquet", "private.counts"):
        given = ["--domain", "domain.json", "--marginals", "2", "--epsilon", "1", "--seed", "3"]
        line = ["measure", "--private", private, *given, "-o", f"of-{private}", "--quiet"]
        assert main(line) == 0
    ours, theirs = (load_unbiased_answers(f"of-private.{kind}/answers.npz") for kind in ("counts", "parquet"))
    assert np.array_equal(ours.answers(), theirs.answers())


def test_an_evaluation_by_counts_is_that_by_records(here):
    assert main([*release_line(seed=3), "--quiet"]) in RELEASED
    for kind in ("parquet", "counts"):
        assert main(["evaluate", "out", "--private", f"private.{kind}", "-o", kind, "--quiet"]) == 0
    ours, theirs = (
        json.loads((here / kind / "evaluation.json").read_text()) for kind in ("counts", "parquet")
    )
    theirs.pop("records", None)  # scores of records, which counts cannot have
    assert ours == theirs


def test_synthetic_records_come_from_counts_too(here):
    given = ["--domain", "domain.json", "--marginals", "2", "--epsilon", "1", "--yes", "--quiet"]
    assert main(["synthesize", "private.counts", "public.parquet", "-o", "new.csv", *given]) in RELEASED
    assert len((here / "new.csv").read_text().splitlines()) == 401


def test_the_cap_of_the_engine_is_what_is_paid_for(here):
    add_homes()
    count(unit="home", at_most=2).save("capped.counts")
    line = release_line(private="private.parquet", unit="home", at_most="2", seed=3, output="records")
    assert main([*line, "--quiet"]) in RELEASED
    for output, said in (("silent", {}), ("said", {"unit": "home", "at_most": "2"})):
        line = release_line(private="capped.counts", seed=3, output=output, **said)
        assert main([*line, "--quiet"]) in RELEASED
        ours, theirs = (pmw.load_release(f"{folder}/release.npz") for folder in (output, "records"))
        assert np.array_equal(ours.answers(), theirs.answers())
        assert ours.statement() == theirs.statement()
        assert "home of at most 2 records" in ours.statement()


@pytest.mark.parametrize(
    ("unit", "at_most"), [("home", "3"), ("house", "2")], ids=["another cap", "another unit"]
)
def test_a_cap_that_the_engine_did_not_apply_is_refused(here, capsys, unit, at_most):
    add_homes()
    count(unit="home", at_most=2).save("capped.counts")
    said = refused(release_line(private="capped.counts", unit=unit, at_most=at_most), capsys)
    assert "must be those of capped.counts, which protects one home of at most 2 records" in said
    said = refused(release_line(private="private.counts", unit=unit, at_most=at_most), capsys)
    assert "which protects one record" in said
    assert "a cap is applied where the records lie" in said


def test_a_marginal_that_was_not_counted_is_refused(here, capsys):
    said = refused(release_line(private="private.counts", marginals="3"), capsys)
    assert "private.counts: workload must lie in what was counted; marginal" in said
    assert "count these marginals too, or ask with --marginals for what was counted" in said


def test_counts_on_another_domain_are_refused_by_the_attribute(here, capsys):
    domain = json.loads((here / "domain.json").read_text())
    first, *_, last = domain
    (here / "turned.json").write_text(json.dumps(dict(reversed(domain.items()))))
    said = refused(release_line(private="private.counts", public=None, domain="turned.json"), capsys)
    assert "counted on another domain than --domain: the attributes are in another order" in said
    (here / "other.json").write_text(json.dumps({**domain, last: 7}))
    said = refused(release_line(private="private.counts", public=None, domain="other.json"), capsys)
    assert f"attribute '{last}' differs" in said
    assert "name the domain file that the engine counted on" in said
    del domain[first]
    (here / "less.json").write_text(json.dumps(domain))
    said = refused(release_line(private="private.counts", public=None, domain="less.json"), capsys)
    assert f"attribute '{first}' differs" in said


def test_a_file_that_others_may_read_is_refused(here, capsys):
    (here / "private.counts").chmod(0o640)
    said = refused(release_line(private="private.counts"), capsys)
    assert "'private.counts' (mode 640) must be its owner's alone: chmod 600 private.counts" in said


@pytest.mark.parametrize(
    "damage",
    [lambda content: content[: len(content) // 2], lambda content: b"", lambda content: b"age,sex\n1,2\n"],
    ids=["cut", "empty", "csv"],
)
def test_a_damaged_file_is_refused(here, capsys, damage):
    content = (here / "private.counts").read_bytes()
    (here / "private.counts").write_bytes(damage(content))
    said = refused(release_line(private="private.counts"), capsys)
    assert "'private.counts' must be a whole, unchanged private counts file" in said


def test_counts_are_no_public_file(here, capsys):
    for command in (
        release_line(public="private.counts"),
        ["inspect", "private.counts", "--domain", "domain.json", "--n", "400"],
        ["synthesize", "private.parquet", "private.counts", "-o", "new.csv", "--epsilon", "1", "--yes"],
    ):
        assert "must hold rows: counts have none to re-weight" in refused(command, capsys)


def test_no_domain_is_proposed_for_counts(here, capsys):
    line = ["synthesize", "private.counts", "public.parquet", "-o", "new.csv", "--epsilon", "1", "--yes"]
    assert "PRIVATE (private.counts) must come with --domain: it was counted on one" in refused(line, capsys)


def test_a_release_says_that_records_were_not_compared(here, capsys):
    assert main(release_line(private="private.counts")) in RELEASED
    assert "holds no records: they were not compared with the public ones" in capsys.readouterr().err


def test_counts_without_a_record_are_refused(here, capsys):
    domain = pmw.Domain.read("domain.json")
    workload = pmw.Workload.all(domain, k=2)
    Counts(workload, np.zeros(workload.cells, np.int64), n=0).save("none.counts")
    assert "private (0 records) must have at least one record" in refused(
        release_line(private="none.counts"), capsys
    )


def test_a_run_goes_on_with_the_counts_it_began_with_only(here, capsys, monkeypatch):
    """Counts that changed since are another private file."""
    line = release_line(private="private.counts", method="mw-pub", rounds="3")

    def stopped(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("privmw.cli.run_folder.RunFolder.save", stopped)
        assert main(line) == 130
    capsys.readouterr()
    count(orders=[1, 2]).save("private.counts", overwrite=True)
    assert main(line) == 2
    assert "unfinished release with other options (private)" in capsys.readouterr().err
