"""A model that weighs rows of its own passes through loop, checkpoint, ranks and release as any other."""

from dataclasses import dataclass

import numpy as np
import pytest

import privmw as pmw
from algorithms.cases import EndedError
from extensions.cluster.sharded_cases import PRIVATE, SUPPORT, WORKLOAD
from extensions.cluster.thread_ranks import run_ranks
from privmw.extensions.cluster import ShardedSupport

DOMAIN = WORKLOAD.domain


class GrownRows:
    """Begins with the first row of the domain, and takes in a row of each measured cell, as it was measured.

    Its rows are not the support's, and a checkpoint finds all of them in `others`.
    """

    def __init__(self):
        self._codes = np.zeros((1, len(DOMAIN)))
        self._weights = np.ones(1)

    def answers(self):
        support, weights = self.result()
        return support.answers(WORKLOAD, weights)

    def update(self, measurements, *, last):
        for measurement in measurements:
            names, values = WORKLOAD.query(int(measurement.cells[0]))
            row = len(self._codes) % np.array([DOMAIN.sizes], np.float64)
            row[0, [DOMAIN.index(name) for name in names]] = values
            self._codes = np.concatenate([self._codes, row])
            count = max(float(measurement.noisy_counts[0]), 0.0) / PRIVATE.n
            self._weights = np.append(self._weights, count)
        return {"rows": float(len(self._codes))}

    def result(self):
        # Rows that came twice have the sum of their weights.
        rows, which = np.unique(self._codes, axis=0, return_inverse=True)
        weights = np.bincount(which.ravel(), self._weights)
        table = pmw.Table.from_codes(rows.astype(np.int64), DOMAIN, private=False)
        return pmw.Support.from_table(table), weights / weights.sum()

    def state(self):
        return {}, {"codes": self._codes.ravel(), "weights": self._weights}

    def restore(self, measurements, state):
        rows, others = state
        assert rows == {}
        self._codes = others["codes"].reshape(-1, len(DOMAIN))
        self._weights = others["weights"]
        assert len(measurements) == len(self._weights) - 1


@dataclass(frozen=True, kw_only=True, repr=False)
class Grown(pmw.MWPub):
    def model(self, inputs):
        return GrownRows()


def run(size, folder=None, until=None):
    """The releases of all ranks; rank 0 ends after a round if it is said."""

    def progress(entry):
        if entry.round == until:
            raise EndedError

    def program(comm):
        support = ShardedSupport.of(SUPPORT, comm) if size > 1 else SUPPORT
        private = PRIVATE if comm.rank == 0 else None
        mechanism = Grown(rounds=6).calibrate(rho=0.3)
        return mechanism(private, support, WORKLOAD, rng=5, progress=progress, checkpoint=folder, every=2)

    return run_ranks(size, program)


@pytest.mark.parametrize("size", [1, 3])
def test_a_model_may_release_rows_of_its_own(size, tmp_path):
    releases = run(size)
    assert all(release == releases[0] for release in releases)
    release = releases[0]
    assert release.support != SUPPORT
    assert 1 < release.support.size <= 7
    assert [entry.details["rows"] for entry in release.history] == [2, 3, 4, 5, 6, 7]
    assert release.answers().tolist() == release.support.answers(WORKLOAD, release.weights).tolist()
    release.save(tmp_path / "own.release")
    assert pmw.load_release(tmp_path / "own.release") == release


@pytest.mark.parametrize("sizes", [(1, 1), (3, 2), (2, 3)])
@pytest.mark.parametrize("until", [1, 3, 4])
def test_a_model_of_its_own_rows_goes_on_from_a_checkpoint(tmp_path, sizes, until):
    with pytest.raises(EndedError):
        run(sizes[0], tmp_path / "kept", until)
    resumed = run(sizes[1], tmp_path / "kept")[0]
    assert run(sizes[0], tmp_path / "kept")[0] == resumed
    (tmp_path / "kept" / "weights.json").unlink()  # the rounds alone lead to the same rows
    assert run(1, tmp_path / "kept")[0] == resumed
    assert resumed.ledger == run(1)[0].ledger
