"""What growth is made of: thinned values, particles that follow multipliers, rows that complete others."""

import itertools

import numpy as np
import pytest
from scipy import stats

import privmw as pmw
from marks.slow import slow
from privmw.models.growth import completion
from privmw.models.growth import particles as module
from privmw.models.growth.particles import Particles
from privmw.models.growth.problem import Problem
from privmw.models.targets import Targets
from privmw.random import sampling_stream
from privmw.release.measurements import Measurement

ALPHA = 1e-9
DOMAIN = pmw.Domain({"a": 3, "b": 2, "c": 2, "d": 1})
WORKLOAD = pmw.Workload(DOMAIN, [("a", "b"), ("b", "c"), ("a",), ("c", "d")])
RECORDS = np.array(list(itertools.product(*map(range, DOMAIN.sizes))), np.uint32)
RULES = pmw.Constraints({"invalid": [{"a": [0], "b": [1]}, {"a": [2], "c": [0]}]}, DOMAIN)


def problem(workload, seed, least=1.0):
    rng = np.random.default_rng(seed)
    precision = rng.uniform(least, 9.0, workload.cells)
    return Problem(workload, rng.normal(0.2, 1.0, workload.cells), precision, np.arange(workload.cells))


# What was measured.


def measured(targets, cells, counts, number=0):
    targets.add(Measurement(np.array(cells), np.array(counts), "discrete-gaussian", 2.0, number))


def test_a_problem_has_every_marginal_that_was_measured_entirely_or_in_part():
    targets = Targets(WORKLOAD, 100)
    measured(targets, WORKLOAD.cells_of([0]).tolist(), [1, 2, 3, 4, 5, 6])
    measured(targets, [7], [40])  # a cell of ("b", "c")
    found = Problem.of(targets)
    assert list(found.workload) == [("a", "b"), ("b", "c")]
    assert found.cells.tolist() == list(range(10))
    np.testing.assert_allclose(found.answers, [0.01, 0.02, 0.03, 0.04, 0.05, 0.06, 0, 0.4, 0, 0])
    assert (found.precision > 0).tolist() == [True] * 6 + [False, True, False, False]


def with_total_one(shares):
    return shares - (shares.sum() - 1) / len(shares)


def test_the_one_way_marginals_are_means_by_inverse_variance_of_sums_with_the_known_total():
    given = problem(WORKLOAD, 1)
    found = given.one_ways()
    variances = 1 / given.precision
    ab, bc = (given.answers[first:end] for first, end in ((0, 6), (6, 10)))
    of_ab, of_bc = variances[:6].reshape(3, 2), variances[6:10].reshape(2, 2)
    weights = 1 / of_ab.sum(axis=0), 1 / of_bc.sum(axis=1)
    sums = with_total_one(ab.reshape(3, 2).sum(axis=0)), with_total_one(bc.reshape(2, 2).sum(axis=1))
    names = [name for (name,) in found.workload]
    assert names == ["a", "b", "c", "d"]
    b = found.workload.cells_of([1])
    np.testing.assert_allclose(found.precision[b], sum(weights), rtol=1e-12)
    np.testing.assert_allclose(found.answers[b], sum(map(np.multiply, weights, sums)) / sum(weights))
    np.testing.assert_allclose(found.answers[-1], 1.0, rtol=1e-12)  # an attribute of one value


def test_errors_of_two_attributes_of_one_marginal_are_uncorrelated():
    """Over 4,000 draws a correlation of 0.1 would be 6 standard deviations; without the known total it is
    1 / sqrt(6) = 0.41 for cells of a 3 x 2 table.
    """
    workload = pmw.Workload(DOMAIN, [("a", "b")])
    rng = np.random.default_rng(7)
    found, raw = [], []
    for _ in range(4000):
        noisy = rng.normal(1 / 6, 0.1, 6)
        one_ways = Problem(workload, noisy, np.full(6, 100.0), np.arange(6)).one_ways().answers
        found.append((one_ways[0], one_ways[3]))
        table = noisy.reshape(3, 2)
        raw.append((table.sum(axis=1)[0], table.sum(axis=0)[0]))
    assert abs(np.corrcoef(np.array(found).T)[0, 1]) < 0.08
    assert np.corrcoef(np.array(raw).T)[0, 1] > 0.3


def test_one_way_marginals_without_noise_are_those_of_the_records():
    rng = np.random.default_rng(2)
    joint = rng.dirichlet(np.ones(len(RECORDS)))
    support = pmw.Support.full(DOMAIN)
    answers = support.answers(WORKLOAD, joint)
    found = Problem(
        WORKLOAD, answers, rng.uniform(1, 9, WORKLOAD.cells), np.arange(WORKLOAD.cells)
    ).one_ways()
    np.testing.assert_allclose(
        found.answers, support.answers(pmw.Workload.all(DOMAIN, k=1), joint), atol=1e-12
    )


def test_a_partly_measured_marginal_gives_no_one_way_marginal():
    given = problem(WORKLOAD, 3)
    precision = given.precision.copy()
    precision[[0, 6, 13]] = 0  # one cell each of ab, bc and cd: a alone is known
    found = Problem(WORKLOAD, given.answers, precision, given.cells).one_ways()
    assert list(found.workload) == [("a",)]
    np.testing.assert_allclose(found.answers, with_total_one(given.answers[10:13]))
    precision[10] = 0
    assert len(Problem(WORKLOAD, given.answers, precision, given.cells).one_ways().workload) == 0


def correlation(parts, truth):
    """Of the errors of two parts, in standard deviations of its estimate, and the squared ratio of noises."""
    errors = [(part.answers - truth) * np.sqrt(part.precision) for part in parts]
    return errors[0] @ errors[1] / np.sqrt(len(truth)), [np.mean(error**2) for error in errors]


def thinned(judging_noise=2.0):
    """The parts of 20,000 released values with known errors; the planted bug adds too little noise to one."""
    workload = pmw.Workload.all(pmw.Domain({"a": 20_000}), k=1)
    rng = np.random.default_rng(4)
    truth, precision = rng.random(workload.cells), rng.uniform(1, 100, workload.cells)
    answers = truth + rng.standard_normal(workload.cells) / np.sqrt(precision)
    given = Problem(workload, answers, precision, np.arange(workload.cells))
    fitted, judge = given.thinned(sampling_stream(5))
    if judging_noise != 2.0:
        moved = answers + (judge.answers - answers) * judging_noise / 2.0
        judge = Problem(workload, moved, judge.precision, judge.cells)
    return correlation((fitted, judge), truth)


def test_the_errors_of_thinned_parts_are_independent_and_as_large_as_they_say():
    """A correlation of 0.05 is 7 standard deviations here, and so is a variance wrong by 7 %."""
    together, ratios = thinned()
    assert abs(together) < stats.norm.isf(ALPHA / 2)
    for ratio in ratios:
        assert abs(ratio - 1) < stats.norm.isf(ALPHA / 2) * np.sqrt(2 / 20_000)


def test_parts_that_share_an_error_are_caught():
    together, _ = thinned(judging_noise=1.7)
    assert abs(together) > stats.norm.isf(ALPHA / 2)


def test_what_was_not_measured_is_not_thinned():
    given = problem(WORKLOAD, 6)
    precision = given.precision.copy()
    precision[3] = 0
    fitted, judge = Problem(WORKLOAD, given.answers, precision, given.cells).thinned(sampling_stream(0))
    for part in (fitted, judge):
        assert part.precision[3] == 0
        assert part.answers[3] == given.answers[3]
        assert (np.delete(part.answers, 3) != np.delete(given.answers, 3)).all()
    # Both together are the values that were released.
    weights = fitted.precision, judge.precision
    together = (fitted.answers * weights[0] + judge.answers * weights[1])[precision > 0] / sum(weights)[
        precision > 0
    ]
    np.testing.assert_allclose(together, given.answers[precision > 0])
    np.testing.assert_allclose(sum(weights), precision)


# Particles.

PARENTS = np.array([[0, 0, 0, 0], [1, 1, 0, 0], [2, 0, 1, 0]], np.uint32)
SHARES = np.array([0.5, 0.3, 0.2])
BASE = [np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.4]), np.array([0.5, 0.5]), np.array([1.0])]


def path(scale=1.0):
    """Multipliers, one step after the other."""
    rng = np.random.default_rng(7)
    return [scale * step * rng.normal(0, 1, WORKLOAD.cells) for step in (0.4, 0.8, 1.2)]


def scores(multipliers):
    support = pmw.Support.full(DOMAIN)
    return support.marginals(WORKLOAD).potentials(multipliers)


def prior(constraints=None):
    """The probability of every record: that of its values given each parent."""
    keep = 1 - min(module.PARTICLE_SETTINGS.redrawn / len(BASE), 1.0)
    given = np.ones((len(PARENTS), len(RECORDS)))
    for a, base in enumerate(BASE):
        given *= keep * (PARENTS[:, a, None] == RECORDS[:, a]) + (1 - keep) * base[RECORDS[:, a]]
    if constraints is not None:
        given *= constraints.allows(RECORDS)
        given /= given.sum(axis=1, keepdims=True)
    return SHARES @ given


def law(multipliers, constraints=None):
    weights = prior(constraints) * np.exp(scores(multipliers))
    return weights / weights.sum()


def started(kind=Particles, count=60_000, seed=8, constraints=None):
    parents = PARENTS[np.random.default_rng(seed).choice(len(PARENTS), count, p=SHARES)]
    return kind(parents, BASE, WORKLOAD, constraints, sampling_stream(seed), None)


def move(found, multipliers):
    """Follow until the particles are there."""
    for _ in range(50):
        if found.follow(multipliers):
            return
    raise AssertionError("the particles do not arrive")


def seen(records):
    """How many records there are of each kind."""
    places = np.ravel_multi_index(tuple(records.T.astype(np.int64)), DOMAIN.sizes)
    return np.bincount(places, minlength=len(RECORDS))


def statistic(counts, probabilities):
    """Pearson's statistic over its critical value; the records that cannot be must not be."""
    possible = probabilities > 0
    assert not counts[~possible].any()
    expected = probabilities[possible] * counts.sum()
    assert expected.min() > 5
    value = ((counts[possible] - expected) ** 2 / expected).sum()
    return value / stats.chi2.isf(ALPHA, possible.sum() - 1)


class ForgetsParents(Particles):
    def _resample(self, change):
        before = self._parents
        super()._resample(change)
        self._parents = before


class WrongSign(Particles):
    def _resample(self, change):
        super()._resample(-change)


class NeverResamples(Particles):
    def _resample(self, change):
        records, parents = self.records, self._parents
        super()._resample(change)
        self.records, self._parents = records, parents


class IgnoresScores(Particles):
    def _draw(self, records, parents, attributes):
        self._moves.set_values(np.zeros(WORKLOAD.cells))
        super()._draw(records, parents, attributes)
        self._moves.set_values(self._multipliers)


class StartsOnce(Particles):
    """Moves each parent once, and stays where a draw breaks a rule: not the law of the prior."""

    def _from_prior(self):
        self.records = self._parents.copy()
        self._redraw()
        return self.records


class BreaksRules(Particles):
    def _possible(self, records):
        return np.ones(len(records), bool)


@pytest.mark.parametrize("constraints", [None, RULES], ids=["free", "constrained"])
def test_new_particles_have_the_law_of_the_prior(constraints):
    found = started(constraints=constraints)
    assert statistic(seen(found.records), prior(constraints)) < 1
    np.testing.assert_allclose(np.exp(found.log_prior()).sum(), 1.0, rtol=1e-12)


def test_a_start_that_is_not_the_prior_is_caught():
    assert statistic(seen(started(StartsOnce, constraints=RULES).records), prior(RULES)) > 2


# Resampled particles depend on each other: their frequencies vary a little more than those of drawn records.
# A law that is wrong by 10 % in every second record has a statistic above 3 at 60,000 particles.
FOLLOWED = 1.5


@pytest.mark.parametrize("constraints", [None, RULES], ids=["free", "constrained"])
def test_particles_follow_the_prior_times_the_exponential_of_the_scores(constraints):
    found = started(constraints=constraints)
    for multipliers in path():
        move(found, multipliers)
        assert statistic(seen(found.records), law(multipliers, constraints)) < FOLLOWED
        np.testing.assert_allclose(
            found.scores,
            scores(multipliers)[np.ravel_multi_index(tuple(found.records.T), DOMAIN.sizes)],
            atol=1e-6,
        )


@pytest.mark.parametrize("planted", [ForgetsParents, WrongSign, NeverResamples, IgnoresScores])
def test_particles_that_do_not_follow_are_caught(planted):
    found = started(planted)
    for multipliers in path():
        move(found, multipliers)
    assert statistic(seen(found.records), law(path()[-1])) > 2 * FOLLOWED


def test_the_scale_of_the_test_of_laws():
    wrong = law(path()[-1]) * np.where(np.arange(len(RECORDS)) % 2, 1.1, 0.9)
    counts = np.rint(law(path()[-1]) * 60_000).astype(np.int64)
    assert statistic(counts, wrong / wrong.sum()) > 2 * FOLLOWED


def test_constraints_that_a_move_forgets_are_caught():
    found = started(BreaksRules, constraints=RULES)
    with pytest.raises(AssertionError):
        statistic(seen(found.records), prior(RULES))


def test_every_move_keeps_the_constraints():
    found = started(count=2000, constraints=RULES)
    for multipliers in [*path(4.0), *path(-4.0)]:
        move(found, multipliers)
        assert RULES.allows(found.records).all()


def estimates(kind=Particles, systems=60, count=1000, constraints=None):
    """What many small systems of particles say of the prior, record by record, after they followed a path."""
    found = []
    for seed in range(systems):
        system = started(kind, count, seed, constraints)
        for multipliers in path(0.7):
            move(system, multipliers)
        places = np.ravel_multi_index(tuple(system.records.T), DOMAIN.sizes)
        found.append(np.bincount(places, np.exp(system.log_prior()), len(RECORDS)))
    return np.array(found)


def deviations(found, truth):
    """How far the means lie from the truth, in their own standard errors, of records and of their sum."""
    found, truth = np.column_stack([found, found.sum(axis=1)]), np.append(truth, truth.sum())
    possible = truth > 0
    errors = found.std(axis=0, ddof=1)[possible] / np.sqrt(len(found))
    return np.abs(found.mean(axis=0) - truth)[possible] / errors


class ForgetsTheMean(Particles):
    def _resample(self, change):
        super()._resample(change)
        self.log_mean = 0.0


@pytest.mark.parametrize("constraints", [None, RULES], ids=["free", "constrained"])
def test_the_weights_of_particles_estimate_the_prior_of_every_record_without_bias(constraints):
    """60 systems of 1,000 particles: the sum of the weights is known to within 1.5 %."""
    found = estimates(constraints=constraints)
    assert deviations(found, prior(constraints)).max() < 5
    assert found.sum(axis=1).std(ddof=1) / np.sqrt(len(found)) < 0.015


@pytest.mark.parametrize("planted", [ForgetsTheMean, *slow(ForgetsParents, WrongSign)])
def test_biased_weights_are_caught(planted):
    assert deviations(estimates(planted), prior()).max() > 7


def test_a_change_of_nothing_leaves_weights_and_moves_only_records():
    found = started(count=1000)
    move(found, path()[0])
    before = np.exp(found.log_mean)
    move(found, path()[0])
    assert np.exp(found.log_mean) == pytest.approx(before, rel=1e-9)
    nothing = started(count=1000)
    move(nothing, np.zeros(WORKLOAD.cells))
    np.testing.assert_allclose(np.exp(nothing.log_prior()), 1 / 1000)


def test_a_change_that_would_leave_a_few_particles_is_made_in_steps(monkeypatch):
    """Whole at once, one kind of record takes nearly all: its copies would not have the law of the rest."""
    sizes = []
    plain = Particles._resample

    def counted(self, change):
        sizes.append(module.effective_number(change))
        plain(self, change)

    monkeypatch.setattr(Particles, "_resample", counted)
    found = started(count=20_000)
    multipliers = np.zeros(WORKLOAD.cells)
    multipliers[WORKLOAD.cells_of([0])] = [0, 0, 0, 0, 0, 9.0]  # a = 2 and b = 1: 3 % of the prior
    multipliers[WORKLOAD.cells_of([1])] = [0, 0, 9.0, 0]  # b = 1 and c = 0
    move(found, multipliers)
    assert 1 < len(sizes) < 20
    assert min(sizes) >= 0.99 * module.PARTICLE_SETTINGS.least_effective * 20_000
    expected = law(multipliers)
    heaviest = int(expected.argmax())
    assert expected[heaviest] > 0.9
    assert seen(found.records)[heaviest] / 20_000 == pytest.approx(expected[heaviest], abs=0.01)


@pytest.mark.parametrize("size", [1e3, 1e6])
def test_changes_of_any_size_leave_finite_weights(size):
    found = started(count=500)
    for multipliers in (*path(size), np.zeros(WORKLOAD.cells)):
        found.follow(multipliers)
        assert np.isfinite(found.scores).all()
        assert np.isfinite(found.log_prior()).all()
        assert len(found.records) == 500


class ForgetsSeparateParents(Particles):
    """Draws a separate attribute as if every parent had its first value."""

    def _draw_separate(self, values, parents, a, points):
        super()._draw_separate(values, np.zeros_like(parents), a, points)


def law_of_marginals(marginals, kind=Particles, constraints=None):
    """How far particles that follow multipliers of these marginals are from their law."""
    workload = pmw.Workload(DOMAIN, marginals)
    multipliers = np.random.default_rng(3).normal(0, 1, workload.cells)
    parents = PARENTS[np.random.default_rng(8).choice(len(PARENTS), 60_000, p=SHARES)]
    found = kind(parents, BASE, workload, constraints, sampling_stream(8), None)
    assert kind is not Particles or statistic(seen(found.records), prior(constraints)) < 1
    move(found, multipliers)
    potentials = pmw.Support.full(DOMAIN).marginals(workload).potentials(multipliers)
    weights = prior(constraints) * np.exp(potentials)
    return statistic(seen(found.records), weights / weights.sum())


@pytest.mark.parametrize("constraints", [None, RULES], ids=["free", "constrained"])
def test_attributes_that_no_marginal_has_keep_the_law_of_the_prior(constraints):
    assert law_of_marginals([("c", "d")], constraints=constraints) < FOLLOWED


SEPARATE = [("a",), ("b", "c")]  # a shares no marginal with another attribute


@pytest.mark.parametrize("constraints", [None, RULES], ids=["free", "constrained"])
def test_attributes_of_one_way_marginals_alone_follow_their_multipliers(constraints):
    assert law_of_marginals(SEPARATE, constraints=constraints) < FOLLOWED
    assert law_of_marginals([("a",), ("b",), ("c",)], constraints=constraints) < FOLLOWED


def test_draws_of_one_way_marginals_that_forget_their_parents_are_caught():
    assert law_of_marginals(SEPARATE, ForgetsSeparateParents) > 2 * FOLLOWED


@pytest.mark.parametrize("marginals", [[("a", "b")], [("a", "b"), ("number",)]], ids=["none", "its own"])
def test_a_million_values_that_share_no_marginal_are_not_scored_for_every_record(marginals, monkeypatch):
    domain = pmw.Domain({"a": 3, "b": 2, "number": 10**6})
    workload = pmw.Workload(domain, marginals)
    base = [BASE[0], BASE[1], np.full(10**6, 1e-6)]
    scored = []
    monkeypatch.setattr(
        module.kernels.Moves, "redraw", lambda self, codes, drawn, *_, **__: scored.extend(drawn)
    )
    found = Particles(np.zeros((3000, 3), np.uint32), base, workload, None, sampling_stream(0), None)
    assert len(np.unique(found.records[:, 2])) > 1900
    assert set(scored) == {0, 1}


def test_particles_of_one_attribute_are_drawn_from_the_base():
    domain = pmw.Domain({"a": 3})
    workload = pmw.Workload.all(domain, k=1)
    found = Particles(np.zeros((3000, 1), np.uint32), [BASE[0]], workload, None, sampling_stream(0), None)
    counts = np.bincount(found.records[:, 0], minlength=3)
    assert stats.chisquare(counts, BASE[0] * 3000).pvalue > ALPHA


# Rows that complete others.


def test_rows_are_completed_evenly_over_the_domain():
    support = completion.completed_evenly(pmw.Support.without_public(DOMAIN))
    assert support.rows.tolist() == RECORDS.tolist()
    assert support.grown == support.size
    assert support.missing == ()


def test_completed_rows_keep_their_public_values_and_the_constraints():
    fewer = pmw.Table.from_codes([[0, 0], [2, 1]] * 5, DOMAIN.project(["a", "b"]), private=False)
    support = pmw.Support.from_table(fewer, RULES, domain=DOMAIN)
    found = completion.completed_evenly(support)
    assert found.rows.tolist() == [[0, 0, 0, 0], [0, 0, 1, 0], [2, 1, 1, 0]]
    given = problem(WORKLOAD, 9)
    rows, weights = completion.completed(support, given, 0, found)
    assert RULES.allows(rows.rows).all()
    assert {tuple(row[:2]) for row in rows.rows.tolist()} <= {(0, 0), (2, 1)}
    np.testing.assert_allclose(weights.sum(), 1.0)


def test_constraints_that_nothing_keeps_are_refused_and_those_that_a_fit_breaks_are_not():
    nothing = pmw.Constraints({"invalid": [{"b": [0, 1]}]}, DOMAIN)
    with pytest.raises(ValueError, match="constraints must allow a row"):
        completion.completed_evenly(pmw.Support.without_public(DOMAIN, nothing))
    # The fit has everybody in the cell that cannot be.
    workload = pmw.Workload(DOMAIN, [("a", "b")])
    certain = Problem(workload, np.eye(6)[1], np.full(6, 1e9), np.arange(6))
    support = pmw.Support.without_public(DOMAIN, RULES)
    evenly = completion.completed_evenly(support)
    rows, weights = completion.completed(support, certain, 0, evenly)
    assert RULES.allows(rows.rows).all()
    np.testing.assert_allclose(weights.sum(), 1.0)


def test_where_no_completed_row_keeps_the_constraints_the_even_ones_stand_in(monkeypatch):
    support = pmw.Support.without_public(DOMAIN, RULES)
    evenly = completion.completed_evenly(support)

    class Broken:
        def fitted(self):
            return self

        def complete(self, rows, known, stream):
            rows[:] = [0, 1, 0, 0]
            return rows

    monkeypatch.setattr(completion, "ProductFit", lambda *_, **__: Broken())
    rows, weights = completion.completed(support, problem(WORKLOAD, 1), 0, evenly)
    assert rows is evenly
    np.testing.assert_allclose(weights, 1 / evenly.size)
