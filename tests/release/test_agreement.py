"""The test of released answers against noisy counts: its level, its power, and the failures it must tell."""

import math

import numpy as np
import pytest

import privmw as pmw
from marks.slow import slow
from privmw.extensions.population import draw_population
from privmw.release.agreement import ALPHA, TESTS, compare
from privmw.release.by_attribute import ComparedCells, compare_by_attribute
from privmw.release.chance import chance_beyond, chance_of_count
from privmw.release.measurements import Measurement
from release.cases import release

METHODS = {
    "auto": pmw.release_auto,
    "pep": pmw.PEP().release,
    "mw-pub": pmw.MWPub().release,
    "mwem-pub": pmw.MWEMPub().release,
}


def compared(*columns, n=1.0):
    return compare(ComparedCells(*columns), n)


def people(seed, n=4_000, shift=0.0):
    drawn = draw_population(n, attributes=6, shift=shift, seed=seed)
    return drawn.codes(), drawn.domain


def released(public, private, domain, method="auto", epsilon=1.0, order=2, seed=1):
    return METHODS[method](
        pmw.Table.from_codes(private, domain, private=True),
        pmw.Support.from_table(pmw.Table.from_codes(public, domain, private=False)),
        pmw.Workload.all(domain, k=order),
        epsilon=epsilon,
        delta=1e-9,
        rng=seed,
    )


def with_other(domain):
    """The same domain, in which sex may be something else."""
    declared = {attribute.name: attribute.declaration() for attribute in domain.attributes}
    return pmw.Domain({**declared, "sex": {"labels": ["F", "M"], "other": "other"}})


def discrete_gaussian_beyond(gap, sigma):
    values = np.arange(-60, 61)
    masses = np.exp(-(values**2) / (2 * sigma**2))
    return masses[np.abs(values) >= gap].sum() / masses.sum()


@pytest.mark.parametrize("sigma", [0.3, 1.0, 2.5])
def test_the_chance_of_a_gaussian_gap_is_bounded_and_nearly_exact(sigma):
    for gap in range(math.ceil(sigma + 0.5), 30):
        true = discrete_gaussian_beyond(gap, sigma)
        bound = chance_beyond(np.array([float(gap)]), np.array([sigma**2]), np.zeros(1, bool))[0]
        assert true <= bound * (1 + 1e-12)
        if sigma > 2 and gap < 12:
            assert bound < 1.4 * true


@pytest.mark.parametrize("scale", [0.5, 3.0])
def test_the_chance_of_a_laplace_gap_is_exact_at_whole_numbers(scale):
    p = math.exp(-1 / scale)
    variance = 2 * p / (1 - p) ** 2
    gaps = np.arange(1.0, 40.0)
    bounds = chance_beyond(gaps, np.full(len(gaps), variance), np.ones(len(gaps), bool))
    np.testing.assert_allclose(bounds, 2 * p**gaps / (1 + p), rtol=1e-9)


def test_a_mean_of_laplace_counts_has_a_lighter_tail_than_one_of_its_variance():
    p = math.exp(-1 / 4.0)
    one = p ** np.abs(np.arange(-400, 401)) * (1 - p) / (1 + p)
    both = np.convolve(one, one)  # of a sum of two
    values, deviation = np.arange(-800, 801) / 2, math.sqrt(p) / (1 - p)
    for k in (3, 4, 5, 7):
        true = both[np.abs(values) >= k * deviation].sum()
        bound = chance_beyond(np.array([k * deviation]), np.array([deviation**2]), np.ones(1, bool))[0]
        assert true < bound


def test_the_chance_of_a_count_bounds_the_binomial():
    for count in range(25, 60):
        true = sum(math.comb(60, c) * 0.3**c * 0.7 ** (60 - c) for c in range(count, 61))
        assert true <= chance_of_count(count, 60, 0.3) <= 12 * true
    assert chance_of_count(3, 3, 0.0) == 0.0
    assert chance_of_count(0, 3, 0.0) == 1.0


@pytest.mark.parametrize("laplace", [False, True])
def test_noise_alone_is_an_alarm_at_most_once_in_a_thousand_times(laplace):
    # 1,000 tables of 200 cells with the true answers: at most one alarm on average, more than 7 with
    # probability 1e-5. Planted: noise half as large again as stated is told in 4 of 10 tables or more.
    rng = np.random.default_rng(1)
    truth = np.zeros(200)
    alarms = {1.0: 0, 1.5: 0}
    for factor in alarms:
        for _ in range(1_000):
            drawn = rng.laplace(0, 4 / math.sqrt(2), 200) if laplace else rng.normal(0, 4, 200)
            noisy = np.rint(factor * drawn)
            mask = np.full(200, laplace)
            alarms[factor] += not compared(np.arange(200), noisy, truth, np.full(200, 4.0), mask).agrees
    assert alarms[1.0] <= 7
    assert alarms[1.5] > 400


def test_the_levels_of_the_parts_are_the_level_of_the_whole():
    assert pytest.approx(1e-3) == ALPHA
    # One cell of so many is told just when its chance is below its part of the level.
    for gap, told in ((20.0, False), (22.0, True)):
        found = compared(
            np.arange(1_000),
            np.zeros(1_000),
            np.eye(1, 1_000)[0] * gap,
            np.full(1_000, 4.0),
            np.zeros(1_000, bool),
        )
        chance = chance_beyond(np.array([gap]), np.array([16.0]), np.zeros(1, bool))[0]
        assert (chance <= ALPHA / TESTS / 1_000) == told
        assert (len(found.beyond) == 1) == told == (not found.agrees)


def test_half_a_record_is_held_against_nobody():
    deviations = np.full(50, 0.01)  # noise that never shows in a whole number
    near = compared(np.arange(50), np.arange(50.0), np.arange(50) + 0.4, deviations, np.zeros(50, bool))
    assert near.agrees
    assert not compared(
        np.arange(50), np.arange(50.0), np.arange(50) + 0.6, deviations, np.zeros(50, bool)
    ).agrees


def test_nothing_measured_is_said_and_no_alarm():
    found = release(measurements=[]).agreement()
    assert found.agrees
    assert len(found.cells) == 0
    assert (found.reasons, found.remedy, found.attributes, found.largest_gap) == ((), (), (), 0.0)


def test_measurements_of_one_cell_are_combined():
    two = [
        Measurement(
            [3],
            [
                490,
            ][:1],
            "discrete-gaussian",
            4.0,
            1,
        ),
        Measurement([3], [510], "discrete-laplace", 4.0, 2),
    ]
    found = release(measurements=two).agreement()
    assert found.cells.tolist() == [3]
    assert found.heavy_tailed == 1.0
    assert 0.49 < found.noisy[0] < 0.5
    assert found.deviations[0] < 0.004


def test_a_misfit_that_is_spread_over_many_cells_shows_in_a_value():
    # 400 cells of 2 x 200, each off by 0.45 deviations in the same direction: no cell is out, sex is.
    domain = pmw.Domain({"sex": 2, "place": 200})
    workload = pmw.Workload.all(domain, k=2)
    rng, sigma, n = np.random.default_rng(0), 10.0, 100_000
    truth = np.full(400, 250.0)
    noisy = (truth + np.rint(rng.normal(0, sigma, 400))) / n
    answers = (truth + 0.45 * sigma * np.repeat([1, -1], 200)) / n
    cells = ComparedCells(
        np.arange(400),
        noisy,
        answers,
        np.full(400, sigma / n),
        np.zeros(400, bool),
        reached=np.ones(400, bool),
    )
    sex, _ = compare_by_attribute(workload, cells, n)
    assert (sex.name, sex.cells, sex.tested) == ("sex", 400, 2)
    assert {gap.value for gap in sex.values} == {0, 1}
    assert all(gap.chance < 1e-6 for gap in sex.values)
    assert sex.values[0].released == pytest.approx(0.5 + 0.009 * np.sign(sex.values[0].released - 0.5))
    alone = compare(cells, n=n)
    assert len(alone.beyond) == 0


@pytest.mark.parametrize("method", [method for method in METHODS if method != "auto"])
def test_another_spelling_of_a_value_is_told_with_its_remedy(method):
    (public, domain), (private, _) = people(1), people(2)
    private[private[:, 1] == 1, 1] = 2  # M is spelt otherwise
    found = released(public, private, with_other(domain), method).agreement()
    assert not found.agrees
    assert found.reasons[0].startswith("no row has sex = other")
    assert found.remedy == (
        "compare how sex is spelt in both files and in the domain, or add public rows with sex = other, "
        "or take --method auto, which grows them",
    )


def test_a_value_that_only_grown_rows_have_is_reached():
    (public, domain), (private, _) = people(1), people(2)
    private[private[:, 1] == 1, 1] = 2
    release = released(public, private, with_other(domain), "auto")
    found = release.agreement()
    assert found.agrees
    assert found.reached.any()
    assert release.answer(["sex"], [2]) == pytest.approx((private[:, 1] == 2).mean(), abs=0.03)


def test_the_noisy_share_of_a_lost_value_is_that_of_the_records():
    (public, domain), (private, _) = people(1), people(2)
    private[private[:, 1] == 1, 1] = 2
    found = released(public, private, with_other(domain), "pep").agreement()
    worst = found.values_beyond[0]
    assert (worst.attribute, worst.value, worst.released, worst.reached) == ("sex", 2, 0.0, False)
    assert worst.noisy == pytest.approx((private[:, 1] == 2).mean(), abs=5 * worst.deviation)
    sex = next(attribute for attribute in found.attributes if attribute.name == "sex")
    assert sex.within[1] < 0.9 < sex.expected[1]


def test_a_cell_that_no_row_has_is_told_while_the_shares_look_fine():
    (public, domain), (private, _) = people(3), people(4)
    public = public[(public[:, 0] != 5) | (public[:, 2] != 2)]
    private[:120, 0], private[:120, 2] = 5, 2  # 3 % of the records, and those that had it
    found = released(public, private, domain, "pep").agreement()
    assert found.within[1] > 0.9
    assert found.shares_beyond == []
    assert not found.agrees
    assert not found.reached[found.beyond[0]]
    assert "in which no row lies" in found.reasons[0]
    assert "occur together" in found.remedy[0]


def test_too_few_rounds_are_told_as_such_and_more_rounds_mend_it():
    (public, domain), (private, _) = people(5, n=20_000), people(6, n=20_000, shift=1.0)
    few, many = (
        pmw.MWPub(rounds=rounds)
        .release(
            pmw.Table.from_codes(private, domain, private=True),
            pmw.Support.from_table(pmw.Table.from_codes(public, domain, private=False)),
            pmw.Workload.all(domain, k=2),
            epsilon=4.0,
            delta=1e-9,
            rng=1,
        )
        .agreement()
        for rounds in (25, 400)
    )
    assert not few.agrees
    assert few.reached.all()
    assert "MWPub ended after 25 rounds" in few.remedy[0]
    assert many.agrees


@pytest.mark.parametrize("seeds", [2, *slow(50)])
@pytest.mark.parametrize("method", METHODS)
def test_good_releases_agree(method, seeds):
    # 8 releases, 200 in the slow cases; benches/studies/quality.py has more, and the power by size.
    alarms = 0
    for seed in range(seeds):
        (public, domain), (private, _) = people(2 * seed), people(2 * seed + 1)
        alarms += (
            not released(public, private, domain, method, (0.1, 1.0)[seed % 2], seed=seed).agreement().agrees
        )
    assert alarms == 0
