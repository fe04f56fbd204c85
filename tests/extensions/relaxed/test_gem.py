"""GEM and GEM-Pub: what a run costs, learns, resumes and refuses; sizes are tiny."""

import shutil

import numpy as np
import pytest

import privmw as pmw
from algorithms.cases import DOMAIN, WORKLOAD, EndedError, private, support, table
from privmw.extensions.relaxed.generated import LargestMisfit, pretrain, public_marginals
from privmw.extensions.relaxed.generator import Generator, GeneratorShape

SMALL = {"rows": 40, "inputs": 8, "widths": (16, 16), "steps": 60, "rate": 0.01, "draws": 2000, "epochs": 300}
SOME = ("a", "b", "e")


def gem(**options):
    return pmw.GEM(**{**SMALL, "rounds": 6, **options})


def run(public=None, records=None, rho=0.5, rng=3, workload=WORKLOAD, options=None, **runs):
    mechanism = gem(**(options or {})).calibrate(rho=rho)
    return mechanism(records or private(), public, workload, rng=rng, **runs)


def some_columns():
    return pmw.Support.from_table(table(60, 1.2, 2).project(SOME), domain=DOMAIN)


def errors(release, records=None):
    records = records or private()
    return np.abs(release.answers() - records.counts(WORKLOAD) / records.n)


@pytest.mark.parametrize(
    "options", [{}, {"measure": "cell"}, {"per_round": 2, "rounds": 3}, {"warm_up": 0.2, "order": 1}]
)
@pytest.mark.parametrize("records", [private, lambda: private(n=150, skew=5.0, seed=9)])
def test_a_run_costs_what_was_stated_whatever_the_data(options, records):
    release = run(options={**options, "steps": 2, "draws": 100}, records=records())
    stated = gem(**options).calibrate(rho=0.5).rho
    assert stated == 0.5
    assert stated * (1 - 1e-12) < release.ledger.rho <= stated  # scales of noise are rounded up
    chosen = [choice for entry in release.history for choice in entry.chosen]
    assert len(set(chosen)) == len(chosen) == 6


def test_a_release_is_near_the_private_table_where_noise_is_small():
    release = run(rho=500.0, options={"rounds": 10, "steps": 200})
    uniform = np.concatenate([np.full(s, 1 / s) for s in np.diff(WORKLOAD.offsets)])
    start = np.abs(uniform - private().counts(WORKLOAD) / private().n).max()
    assert errors(release).max() < 0.01 < 0.2 < start
    assert release.support.counts.sum() == 0  # no row is public
    # The rows' answers are those of the products, up to what is measured better.
    assert release.history[-1].details["from_products"] < 0.03


@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_training_lowers_the_misfit_of_what_was_measured(loss):
    release = run(options={"loss": loss}, rho=50.0)
    assert all(entry.after < 0.5 * entry.discrepancy + 0.01 for entry in release.history[1:])


def test_public_rows_give_a_better_start_and_a_better_release_where_noise_is_large():
    everything = pmw.Support.from_table(table(2000, 2.0, 5))  # another sample of the same population
    plain, public = run(rho=0.001), run(everything, rho=0.001)
    assert errors(public).max() < 0.7 * errors(plain).max()
    assert public.history[1].discrepancy < plain.history[1].discrepancy
    assert public.support.counts.sum() == 0  # public rows train, and are not released


def test_pretraining_answers_as_the_public_rows_do():
    generator = Generator(DOMAIN, GeneratorShape(60, 8, (32, 32)))
    assert pretrain(generator, support(), WORKLOAD, epochs=600) < 0.01


def test_attributes_that_public_rows_lack_are_even_after_pretraining():
    generator = gem().pretrain(some_columns(), WORKLOAD)
    tables = np.split(generator.tables(), np.cumsum(DOMAIN.sizes)[:-1])
    np.testing.assert_allclose(tables[2], 0.25, rtol=1e-6)  # c
    assert np.abs(tables[0] - 1 / 3).max() > 0.1  # a
    release = run(some_columns(), rho=50.0)
    assert errors(release).max() < 0.1


def test_a_generator_from_a_file_is_the_one_of_public_rows(tmp_path):
    gem().pretrain(support(), WORKLOAD).save(tmp_path / "g")
    once = run(options={"pretrained": tmp_path / "g"})
    again = run(support())
    assert (once.weights == again.weights).all()
    assert once.support == again.support
    assert once.settings["pretrained"] == str(tmp_path / "g")


@pytest.mark.parametrize(
    "public", [lambda: None, support, some_columns], ids=["none", "public", "some columns"]
)
@pytest.mark.parametrize("loss", ["squared", "absolute"])
def test_a_resumed_run_has_the_same_bits_from_its_network_or_from_its_rounds(tmp_path, public, loss):
    def end(entry):
        if entry.round == 4:
            raise EndedError

    options = {"loss": loss, "steps": 7, "epochs": 10, "draws": 200}
    with pytest.raises(EndedError):
        run(public(), options=options, checkpoint=tmp_path / "a", every=3, progress=end)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    shutil.rmtree(tmp_path / "b" / "weights")
    (tmp_path / "b" / "weights.json").unlink()
    (tmp_path / "b" / "weights").mkdir()
    stored = run(public(), options=options, checkpoint=tmp_path / "a", every=3)
    replayed = run(public(), options=options, checkpoint=tmp_path / "b", every=3)
    assert stored.support == replayed.support
    assert (stored.weights == replayed.weights).all()
    assert stored.history == replayed.history
    finished = run(public(), options=options, checkpoint=tmp_path / "a", every=3)
    assert (stored.weights == finished.weights).all()


def test_the_same_seed_gives_the_same_release_and_another_seed_of_sampling_another():
    first, again, other = run(), run(), run(options={"seed": 1})
    assert (first.weights == again.weights).all()
    assert first.weights.shape != other.weights.shape or (first.weights != other.weights).any()


def test_constraints_hold_in_every_row():
    rules = pmw.Constraints({"invalid": [{"a": [0], "b": [0]}]}, DOMAIN)
    public = pmw.Support.without_public(DOMAIN, rules)
    release = run(public, options={"draws": 300})
    assert not ((release.support.rows[:, 0] == 0) & (release.support.rows[:, 1] == 0)).any()


def test_a_release_is_saved_and_loaded(tmp_path):
    release = run(support(), options={"steps": 5, "epochs": 5, "draws": 200})
    release.save(tmp_path / "x.release")
    assert (pmw.load_release(tmp_path / "x.release").weights == release.weights).all()


def test_the_absolute_loss_pulls_at_cells_above_half_of_the_running_largest():
    misfit = LargestMisfit(np.array([0.1, 0.5, 0.2, 0.9]), np.array([True, True, True, False]))
    largest, pull = misfit.pull(np.array([0.5, 0.2, 0.3, 0.0], np.float32))
    assert largest == pytest.approx(0.4)
    np.testing.assert_allclose(pull, [0.5, -0.5, 0.0, 0.0])  # the last was not measured
    misfit.pull(np.array([0.1, 0.5, 0.3, 0.0], np.float32))
    assert misfit.running == pytest.approx(0.25)
    _, pull = misfit.pull(np.array([0.1, 0.5, 0.2, 0.0], np.float32))
    assert not pull.any()


def test_noisy_answers_outside_0_and_1_are_clipped_by_the_absolute_loss():
    misfit = LargestMisfit(np.array([-0.5, 1.5]), np.array([True, True]))
    assert misfit.pull(np.array([0.0, 1.0], np.float32))[0] == 0.0


def test_public_answers_are_worth_no_more_records_than_the_measurements_say():
    good = run(pmw.Support.from_table(table(2000, 2.0, 5)), rho=50.0)  # of the same population
    poor = run(pmw.Support.from_table(table(2000, 0.5, 1)), rho=50.0)
    worths = [[entry.details["public_worth"] for entry in release.history] for release in (good, poor)]
    assert worths[0][-1] > 1000
    assert worths[1][-1] < 50
    assert all(0 < worth <= 2000 for worth in worths[0] + worths[1])
    assert errors(poor).max() < 0.05  # a poor public table does no lasting harm


@pytest.mark.parametrize(
    ("options", "error", "reason"),
    [
        ({"rows": 0}, ValueError, r"rows \(0\) must be"),
        ({"inputs": 0}, ValueError, r"inputs \(0\) must be"),
        ({"widths": (0,)}, ValueError, r"widths must be from 1"),
        ({"widths": 8}, TypeError, r"widths \(8\) must be"),
        ({"steps": 0}, ValueError, r"steps \(0\) must be"),
        ({"draws": 0}, ValueError, r"draws \(0\) must be"),
        ({"epochs": 0}, ValueError, r"epochs \(0\) must be"),
        ({"rate": 0.0}, ValueError, r"rate \(0.0\) must be above 0 and below 1"),
        ({"rate": 1.0}, ValueError, r"rate \(1.0\) must be above 0 and below 1"),
        ({"rate": "fast"}, TypeError, r"rate \('fast'\) must be"),
        ({"loss": "cubed"}, ValueError, r"loss \('cubed'\) must be one of 'squared', 'absolute'"),
        ({"prior_weight": -1.0}, ValueError, r"prior_weight \(-1.0\) must be above 0"),
        ({"seed": -1}, ValueError, r"seed \(-1\) must be"),
        ({"pretrained": 7}, TypeError, r"pretrained \(7\) must be the path of a file"),
        ({"split": 1.0}, ValueError, r"split \(1.0\) must be"),
    ],
)
def test_options_that_mean_nothing_are_refused(options, error, reason):
    with pytest.raises(error, match=reason):
        pmw.GEM(**options)


def refused(reason, public=None, options=None, workload=WORKLOAD):
    """A run that ends with this reason, before anything is spent: its error has no ledger."""
    with pytest.raises(ValueError, match=reason) as caught:
        run(public, options=options, workload=workload)
    assert not hasattr(caught.value, "ledger")


def test_what_cannot_be_trained_is_refused_before_anything_is_spent(tmp_path):
    without = pmw.Workload(DOMAIN, [("a", "c"), ("c", "d")])
    reason = r"must have a marginal of the public columns .* on: 'a', 'b', 'e'"
    refused(reason, some_columns(), {"rounds": 1}, without)
    other = pmw.Domain({"x": 3, "y": 2})
    Generator(other, GeneratorShape(4, 2, (3,))).save(tmp_path / "g")
    refused(r"generator \(.*\) must be of the domain", None, {"pretrained": str(tmp_path / "g")})
    gem(epochs=1).pretrain(support(), WORKLOAD).save(tmp_path / "h")
    refused("must come without public rows", support(), {"pretrained": str(tmp_path / "h")})


def test_rows_of_a_seeded_release_train_no_generator_that_is_kept():
    rows = run(rho=0.5, rng=3, options={"rounds": 1, "steps": 1}).sample(50)
    seeded = pmw.Support.from_table(rows)
    assert not seeded.table.for_release
    with pytest.raises(ValueError, match="seeded release: not for release"):
        gem(epochs=1).pretrain(seeded, WORKLOAD)


def test_a_generator_that_knows_columns_of_no_record_is_refused_before_anything_is_spent(tmp_path):
    generator = gem(epochs=1).pretrain(support(), WORKLOAD)
    generator.records = 0
    generator.save(tmp_path / "g")
    refused("columns must come with the number of public records", None, {"pretrained": str(tmp_path / "g")})


def test_a_missing_file_of_a_generator_is_said_before_anything_is_spent(tmp_path):
    with pytest.raises(FileNotFoundError):
        run(options={"pretrained": str(tmp_path / "none")})


def test_marginals_of_public_columns_are_all_that_the_rows_have():
    names = [WORKLOAD.marginal(j) for j in public_marginals(WORKLOAD, SOME)]
    assert names == [("a", "b"), ("a", "e"), ("b", "e")]
