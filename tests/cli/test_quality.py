"""What commands say about a release that cannot be right, before it is made and after."""

import json

import numpy as np
import pytest

pytest.importorskip("pyarrow")

import privmw as pmw
from privmw.cli import main, quality
from privmw.cli.refusal import EXIT_DISAGREES, RefusalError
from privmw.extensions.population import draw_population, population_domain

DOMAIN = population_domain(6)
WORKLOAD = pmw.Workload.all(DOMAIN, k=3)


def people(seed, n=4_000, private=False):
    return draw_population(n, attributes=6, seed=seed, private=private)


def support(seed=1):
    return pmw.Support.from_table(people(seed))


def said(before):
    return "\n".join(before.lines)


def test_what_is_asked_and_what_is_measured_is_one_line_where_they_differ():
    rows, mechanism = support(), pmw.PEP(select="all", order=1, particles=1_000).calibrate(rho=0.001)
    before = quality.preflight(mechanism, rows, WORKLOAD, 4_000)
    (level,) = mechanism.noise(WORKLOAD, 4_000)
    line = before.lines[0]
    assert line.startswith(
        "asked: 20 marginals of 3 attributes; measured: 6 marginals of 1 attribute, with noise of "
    )
    assert f"({level.deviation / 4_000:.2%} of n)" in line
    assert line.endswith("; the rest follows from the public rows")
    assert before.facts["asked"] == {"marginals": 20, "orders": [3], "cells": WORKLOAD.cells}
    assert [(step["count"], step["orders"]) for step in before.facts["measured"]] == [(6, [1])]
    everything = quality.preflight(pmw.PEP(select="all").calibrate(rho=0.5), rows, WORKLOAD, 4_000)
    assert "asked" not in said(everything)
    cells = quality.preflight(pmw.MWPub(rounds=7).calibrate(rho=0.5), rows, WORKLOAD, 4_000)
    assert "measured: 7 single cells of 3 attributes, chosen one after the other" in said(cells)


def test_much_noise_is_a_warning_and_more_than_all_records_a_refusal():
    def before(n, **options):
        return quality.preflight(pmw.MWPub(rounds=8).calibrate(rho=0.08), support(), WORKLOAD, n, **options)

    # Noise of 10 records.
    assert "WARNING" not in said(before(51))
    assert "WARNING: the noise of a count is 20% of the records;" in said(before(50))
    assert "WARNING" in said(before(10))
    with pytest.raises(
        RefusalError, match="noise of 111% of the records is larger than every count"
    ) as refused:
        before(9)
    assert "--force" in refused.value.hint
    assert "which a release refuses without --force" in said(before(9, force=True))


def test_laplace_noise_is_told_by_its_deviation():
    mechanism = pmw.MWEMPub(rounds=4).calibrate(epsilon=1.0, delta=0)
    (level,) = mechanism.noise(WORKLOAD, 1_000)
    assert level.deviation == pytest.approx(level.scale * np.sqrt(2), rel=0.01)


def test_what_no_public_row_has_is_listed_with_what_becomes_of_it():
    codes = people(1).codes()
    codes = codes[(codes[:, 1] == 0) & ((codes[:, 0] != 3) | (codes[:, 2] != 2))]
    public = pmw.Support.from_table(pmw.Table.from_codes(codes, DOMAIN, private=False))
    before = quality.preflight(pmw.PEP(select="all").calibrate(rho=0.5), public, WORKLOAD, 4_000)
    assert (
        "1 of 29 values of the domain have no public row (sex = M); no row of the release will have it"
        in said(before)
    )
    missing = before.facts["coverage"]["pairs"]["by_attributes"]
    entry = next(entry for entry in missing if entry["attributes"] == ["age", "region"])
    assert [DOMAIN["age"].label(3), DOMAIN["region"].label(2)] in entry["first"]
    growing = quality.preflight(
        pmw.PEP(select="all", particles=1_000).calibrate(rho=0.5), public, WORKLOAD, 4_000
    )
    assert "(sex = M); rows are grown for it where what is measured asks for it" in said(growing)
    assert "at any epsilon" not in said(growing)
    assert growing.facts["coverage"] == before.facts["coverage"]


def test_no_public_table_is_one_line():
    nothing = pmw.Support.without_public(DOMAIN)
    before = quality.preflight(
        pmw.PEP(select="all", particles=1_000).calibrate(rho=0.5), nothing, WORKLOAD, 4_000
    )
    assert before.lines == ("no public table: rows are grown from what is measured alone",)
    assert before.facts["coverage"]["lacking"] == list(DOMAIN.names)


def disagreeing():
    private = people(2).codes()
    public = people(1).codes()
    public = public[public[:, 1] == 0]  # no person is M
    return pmw.PEP(select="all").release(
        pmw.Table.from_codes(private, DOMAIN, private=True),
        pmw.Support.from_table(pmw.Table.from_codes(public, DOMAIN, private=False)),
        WORKLOAD,
        epsilon=1.0,
        delta=1e-6,
        rng=1,
    )


def test_a_release_that_disagrees_says_so_everywhere_alike():
    release = disagreeing()
    agreement, after = release.agreement(), quality.postflight(release)
    assert after.code == EXIT_DISAGREES == 3
    text = "\n".join(after.lines)
    assert text.startswith("DISAGREES with what was measured, beyond chance: ")
    assert all(words in text for words in (*agreement.reasons, *agreement.remedy))
    facts = json.loads(json.dumps(after.facts, allow_nan=False))
    assert (facts["agrees"], facts["for_release"], facts["level"]) == (False, False, 0.001)
    assert facts["reasons"] == list(agreement.reasons)
    assert facts["agreement"]["within"] == list(agreement.within)
    assert facts["agreement"]["cells_beyond_chance"] == len(agreement.beyond)
    assert len(facts["agreement"]["first_cells_beyond_chance"]) == min(len(agreement.beyond), quality.LISTED)
    sex = next(entry for entry in facts["agreement"]["attributes"] if entry["name"] == "sex")
    assert {"value": "M", "reached": False, "beyond_chance": True}.items() <= sex["values"][0].items()
    assert facts["coverage"]["values"]["by_attribute"][0]["first"] == [["M"]]


def test_a_release_that_agrees_ends_well():
    release = pmw.release_auto(people(2, private=True), support(), WORKLOAD, epsilon=1.0, delta=1e-6, rng=1)
    known = quality.preflight(pmw.PEP(select="all").calibrate(rho=0.5), support(), WORKLOAD, 4_000)
    after = quality.postflight(release, known)
    assert after.code == 0
    grown, agrees, shares = after.lines
    assert shares.startswith("Quality: shares of one attribute")
    assert agrees.startswith("Agrees with what was measured: of ")
    growth = release.growth()
    rows = f"{release.support.size:,} rows: {growth.public_rows:,} public, {growth.grown_rows:,} grown, which"
    assert grown.startswith(f"{rows} carry {growth.mass:.1%} of the records")
    assert after.facts["growth"]["mass"] == growth.mass
    assert after.facts["agrees"]
    assert after.facts["coverage"] == known.facts["coverage"]
    assert after.facts["measured"]["cells"] == WORKLOAD.cells
    json.dumps(after.facts, allow_nan=False)


def test_inspect_says_what_is_measured_and_what_is_not_covered(released, capsys):
    line = ["inspect", "public.parquet", "--domain", "domain.json", "--marginals", "3", "--epsilon", "0.01"]
    assert main(line) == 0
    text = capsys.readouterr().out
    assert "quality    asked: 4 marginals of 3 attributes; measured: " in text
    assert "WARNING: the noise of a count is " in text
    assert main([*line, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["quality"]
    assert set(told) == {"asked", "measured", "coverage"}


def test_an_answer_for_a_number_says_that_it_is_for_its_bin(released, capsys):
    assert main(["answer", "out", "--query", "age=37,sex=F", "--query", "age=[35, 45)"]) == 0
    number, named = capsys.readouterr().out.splitlines()
    assert number.endswith("; this is the answer for age in [35, 45)")
    assert "this is the answer" not in named
    assert main(["answer", "out", "--query", "age=37", "--query", "sex=F", "--json"]) == 0
    first, second = json.loads(capsys.readouterr().out)["answers"]
    assert (first["bin"], first["other"]) == ({"age": "[35, 45)"}, {})
    assert (second["bin"], second["other"]) == ({}, {})
    for level, widths in ((0.5, 1), (0, 0)):
        assert main(["answer", "out", "--query", "sex=F", "--intervals", str(level)]) == 0
        assert capsys.readouterr().out.count(f"{level:.0%} interval") == widths


def test_an_answer_for_an_unknown_label_says_that_it_is_for_all_others(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    domain = pmw.Domain({"sex": {"labels": ["F", "M"], "other": "X"}})
    private = pmw.Table.from_codes([[0], [1], [2]] * 10, domain, private=True)
    release = pmw.MWEM(rounds=1).release(private, None, pmw.Workload.all(domain, k=1), epsilon=1, delta=0)
    (tmp_path / "out").mkdir()
    release.save(tmp_path / "out" / "release.npz")
    assert main(["answer", "out", "--query", "sex=Male", "--json"]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert (answer["bin"], answer["other"]) == ({}, {"sex": "X"})
    assert main(["answer", "out", "--query", "sex=Male"]) == 0
    assert "this is the answer for any other sex, 'X'" in capsys.readouterr().out
