"""A support that grows: where to, how far, and to the same bits whatever computes it."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

import privmw as pmw
from kernels.cases import door_of, load
from marks.slow import slow, slow_among
from models.grown_cases import (
    ALGORITHMS,
    CODES,
    DOMAIN,
    RULES,
    SUPPORTS,
    WORKLOAD,
    drawn,
    lacking,
    released,
    table,
)
from privmw.extensions.population import draw_population
from privmw.models import query_matrix
from privmw.models.growth import particles, path, start
from privmw.release.file import check_release

# All backends give the same bits; numpy takes ten minutes.
COMPILED = pytest.mark.skipif(pmw.kernels.backend() == "numpy", reason="minutes without compiled kernels")
TRUTH = pmw.Support.from_table(table(CODES)).answers(WORKLOAD)


def largest_error(release):
    return np.abs(release.answers() - TRUTH).max()


def details(release):
    return release.history[-1].details


@cache
def whole(support, algorithm):
    return released(support, algorithm)


def test_rows_that_the_public_table_lacks_are_grown():
    """The ages that no public row has are a third of the private records; noise is a hundredth of that."""
    before = released(lacking(), pmw.PEP(select="all"))
    after = whole("rows that lack ages", "a shot")
    lacked = sum(after.answer(["age"], [age]) for age in (1, 2))
    assert sum(before.answer(["age"], [age]) for age in (1, 2)) == 0
    assert lacked == pytest.approx(np.isin(CODES[:, 0], [1, 2]).mean(), abs=0.03)
    assert largest_error(after) < largest_error(before) / 5
    assert details(after)["grown_rows"] == after.support.grown > 0
    grown = after.support.counts == 0
    assert details(after)["grown_mass"] == pytest.approx(after.weights[grown].sum(), abs=1e-9)


@pytest.mark.parametrize("size", [30, *slow(300)])
def test_a_value_that_no_public_record_has_is_reached_in_a_large_domain(size):
    domain = pmw.Domain({"zip": size, "sex": 2, "race": 4})
    rng = np.random.default_rng(1)
    codes = np.stack([rng.integers(0, 3, 4000), rng.integers(0, 2, 4000), rng.integers(0, 4, 4000)], axis=1)
    public = pmw.Table.from_codes(codes[:500], domain, private=False)
    codes[:800, 0] = size - 1
    private = pmw.Table.from_codes(codes, domain, private=True)
    algorithm = pmw.PEP(select="all", particles=500).calibrate(rho=0.3)
    release = algorithm(private, pmw.Support.from_table(public), pmw.Workload.all(domain, k=2), rng=1)
    assert release.answer(["zip"], [size - 1]) == pytest.approx(0.2, abs=0.02)


def without_most_common_age():
    """Private records, and public ones without the age group that most of the private ones have."""
    people = draw_population(34_000, attributes=8, seed=1)
    codes, domain = people.codes(), people.domain
    public = np.flatnonzero(codes[:, 0] != np.bincount(codes[:, 0]).argmax())[:2000]
    private = pmw.Table.from_codes(np.delete(codes, public, axis=0), domain, private=True)
    return private, pmw.Support.from_table(people.take(public)), pmw.Workload.all(domain, k=3)


def largest_errors(rhos):
    private, support, workload = without_most_common_age()
    truth = private.counts(workload) / private.n
    for rho in rhos:
        mechanism = pmw.PEP(select="all", particles=2000).calibrate(rho=rho)
        release = mechanism(private, support, workload, rng=1)
        yield np.abs(release.answers() - truth).max(), not release.agreement().reasons


@pytest.mark.slow
@COMPILED
def test_particles_find_a_large_part_that_no_public_row_has_at_every_budget():
    """The errors are .0036, .0016 and .0013 where the first weight is heavy enough."""
    errors, agreeing = zip(*largest_errors([0.02, 0.1, 0.5]), strict=True)
    assert all(agreeing)
    assert 0.006 > errors[0] > errors[1] > errors[2]


@pytest.mark.slow
@COMPILED
def test_a_first_weight_that_leaves_few_effective_particles_is_followed_in_parts(monkeypatch):
    """In one move all particles but a few are lost at the first weight, and the error is .0612."""
    monkeypatch.setattr(path, "PATH", replace(path.PATH, effective=0.0))
    [(error, agrees)] = largest_errors([0.1])
    assert error < 0.003
    assert agrees
    whole = replace(particles.PARTICLE_SETTINGS, least_effective=0.0)
    monkeypatch.setattr(particles, "PARTICLE_SETTINGS", whole)
    [(error, agrees)] = largest_errors([0.1])
    assert error > 0.03
    assert not agrees


@pytest.mark.parametrize("rho", [1.0, *slow(10.0)])
def test_particles_stay_apart_where_there_is_hardly_any_noise(rho):
    """Particles that begin at a light prior fall into one record: few rows grow, and the error is .12."""
    private = draw_population(20_000, attributes=8, seed=1, private=True)
    public = pmw.Support.from_table(draw_population(20, attributes=8, seed=2))
    workload = pmw.Workload.all(private.domain, k=2)
    algorithm = pmw.PEP(select="all", particles=1000).calibrate(rho=rho)
    release = algorithm(private, public, workload, rng=0, threads=1)
    assert details(release)["grown_rows"] > 500
    assert np.abs(release.answers() - private.counts(workload) / private.n).max() < 0.02


@pytest.mark.parametrize("rho", [0.001, 0.3, *slow(10.0)])
@pytest.mark.parametrize("seed", [1, *slow(2, 3)])
def test_a_public_table_that_is_the_private_distribution_keeps_its_mass(rho, seed):
    support = pmw.Support.from_table(table(drawn(5000, 10 + seed)))
    private = table(drawn(3000, seed), private=True)
    release = released(support, pmw.PEP(select="all", particles=2000), rho, private)
    assert details(release)["grown_mass"] < 0.05


@pytest.mark.parametrize("name", [name for name in SUPPORTS if "rules" in name])
@pytest.mark.parametrize("algorithm", slow_among(ALGORITHMS, ["rounds", "cells", "a shot and rounds"]))
def test_combinations_that_cannot_be_get_exactly_nothing(name, algorithm):
    release = whole(name, algorithm)
    assert release.answer(["age", "own"], [0, 2]) == 0
    assert release.answer(["sex", "race"], [1, 3]) == 0
    assert RULES.allows(release.support.rows).all()
    assert release.support.constraints == RULES


@pytest.mark.parametrize("name", SUPPORTS)
@pytest.mark.parametrize("algorithm", ["a shot", *slow("a shot and rounds", "rounds", "cells")])
def test_a_release_with_grown_rows_is_saved_and_loaded(name, algorithm, tmp_path):
    release = whole(name, algorithm)
    check_release(release)
    assert release.agreement() is not None
    release.save(tmp_path / "x.release")
    loaded = pmw.load_release(tmp_path / "x.release")
    check_release(loaded)
    assert loaded == release
    assert loaded.support.grown == release.support.grown
    assert loaded.answers().tolist() == release.answers().tolist()
    mechanism = ALGORITHMS[algorithm].calibrate(rho=0.3)
    written = (tmp_path / "x.release").stat().st_size
    assert written <= mechanism.bytes_of_release(SUPPORTS[name](), WORKLOAD) + 2**14  # its domain and ledger
    assert release.support.size <= ALGORITHMS[algorithm].most_rows(
        SUPPORTS[name]() or pmw.Support.without_public(DOMAIN)
    )


TRIED = [
    ("rows that lack ages", "a shot"),
    ("rows that keep rules", "cells"),
    ("fewer columns that keep rules", "a shot and rounds"),
    ("no public table", "rounds"),
]


@pytest.mark.parametrize("threads", [5, *slow(2)])
@pytest.mark.parametrize(("name", "algorithm"), TRIED)
def test_any_number_of_threads_grows_the_same_bits(name, algorithm, threads):
    assert released(name, algorithm, threads=threads) == whole(name, algorithm)


@pytest.mark.parametrize("other", [slow("numba")[0], "numpy"])
@pytest.mark.parametrize(("name", "algorithm"), TRIED)
def test_every_backend_grows_the_same_bits(name, algorithm, other):
    backend = load(other) or pytest.skip(f"{other} is not installed")
    if other == pmw.kernels.backend():
        pytest.skip(f"{other} is what is compared with")
    with door_of(backend):
        found = released(name, algorithm, threads=2)
    assert found == whole(name, algorithm)


@pytest.mark.parametrize("other", [slow("numba")[0], "numpy"])
@pytest.mark.parametrize("name", ["rows that lack ages", *slow("no public table")])
def test_rows_that_list_their_cells_grow_the_same_bits_on_every_backend(name, other, monkeypatch):
    backend = load(other) or pytest.skip(f"{other} is not installed")
    monkeypatch.setattr(query_matrix, "FEW_PER_CELL", 0)
    here = released(name, "a shot and rounds")
    with door_of(backend):
        assert released(name, "a shot and rounds") == here
    np.testing.assert_allclose(here.answers(), whole(name, "a shot and rounds").answers(), atol=0.03)


@pytest.mark.parametrize("algorithm", slow_among(ALGORITHMS, ["cells", "a shot and rounds"]))
def test_growth_changes_no_measurement(algorithm, monkeypatch):
    """What the private table is asked, and what it answers, are those of the same run without particles."""
    monkeypatch.setattr(start, "LARGEST_WIDENED", 0)  # the rows that rounds choose by are the public ones
    grown = released("rows that lack ages", algorithm)
    options = {**grown.settings, "particles": None}
    options.pop("algorithm")
    plain = released("rows that lack ages", pmw.PEP(**options))
    assert grown.measurements == plain.measurements
    assert grown.ledger == plain.ledger
    assert [entry.chosen for entry in grown.history] == [entry.chosen for entry in plain.history]
    assert grown.support.size > plain.support.size
