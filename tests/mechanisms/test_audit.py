"""A black-box audit: what an attacker who sees outputs on two neighbouring tables can prove about epsilon.

Half of the runs choose the set of outputs that tells the tables apart best; the other half count how often it
occurs. Clopper-Pearson bounds then give an epsilon that the mechanism exceeds with confidence 1 - 1e-9. It
must stay below the claim for what privmw offers, and pass it for every planted bug: the audit's power.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from scipy import stats

from marks.slow import slow_among
from privmw import Budget, Domain, Support, Table, Workload, kernels, mechanisms
from privmw.accounting import Composition, Neighbors, ResidualGaussian
from privmw.curator import Curator
from privmw.data import queries
from privmw.extensions.baselines.bag import BestResponses
from privmw.extensions.baselines.oracle import make_oracle
from privmw.mechanisms import Selection, scores
from truth import planted_bugs

pytestmark = pytest.mark.skipif(
    kernels.backend() != "native",
    reason="a million draws, which give the same results on every backend: once is enough",
)

ALPHA = 1e-9
MANY, RUNS, DOOR_RUNS, RELEASES = 200_000, 16_000, 6_000, 5_000
PLENTY = Budget.zcdp(10**12)
ROOM = Budget.zcdp(10**12, event_delta=0.9)


def lower_bound(here, there, delta):
    """An epsilon that the mechanism exceeds at delta, with confidence 1 - ALPHA. IN: a row for each run."""
    _, labels = np.unique(np.concatenate([here, there]), axis=0, return_inverse=True)
    half, kinds = len(here) // 2, labels.max() + 1
    runs = [labels.ravel()[: len(here)], labels.ravel()[len(here) :]]
    seen = [np.bincount(run[:half], minlength=kinds) for run in runs]
    best, chosen = -math.inf, None
    for a, b in ((0, 1), (1, 0)):
        order = np.argsort(-(seen[a] + 0.5) / (seen[b] + 0.5), kind="stable")
        bounds = epsilon_bound(np.cumsum(seen[a][order]), np.cumsum(seen[b][order]), half, delta)
        if bounds.max() > best:
            best = bounds.max()
            chosen = a, b, order[: bounds.argmax() + 1]
    a, b, among = chosen
    hits = [np.isin(runs[side][half:], among).sum() for side in (a, b)]
    return float(epsilon_bound(*hits, len(here) - half, delta))


def epsilon_bound(often, seldom, runs, delta):
    """ln((p - delta) / q), p bounded below and q above, each with confidence 1 - ALPHA / 2."""
    often, seldom = np.asarray(often), np.asarray(seldom)
    p = np.where(often > 0, stats.beta.ppf(ALPHA / 2, np.maximum(often, 1), runs - often + 1), 0)
    q = np.where(seldom < runs, stats.beta.isf(ALPHA / 2, seldom + 1, np.maximum(runs - seldom, 1)), 1)
    return np.log(np.maximum(p - delta, 1e-300) / q)


def divergence_bound(here, there):
    """A KL divergence that the mechanism exceeds, with confidence 1 - ALPHA. IN: an integer for each run.

    zCDP promises at most rho, and a partition of the outputs never adds any. Sum of p ln(p / q) - p + q: no
    term is negative, and each is least where bounds of p and q are nearest.
    """
    values, labels = np.unique(np.concatenate([here, there]), return_inverse=True)
    alpha, best = ALPHA / (4 * len(values)), 0.0
    seen = [np.bincount(run, minlength=len(values)) for run in np.split(labels, [len(here)])]
    low = [stats.beta.ppf(alpha, np.maximum(hits, 1e-9), len(here) - hits + 1) for hits in seen]
    high = [stats.beta.isf(alpha, hits + 1, np.maximum(len(here) - hits, 1e-9)) for hits in seen]
    for a, b in ((0, 1), (1, 0)):
        p = np.where(low[a] > high[b], low[a], high[a])
        q = np.where(low[a] > high[b], high[b], low[b])
        apart = (low[a] > high[b]) | (high[a] < low[b])
        terms = p * np.log(np.maximum(p, 1e-300) / np.maximum(q, 1e-300)) - p + q
        best = max(best, float(terms[apart].sum()))
    return best


def claim(events, delta):
    return float(Composition.of(events).epsilon_at(delta))


# One record, all zeros here and all ones there: every marginal of one attribute moves in both its cells.
BITS = Domain(dict.fromkeys("abcdefgh", 2))
TABLES = [Table.from_codes([[value] * 8], BITS, private=True) for value in (0, 1)]
# Neighbours by adding a record: none here, one there.
NONE_OR_ONE = [Table.from_codes(np.zeros((records, 8), np.int64), BITS, private=True) for records in (0, 1)]
WORKLOAD = Workload.all(BITS, k=1)
# The model that makes neighbours worst: the first marginal's score falls, all others' rise.
TELLING = np.where(np.arange(16) // 2 == 0, [0.0, 1.0] * 8, [1.0, 0.0] * 8)
SCORES = np.array([[1] + [0] * 9, [0] + [1] * 9])


# A household of twelve records, of which four enter: it has all zeros here and all ones there.
HOUSEHOLDS = [Table.from_codes([[value] * 8] * 12, BITS, private=True) for value in (0, 1)]
CAPPED = [table.capped([7] * 12, unit="household", at_most=4) for table in HOUSEHOLDS]
# The same household is there, or not, beside the records of others.
OTHERS = [[0] * 8, [1] * 8, [0, 1] * 4]
PRESENT = [
    Table.from_codes([*OTHERS, *[[0] * 8] * many], BITS, private=True).capped(
        [1, 1, 2, *[7] * many], unit="household", at_most=4
    )
    for many in (12, 0)
]


def curator(side, tables=TABLES, **options):
    return Curator(tables[side], WORKLOAD, PLENTY, rng=31 + side, **options)


def column(values):
    return np.asarray(values).reshape(len(values), -1)


def laplace(side):
    noisy, event = mechanisms.add_discrete_laplace(np.full(MANY, side), l1_sensitivity=1, epsilon=1, rng=side)
    return column(noisy), [event]


def gaussian(side):
    noisy, event = mechanisms.add_discrete_gaussian(np.full(MANY, side), l2_sensitivity=1, rho=0.5, rng=side)
    return column(noisy), [event]


def thresholded(side):
    """A cell of 20 or 21 records, and one of none or one, which may appear."""
    counts = np.tile([21 - side, side], MANY // 2)
    given = {"l1_sensitivity": 2, "epsilon": 1, "delta": 1e-2}
    noisy, event = mechanisms.add_thresholded_laplace(counts, **given, rng=side)
    return np.clip(noisy.reshape(-1, 2), 0, 40), [event]


# Forty records here, one of them elsewhere there: in a cell of its own.
FORTY = [Table.from_codes([[0] * 8] * 39 + [[0] * 7 + [value]], BITS, private=True) for value in (0, 1)]


def curator_threshold(side, tables=FORTY):
    budget = Budget.approximate(10**6, 0.5, composition="advanced", event_delta=0.5)
    with Curator(tables[side], Workload(BITS, [("h",)]), budget, rng=31 + side) as door:
        noisy = np.array([door.measure_thresholded(0, epsilon=1, delta=1e-5) for _ in range(DOOR_RUNS)])
        return np.clip(noisy, 0, 60), door.ledger.events[:1]


def response(side, **options):
    bits, event = mechanisms.randomized_response(np.full(MANY, bool(side)), rng=side, **options)
    return column(bits), [event]


def selection(select, side, **options):
    generator = np.random.Generator(np.random.PCG64(side))
    runs = [select(SCORES[side], sensitivity=1, epsilon=1, rng=generator, **options) for _ in range(RUNS)]
    return column([chosen for chosen, _ in runs]), [runs[0][1]]


def curator_selection(side, tables=TABLES, **options):
    with curator(side, tables) as door:
        chosen = [door.select(TELLING, epsilon=2, **options) for _ in range(DOOR_RUNS)]
        return column(chosen), door.ledger.events[:1]


# The tables that make neighbours worst: one has the record of here, five that of there.
PUBLIC = [np.tile([1.0 - value, float(value)], 8) for value in [0] + [1] * 5]


def choice_of_table(side, tables=TABLES, **options):
    with curator(side, tables) as door:
        chosen = [door.choose_public(PUBLIC, epsilon=2, **options) for _ in range(DOOR_RUNS // 2)]
        return column(chosen), door.ledger.events[:1]


BAG = 8  # records, all zeros: here the bag is right, there every cell of it is wrong


def curator_draw(side, tables=TABLES, epsilon=2, k=1):
    bag = np.tile([BAG, 0], 8)
    with curator(side, tables) as door:
        drawn = [door.draw(bag, records=BAG, epsilon=epsilon, k=k) for _ in range(DOOR_RUNS // 2)]
        # Cells of zeros, and negated ones of ones, ask for the record of here.
        ask = (np.array(drawn) % 2 == 0) == (np.array(drawn) < 16)
        return column(ask.sum(axis=1)), door.ledger.events[:1]


def curator_measurement(side, tables=TABLES, neighbors=Neighbors.REPLACE_ONE, **options):
    public_n = 1 if neighbors is Neighbors.ADD_REMOVE_ONE else None
    with curator(side, tables, neighbors=neighbors, public_n=public_n) as door:
        noisy = np.array([door.measure(**options) for _ in range(DOOR_RUNS)])
        # A record is all zeros or all ones: even cells lose it, odd ones gain it.
        lead = noisy[:, ::2].sum(axis=1) - noisy[:, 1::2].sum(axis=1)
        return column(lead // tables[side].at_most), door.ledger.events[:1]


# One record, of value 0 here and 3 there: three prefixes lose it, and the sum grows by 3.
VALUES = Domain({"v": 4})
ONE_VALUE = [Table.from_codes([[value]], VALUES, private=True) for value in (0, 3)]
ASKED = {"prefixes": queries.prefix("v"), "sum": queries.sums("v", lower=0, upper=3, count=False)}


def curator_queries(side, kind, group=queries.QueryGroup, **options):
    with Curator(ONE_VALUE[side], Workload(VALUES, [("v",)]), PLENTY, rng=31 + side) as door:
        noisy = np.array(
            [door.measure_queries(group(VALUES, ASKED[kind]), **options) for _ in range(DOOR_RUNS)]
        )
        seen = (noisy[:, :3] >= 1).sum(axis=1) if kind == "prefixes" else np.clip(noisy, -15, 15)
        return column(seen), door.ledger.events[:1]


def curator_residuals(side, tables=TABLES, sigma=2.0, **options):
    """Noisy contrasts of two attributes and of their interaction."""
    event = ResidualGaussian(BITS.sizes, ((2,), (5,), (2, 5)), (sigma,) * 3, **options)
    pair = Workload(BITS, [("c", "f")])
    with Curator(tables[side], pair, ROOM, rng=31 + side) as door:
        noisy = np.array([np.concatenate(door.measure_residuals(event)) for _ in range(DOOR_RUNS // 2)])
        lead = noisy[:, 0] + noisy[:, 1]  # all zeros or all ones: the interaction is the same
        return column(lead // (2 * tables[side].at_most)), door.ledger.events[:1]


def none_or_one(side, **options):
    """Measurements of a table of no record, and of one with a single record."""
    with Curator(
        NONE_OR_ONE[side], WORKLOAD, PLENTY, rng=31 + side, neighbors=Neighbors.ADD_REMOVE_ONE, public_n=1
    ) as door:
        noisy = np.array([door.measure(**options) for _ in range(DOOR_RUNS)])
        return column(noisy.sum(axis=1)), door.ledger.events[:1]


SMALL = Domain({"a": 2, "b": 2, "c": 2})
NEAR = [Table.from_codes([[value] * 3, [0, 1, 0]], SMALL, private=True) for value in (0, 1)]
NEAR_UNITS = [
    Table.from_codes([[value] * 3] * 7 + [[0, 1, 0]], SMALL, private=True).capped(
        [7] * 7 + [8], unit="household", at_most=4
    )
    for value in (0, 1)
]
ROWS = np.array(list(np.ndindex(2, 2, 2)))
ROUNDS = 2


def release(door, epsilon, rho):
    """MWEM on eight rows: what an attacker sees of it. The updates are post-processing."""
    workload, n = door.workload, door.n
    weights, seen = np.full(8, 1 / 8), []
    matches = np.array([ROWS[:, i // 2] == i % 2 for i in range(workload.cells)])
    for _ in range(ROUNDS):
        answers = matches @ weights
        (cell,) = door.select(answers, mechanism="exponential", epsilon=epsilon)
        (noisy,) = door.measure([cell], rho=rho)
        seen += [cell, min(max(noisy, 0), n)]
        weights *= np.exp(matches[cell] * (min(max(noisy / n, 0), 1) - answers[cell]) / 2)
        weights /= weights.sum()
    return seen


@functools.cache
def releases(side, epsilon, rho, unit=False):
    with Curator(
        (NEAR_UNITS if unit else NEAR)[side], Workload.all(SMALL, k=1), PLENTY, rng=17 + side
    ) as door:
        seen = [release(door, epsilon, rho) for _ in range(RELEASES)]
        return column(seen), door.ledger.events[: 2 * ROUNDS]


@functools.cache
def dual_query(side, unit=False):
    """Two rounds of DualQuery, one draw each, the second at twice the epsilon: what an attacker sees."""
    workload = Workload.all(SMALL, k=1)
    support, seen = Support.without_public(SMALL), []
    with Curator((NEAR_UNITS if unit else NEAR)[side], workload, PLENTY, rng=23 + side) as door:
        for _ in range(RELEASES):
            model = BestResponses(
                support, workload, make_oracle("local", support, workload, starts=1), samples=1
            )
            drawn = []
            for number in (1, 2):
                cells, records = model.bag()
                drawn += door.draw(cells, records=records, epsilon=1.5 * number)
                model.respond(drawn[-1:])
            seen.append(drawn)
        return column(seen), door.ledger.events[:2]


HONEST = {
    "discrete Laplace": (laplace, 0, 0.9),
    "discrete Gaussian": (gaussian, 1e-2, 0.5),
    "thresholded Laplace": (thresholded, 1e-2, 0.25),
    "curator: thresholded Laplace on a marginal": (curator_threshold, 1e-5, 0.2),
    "randomized response, epsilon": (lambda side: response(side, epsilon=1), 0, 0.9),
    "randomized response, q": (lambda side: response(side, q=0.25), 0, 0.9),
    "permute-and-flip": (lambda side: selection(mechanisms.select_permute_and_flip, side), 0, 0.5),
    "exponential mechanism": (lambda side: selection(mechanisms.select_exponential, side), 0, 0.4),
    "report noisy max": (lambda side: selection(mechanisms.report_noisy_max, side), 0, 0.5),
    "permute-and-flip, top 2": (
        lambda side: selection(mechanisms.select_permute_and_flip, side, k=2),
        0,
        0.25,
    ),
    "curator: a cell, permute-and-flip": (curator_selection, 0, 0.3),
    "curator: a cell, exponential": (lambda side: curator_selection(side, mechanism="exponential"), 0, 0.3),
    "curator: a marginal, permute-and-flip": (lambda side: curator_selection(side, among="marginal"), 0, 0.4),
    "curator: Gaussian on a cell": (lambda side: curator_measurement(side, queries=[0], rho=0.5), 1e-2, 0.3),
    "curator: Gaussian on a marginal": (
        lambda side: curator_measurement(side, marginal=0, rho=0.5),
        1e-2,
        0.3,
    ),
    "curator: Laplace on a marginal": (
        lambda side: curator_measurement(side, marginal=0, epsilon=1),
        0,
        0.25,
    ),
    "curator: two marginals": (
        lambda side: curator_measurement(side, marginals=[2, 5], rho=0.5),
        1e-2,
        0.3,
    ),
    "curator: prefixes": (lambda side: curator_queries(side, "prefixes", rho=0.5), 1e-2, 0.2),
    "curator: prefixes, Laplace": (lambda side: curator_queries(side, "prefixes", epsilon=2), 0, 0.2),
    "curator: a sum": (lambda side: curator_queries(side, "sum", epsilon=1), 0, 0.2),
    "curator: residuals": (curator_residuals, 1e-2, 0.2),
    "unit: residuals": (lambda side: curator_residuals(side, CAPPED, 8.0, at_most=4), 1e-2, 0.2),
    "curator: no record or one, a marginal": (lambda side: none_or_one(side, marginal=0, epsilon=1), 0, 0.1),
    "curator: no record or one, the total": (lambda side: none_or_one(side, total=True, rho=0.5), 1e-2, 0.3),
    "curator: a public table, largest": (choice_of_table, 0, 0.3),
    "curator: a public table, mean": (lambda side: choice_of_table(side, distance="mean"), 0, 0.3),
    "unit: a public table, mean": (
        lambda side: choice_of_table(side, CAPPED, distance="mean"),
        0,
        0.3,
    ),
    "curator: a draw against a bag": (curator_draw, 0, 0.4),
    "curator: two draws against a bag": (lambda side: curator_draw(side, epsilon=2, k=2), 0, 0.25),
    "unit: a draw against a bag": (lambda side: curator_draw(side, CAPPED), 0, 0.4),
    "DualQuery, two rounds": (dual_query, 0, 0.1),
    "release, two rounds": (lambda side: releases(side, 1.0, 0.2), 1e-2, 0.1),
    "unit: a cell, permute-and-flip": (lambda side: curator_selection(side, CAPPED), 0, 0.3),
    "unit: a marginal, exponential": (
        lambda side: curator_selection(side, CAPPED, among="marginal", mechanism="exponential"),
        0,
        0.3,
    ),
    "unit: Gaussian on two marginals": (
        lambda side: curator_measurement(side, CAPPED, marginals=[2, 5], rho=0.5),
        1e-2,
        0.3,
    ),
    "unit: Laplace on a marginal": (
        lambda side: curator_measurement(side, CAPPED, marginal=0, epsilon=1),
        0,
        0.25,
    ),
    "unit added or removed: Laplace on a marginal": (
        lambda side: curator_measurement(side, PRESENT, Neighbors.ADD_REMOVE_ONE, marginal=0, epsilon=1),
        0,
        0.25,
    ),
    "unit: release, two rounds": (lambda side: releases(side, 2.0, 0.5, unit=True), 1e-2, 0.1),
}
SLOW = [
    "curator: prefixes",
    "curator: prefixes, Laplace",
    "DualQuery, two rounds",
    "permute-and-flip, top 2",
    "release, two rounds",
    "unit: a marginal, exponential",
    "unit: a public table, mean",
    "unit added or removed: Laplace on a marginal",
    "unit: Gaussian on two marginals",
    "unit: residuals",
    "curator: thresholded Laplace on a marginal",
    "unit: release, two rounds",
]


@pytest.mark.parametrize("name", slow_among(HONEST, SLOW))
def test_what_the_audit_finds_is_within_the_claim(name, record_property):
    sample, delta, tight = HONEST[name]
    (here, events), (there, other_events) = sample(0), sample(1)
    assert events == other_events  # what is charged does not depend on the data
    found, claimed = lower_bound(here, there, delta), claim(events, delta)
    record_property("found", found)
    record_property("claimed", claimed)
    print(f"{name}: found {found:.3f}, claimed {claimed:.3f} at delta {delta}")
    assert tight * claimed < found <= claimed


def half_gaussian(side):
    noisy, event = planted_bugs.gaussian_of_half_the_noise(np.full(MANY, side), rho=0.5, rng=side)
    return column(noisy), [event]


def half_laplace(side):
    noisy, event = planted_bugs.laplace_of_half_the_noise(np.full(MANY, side), epsilon=1, rng=side)
    return column(noisy), [event]


def true_threshold(side):
    given = {"epsilon": 1, "delta": 1e-2}
    counts = np.full(MANY, mechanisms.Threshold.prepare(size=1, l1_sensitivity=1, **given).event.threshold)
    noisy, event = planted_bugs.threshold_on_true_counts(counts - side, **given, rng=side)
    return column(noisy), [event]


def low_threshold(side):
    noisy, event = planted_bugs.threshold_of_one_record_less(
        np.full(MANY, side), epsilon=1, delta=1e-2, rng=side
    )
    return column(noisy), [event]


def cell_pairs(side):
    return np.tile([1 - side, side], (MANY // 2, 1))


def one_cell_paid(side):
    noisy, event = planted_bugs.marginal_of_sensitivity_one(cell_pairs(side), epsilon=1, rng=side)
    return np.clip(noisy, -3, 4), [event]


def half_sensitivity(kind, side):
    generator = np.random.Generator(np.random.PCG64(side))
    bug = functools.partial(planted_bugs.selection_of_half_the_sensitivity, kind)
    runs = [bug(SCORES[side], sensitivity=1, epsilon=1, rng=generator) for _ in range(RUNS)]
    return column([chosen for chosen, _ in runs]), [runs[0][1]]


def half_the_score(side):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores, "SENSITIVITY", scores.SENSITIVITY // 2)
        return curator_selection(side, mechanism="exponential")


def one_cell_of_each_marginal(side):
    right = scores.distance_sensitivity
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scores, "distance_sensitivity", lambda *given: right(*given) // 2)
        return choice_of_table(side, distance="mean")


def one_coin(side):
    generator = np.random.default_rng(side)
    bug = functools.partial(planted_bugs.permute_and_flip_of_one_coin, uniforms=generator, rng=generator)
    runs = [bug(SCORES[side], sensitivity=1, epsilon=1) for _ in range(RUNS)]
    return column([chosen for chosen, _ in runs]), [runs[0][1]]


def one_noise(side):
    noisy, event = planted_bugs.marginal_of_one_noise(cell_pairs(side), epsilon=1, rng=side)
    return np.clip(noisy, -9, 9), [event]


def public_n(side):
    noisy, event = planted_bugs.fractions_of_the_public_n(
        np.full(MANY, side), n=100, public_n=200, epsilon=1, rng=side
    )
    return column(noisy), [event]


def selection_not_charged(side):
    seen, events = releases(side, 4.0, 0.005)
    return seen, planted_bugs.release_that_charges_measurements_only(events)


def cap_not_applied(side):
    everybody = [planted_bugs.table_without_its_cap(table, "household", 4) for table in HOUSEHOLDS]
    return curator_measurement(side, everybody, marginal=0, epsilon=1)


def paid_for_one_record(side, **options):
    cheap = [planted_bugs.table_that_pays_for_one_record(table) for table in CAPPED]
    return curator_measurement(side, cheap, **options)


def selected_for_one_record(side):
    cheap = [planted_bugs.table_that_pays_for_one_record(table) for table in CAPPED]
    return curator_selection(side, cheap, mechanism="exponential")


def charged_as_in_the_first_round(side):
    drawn, events = curator_draw(side, epsilon=4)
    return drawn, planted_bugs.draws_charged_as_in_the_first_round(events, BAG)


def drawn_for_one_record(side):
    cheap = [planted_bugs.table_that_pays_for_one_record(table) for table in CAPPED]
    return curator_draw(side, cheap)


def one_record_of_the_bag(side):
    right = Selection.prepare

    def of_one(kind, *, sensitivity, **given):
        return right(kind, sensitivity=sensitivity // BAG, **given)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Selection, "prepare", of_one)
        return curator_draw(side)


def half_of_a_group(side, kind):
    return curator_queries(side, kind, planted_bugs.GroupOfHalfTheSensitivity, epsilon=1)


PLANTED = {
    "a growing epsilon charged as a constant one": (charged_as_in_the_first_round, 0),
    "a bag's draws with the sensitivity of one record of it": (one_record_of_the_bag, 0),
    "unit: drawn as for one record": (drawn_for_one_record, 0),
    "half the noise, Gaussian": (half_gaussian, 1e-2),
    "half the noise, Laplace": (half_laplace, 0),
    "threshold on true counts": (true_threshold, 1e-2),
    "threshold one too low": (low_threshold, 5e-3),
    "sensitivity off by two, marginal": (one_cell_paid, 0),
    "sensitivity off by two, permute-and-flip": (lambda side: half_sensitivity("permute-and-flip", side), 0),
    "sensitivity off by two, exponential": (lambda side: half_sensitivity("exponential", side), 0),
    "sensitivity off by two, in the curator": (half_the_score, 0),
    "sensitivity off by two, public tables": (one_cell_of_each_marginal, 0),
    "selection not charged": (selection_not_charged, 1e-2),
    "coin reused among candidates": (one_coin, 0),
    "half the sensitivity, prefixes": (lambda side: half_of_a_group(side, "prefixes"), 0),
    "half the sensitivity, a sum": (lambda side: half_of_a_group(side, "sum"), 0),
    "noise reused among cells": (one_noise, 0),
    "n taken from the public table": (public_n, 0),
    "unit: cap not applied": (cap_not_applied, 0),
    "unit: rho not divided by the square of its records": (
        lambda side: paid_for_one_record(side, marginals=[2, 5], rho=0.5),
        1e-2,
    ),
    "unit: epsilon not divided by its records": (
        lambda side: paid_for_one_record(side, marginal=0, epsilon=1),
        0,
    ),
    "unit: scores as of one record": (selected_for_one_record, 0),
}
SLOW_PLANTED = [
    "half the sensitivity, prefixes",
    "selection not charged",
    "unit: rho not divided by the square of its records",
    "unit: scores as of one record",
]


@pytest.mark.parametrize("name", slow_among(PLANTED, SLOW_PLANTED))
def test_the_audit_finds_every_planted_bug(name):
    sample, delta = PLANTED[name]
    (here, events), (there, _) = sample(0), sample(1)
    found, claimed = lower_bound(here, there, delta), claim(events, delta)
    print(f"{name}: found {found:.3f}, claimed {claimed:.3f} at delta {delta}")
    assert found > claimed


def test_the_audit_finds_a_lattice_term_that_was_left_out():
    # At sigma .5 the noise has 14 % less variance than a Gaussian, and the loss is larger by as much.
    table = [np.zeros((2, 2, 2), np.int64) for _ in range(2)]
    table[0][0, 0, 0] = table[1][0, 0, 1] = 1
    found = {}
    for sigma in (0.5, 3.0):
        (here, event), (there, _) = (
            planted_bugs.interaction_without_its_lattice_term(
                table[side], sigma=sigma, rng=side, runs=3 * MANY
            )
            for side in (0, 1)
        )
        found[sigma] = divergence_bound(here, there) / float(event.cost.rho)
    print(f"lattice term left out: found {found[0.5]:.3f} of the claim at sigma .5, {found[3.0]:.3f} at 3")
    assert found[0.5] > 1
    assert found[3.0] <= 1  # there it is below 1e-9, and nothing is missing
    with pytest.raises(ValueError, match=r"sigmas .* must be larger"):
        ResidualGaussian((2, 2, 2), ((0, 1, 2),), (0.5,))


def test_the_audit_finds_nothing_where_there_is_nothing_to_find():
    same = [np.random.default_rng(seed).integers(0, 50, (RUNS, 1)) for seed in (1, 2)]
    assert lower_bound(*same, 0) <= 0


def test_the_bound_holds_as_often_as_it_says():
    # Of 2,000 audits of two laws at ln 2, none may claim more at 1 - 1e-9; at one in ten, a tenth may.
    generator = np.random.default_rng(5)
    often, seldom = generator.binomial(2000, 0.5, 2000), generator.binomial(2000, 0.25, 2000)
    assert (epsilon_bound(often, seldom, 2000, 0) <= math.log(2)).all()
    assert np.median(epsilon_bound(often, seldom, 2000, 0)) > 0.2
