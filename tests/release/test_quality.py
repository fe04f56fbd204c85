"""Quality in one look: expected errors of shares, beside true errors."""

import numpy as np
import pytest

import privmw as pmw
from privmw.accounting import Ledger, Neighbors
from privmw.extensions.population import draw_population
from privmw.release import Release


def made(epsilon, public=True):
    private = draw_population(4_000, attributes=5, shift=0.5, seed=2, private=True)
    support = pmw.Support.from_table(draw_population(2_000, attributes=5, seed=1)) if public else None
    workload = pmw.Workload.all(private.domain, k=2)
    release = pmw.release_auto(private, support, workload, epsilon=epsilon, delta=1e-9, rng=1)
    true = [pmw.evaluate(release, private, pmw.Workload.all(private.domain, k=order)) for order in (1, 2)]
    return release.quality(), true


@pytest.mark.parametrize("public", [True, False])
def test_the_figures_are_near_the_true_errors(public):
    quality, true = made(1.0, public)
    assert [one.attributes for one in quality.shares] == [1, 2]
    for one, errors in zip(quality.shares, true, strict=True):
        assert one.typical / 3 < errors.rmse < 3 * one.typical
        assert one.worst / 4 < errors.max_error < 3 * one.worst
    assert quality.reason == ("" if public else "the noise alone")


def test_a_larger_budget_has_smaller_errors_in_words_and_figures():
    small, large = (made(epsilon)[0] for epsilon in (0.1, 5.0))
    assert all(a.typical > b.typical for a, b in zip(small.shares, large.shares, strict=True))
    words = str(large)
    assert words.startswith("Quality: shares of one attribute's values are typically within ")
    assert f"{100 * large.shares[1].worst:.2g}" in words
    assert large.facts["shares"][0]["typical"] == large.shares[0].typical


def test_a_release_that_measured_nothing_says_so():
    support = pmw.Support.full(pmw.Domain({"sex": ["F", "M"]}))
    ledger = Ledger(pmw.Budget.zcdp(1), Neighbors.REPLACE_ONE, n=40)
    workload = pmw.Workload.all(support.domain, k=1)
    release = Release(support, workload, np.array([0.5, 0.5]), ledger=ledger, settings={})
    assert str(release.quality()) == "Quality: not known, as nothing was measured."


def test_rows_that_cannot_follow_the_counts_are_not_called_good():
    domain = pmw.Domain({"a": 4, "b": 3, "c": 2})
    codes = np.column_stack([np.random.default_rng(0).integers(0, size, 5000) for size in domain.sizes])
    private, workload = pmw.Table.from_codes(codes, domain, private=True), pmw.Workload.all(domain, k=2)
    truth = private.counts(workload) / private.n
    for rows in (1, 2, 5, 20):
        support = pmw.Support.from_table(pmw.Table.from_codes(codes[:rows], domain, private=False))
        release = pmw.PEP(select="all").calibrate(rho=0.1)(private, support, workload, rng=1)
        errors, (_, pairs) = np.abs(release.answers() - truth), release.quality().shares
        assert 0.8 < pairs.typical / np.sqrt(np.mean(errors**2)) < 1.2, rows
        assert 0.8 < pairs.worst / errors.max() < 1.2, rows


def test_a_row_that_no_noise_can_move_is_judged_by_the_noise_alone():
    domain = pmw.Domain({"a": 4, "b": 3})
    private = pmw.Table.from_codes([[0, 0], [3, 2]] * 20, domain, private=True)
    support = pmw.Support.from_table(pmw.Table.from_codes([[0, 0]], domain, private=False))
    mechanism = pmw.PEP(select="all").calibrate(rho=1e-4)
    quality = mechanism(private, support, pmw.Workload.all(domain, k=2), rng=1).quality()
    assert quality.reason == "the noise alone"
    assert quality.shares[0].typical > 1
