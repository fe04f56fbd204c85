"""Scores of synthetic records beside private ones: what they say of good, poor and copied records."""

import numpy as np
import pytest

import privmw as pmw
from privmw.data.constraints import Constraints
from privmw.extensions.evaluation.scores import k_marginal

pytest.importorskip("sklearn")

DOMAIN = pmw.Domain({"sex": ["F", "M"], "age": 12, "job": 6, "income": ["low", "high"], "place": 15})


def people(n, seed, private=False):
    rng = np.random.default_rng(seed)
    sex, age, place = rng.integers(0, 2, n), rng.integers(0, 12, n), rng.integers(0, 15, n)
    job = (age // 2 + rng.integers(0, 3, n)) % 6
    income = (job + 2 * sex + rng.normal(0, 1.5, n) > 4).astype(int)
    codes = np.column_stack([sex, age, job, income, place])
    return pmw.Table.from_codes(codes, DOMAIN, private=private)


PRIVATE, HELD_OUT = people(2_000, 1, private=True), people(2_000, 2, private=True)
WORKLOAD = pmw.Workload.all(DOMAIN, k=2)
RULES = pmw.Constraints({"invalid": [{"age": [0], "income": ["high"]}]}, DOMAIN)


def scores(table, **options):
    given = {"target": "income", "constraints": RULES, "held_out": HELD_OUT, **options}
    return pmw.evaluate(table, PRIVATE, WORKLOAD, **given).records


def shuffled(table):
    rng = np.random.default_rng(3)
    codes = np.column_stack([rng.permutation(column) for column in table.codes().T])
    return pmw.Table.from_codes(codes, DOMAIN, private=False)


def test_good_records_have_better_scores_than_shuffled_ones():
    fresh = people(2_000, 4)
    (good,), (poor,) = scores(fresh), scores(shuffled(fresh))
    assert good.k_marginal > poor.k_marginal + 50
    assert good.pmse < poor.pmse
    assert good.auc > 0.75 > 0.6 > poor.auc
    assert abs(good.auc - good.auc_of_real) < 0.05
    assert good.group == "all records"
    assert good.records == 2_000
    assert 0 < poor.broken < 0.2


def test_copied_records_are_nearer_to_private_than_to_held_out_ones():
    copied = pmw.Table.from_codes(people(2_000, 1).codes(), DOMAIN, private=False)
    (fresh,), (copy,) = scores(people(2_000, 4)), scores(copied)
    assert copy.same == 1
    assert copy.nearer > 0.6
    assert 0.45 < fresh.nearer < 0.55
    assert fresh.same == pytest.approx(fresh.same_held_out, abs=0.06)
    (alone,) = scores(people(2_000, 4), held_out=None)
    assert alone.nearer is None
    assert alone.same_held_out is None


def test_every_group_has_its_scores():
    lopsided = people(2_000, 4).codes()
    women = lopsided[:, 0] == 0
    lopsided[women, 4] = 0
    found = scores(pmw.Table.from_codes(lopsided, DOMAIN, private=False), by="sex")
    assert [one.group for one in found] == ["all records", "sex = F", "sex = M"]
    assert found[1].k_marginal < found[2].k_marginal - 100
    assert sum(one.records for one in found[1:]) == found[0].records
    assert "sex = F: k-marginal " in str(found[1])


def test_a_report_has_a_picture_of_the_groups(tmp_path):
    pytest.importorskip("matplotlib")
    support = pmw.Support.from_table(people(500, 5))
    release = pmw.release_auto(PRIVATE, support, WORKLOAD, epsilon=1.0, delta=1e-6, rng=1)
    evaluation = pmw.evaluate(release, PRIVATE, by="sex")
    release.report(tmp_path / "report.html", evaluation=evaluation)
    page = (tmp_path / "report.html").read_text()
    assert "Synthetic records against private ones" in page
    assert "sex = F: k-marginal" in page
    assert pmw.evaluate(release, PRIVATE).records == ()


@pytest.mark.parametrize("name", ["target", "by"])
def test_a_target_or_group_outside_the_domain_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} \\('wage'\\) must be an attribute of the domain"):
        pmw.evaluate(people(50, 1), PRIVATE, WORKLOAD, **{name: "wage"})


def test_equal_records_have_the_largest_k_marginal_score():
    codes = PRIVATE.columns
    both = np.column_stack([np.asarray(column) for column in codes]).astype(np.int64)
    assert k_marginal(both, both, DOMAIN.sizes) == 1000


def test_scores_say_that_they_are_not_private_and_other_domains_are_refused():
    (score,) = scores(people(100, seed=1))
    assert repr(score).startswith("NOT PRIVATE: ")
    other = pmw.Domain({"x": 2})
    with pytest.raises(ValueError, match="held_out must be on the domain of the workload"):
        scores(people(100, seed=1), held_out=pmw.Table.from_codes([[0]], other, private=True))
    with pytest.raises(ValueError, match="constraints must be on the domain of the workload"):
        scores(people(100, seed=1), constraints=Constraints({}, other))
