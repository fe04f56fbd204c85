"""A run that ended early goes on from its checkpoint, on any number of ranks, and spends nothing twice."""

import json

import numpy as np
import pytest

import privmw as pmw
from algorithms.cases import EndedError
from cluster.sharded_cases import ALGORITHMS, PRIVATE, SUPPORT, WORKLOAD
from cluster.thread_ranks import run_ranks
from privmw.algorithms.checkpoint import Checkpoint
from slow import slow, slow_among


def run(folder, size, algorithm, *, until=None, every=2, seed=5):
    """The releases of all ranks, or the error of each where rank 0 ends after a round."""

    def program(comm):
        def progress(entry):
            if entry.round == until:
                raise EndedError

        support = pmw.ShardedSupport.of(SUPPORT, comm) if size > 1 else SUPPORT
        mechanism = algorithm.calibrate(rho=0.3)
        private = PRIVATE if comm.rank == 0 else None
        release = mechanism(
            private, support, WORKLOAD, rng=seed, progress=progress, checkpoint=folder, every=every
        )
        return release.gathered()

    return run_ranks(size, program)[0]


def ended(folder, size, algorithm, until, **options):
    with pytest.raises(EndedError) as found:
        run(folder, size, algorithm, until=until, **options)
    return found.value.ledger


@pytest.mark.parametrize("sizes", [(1, 1), (3, 2), *slow((4, 1))])
@pytest.mark.parametrize("name", ["mw-pub", "mw-pub by changes", "mw-pub averaged", "pep", "pep on cells"])
def test_a_resumed_run_spends_what_an_uninterrupted_one_does(tmp_path, name, sizes):
    algorithm = ALGORITHMS[name]
    whole = run(tmp_path / "whole", 1, algorithm)
    spent = ended(tmp_path / "ended", sizes[0], algorithm, until=3)
    resumed = run(tmp_path / "ended", sizes[1], algorithm)
    assert resumed.ledger == whole.ledger
    assert resumed.measurements[:3] == whole.measurements[:3]
    assert resumed.history[:3] == whole.history[:3]
    assert resumed.ledger.events[: len(spent.events)] == spent.events
    assert resumed.measurements[3].noisy_counts.tolist() != whole.measurements[0].noisy_counts.tolist()


@pytest.mark.parametrize(
    "name", slow_among(ALGORITHMS, {name for name in ALGORITHMS if "pep" in name} - {"pep on cells"})
)
def test_a_finished_run_is_made_again_bit_for_bit_from_weights_or_from_its_rounds(tmp_path, name):
    algorithm, size = ALGORITHMS[name], 3
    whole = run(tmp_path / "kept", 2, algorithm, every=3)
    again = run(tmp_path / "kept", size, algorithm, every=3)
    assert again == whole
    (tmp_path / "kept" / "weights.json").unlink()
    assert run(tmp_path / "kept", size, algorithm, every=3) == whole


def test_rounds_after_the_last_weights_are_not_drawn_again(tmp_path):
    algorithm = ALGORITHMS["mw-pub"]
    ended(tmp_path / "kept", 1, algorithm, until=5, every=4)
    kept = json.loads((tmp_path / "kept" / "weights.json").read_text())
    assert kept["round"] == 4
    whole = run(tmp_path / "whole", 1, algorithm)
    assert run(tmp_path / "kept", 1, algorithm, every=4).measurements[:5] == whole.measurements[:5]


def test_a_checkpoint_holds_released_values_only(tmp_path):
    run(tmp_path / "kept", 2, ALGORITHMS["mw-pub"])
    counts = PRIVATE.counts(WORKLOAD)
    files = [path for path in (tmp_path / "kept").rglob("*") if path.is_file()]
    assert {path.suffix for path in files} == {".json", ".zip"}
    assert len([path for path in files if path.parent.name == "weights"]) == 2
    for path in files:
        content = path.read_bytes()
        assert counts.tobytes() not in content
        assert b"ChaCha20" not in content or b"seeded" in content


def other(**changed):
    kinds = {
        "algorithm": {"algorithm": pmw.MWPub(rounds=7)},
        "budget": {"rho": 0.4},
        "workload": {"workload": pmw.Workload.all(WORKLOAD.domain, k=2)},
        "support": {"support": pmw.Support.full(WORKLOAD.domain)},
        "private": {"private": pmw.Table.from_codes(PRIVATE.codes()[:-1], WORKLOAD.domain, private=True)},
    }
    return kinds | changed


@pytest.mark.parametrize("name", other())
def test_a_checkpoint_of_another_run_is_refused(tmp_path, name):
    ended(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], until=2)
    given = {"algorithm": ALGORITHMS["mw-pub"], "rho": 0.3, "workload": WORKLOAD, "support": SUPPORT}
    given = {**given, "private": PRIVATE, **other()[name]}
    mechanism = given["algorithm"].calibrate(rho=given["rho"])
    with pytest.raises(ValueError, match="must be of this run"):
        mechanism(given["private"], given["support"], given["workload"], checkpoint=tmp_path / "kept")


def test_what_is_no_checkpoint_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(ValueError, match="must be a checkpoint or an empty folder"):
        run(tmp_path, 1, ALGORITHMS["mw-pub"])
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize(
    "damaged", ["run.json", "weights.json", "rounds/000002.zip", "weights/000002.0000.zip"]
)
def test_a_damaged_checkpoint_is_refused_on_every_rank(tmp_path, damaged, size):
    ended(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], until=3)
    path = tmp_path / "kept" / damaged
    path.write_bytes(path.read_bytes()[:-7])
    with pytest.raises(ValueError, match="must be a whole, unchanged checkpoint file"):
        run(tmp_path / "kept", size, ALGORITHMS["mw-pub"])


@pytest.mark.parametrize("sizes", [[], [1], [10**6], [SUPPORT.size - 1, 1]])
def test_weights_that_are_not_of_every_row_are_refused(tmp_path, sizes):
    ended(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], until=3)
    file = tmp_path / "kept" / "weights.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "sizes": sizes}))
    with pytest.raises((ValueError, OSError), match=r"must hold weights of every row|No such file"):
        run(tmp_path / "kept", 1, ALGORITHMS["mw-pub"])


@pytest.mark.parametrize("missing", [1, 2])
def test_a_missing_round_is_refused(tmp_path, missing):
    ended(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], until=3, every=9)
    (tmp_path / "kept" / "rounds" / f"{missing:06}.zip").unlink()
    with pytest.raises(ValueError, match="must hold the rounds of one run, all of them"):
        run(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], every=9)


def test_a_round_is_never_written_over(tmp_path):
    ended(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], until=2, every=9)
    late = tmp_path / "kept" / "rounds" / "000003.zip"

    def progress(entry):
        late.write_bytes(b"of another process")

    mechanism = ALGORITHMS["mw-pub"].calibrate(rho=0.3)
    with pytest.raises(ValueError, match="one run at a time: another has released round 3"):
        mechanism(PRIVATE, SUPPORT, WORKLOAD, rng=5, checkpoint=tmp_path / "kept", progress=progress, every=9)
    assert late.read_bytes() == b"of another process"


def test_rounds_of_two_runs_are_not_mixed(tmp_path):
    for name, seed in (("one", 5), ("two", 6)):
        ended(tmp_path / name, 1, ALGORITHMS["mw-pub"], until=3, every=9, seed=seed)
    rounds = [tmp_path / name / "rounds" / "000003.zip" for name in ("one", "two")]
    rounds[0].write_bytes(rounds[1].read_bytes())
    with pytest.raises(ValueError, match="must hold the rounds of one run, all of them"):
        run(tmp_path / "one", 1, ALGORITHMS["mw-pub"], every=9)


def test_weights_of_another_run_are_refused(tmp_path):
    for name, seed in (("one", 5), ("two", 6)):
        ended(tmp_path / name, 1, ALGORITHMS["mw-pub"], until=3, seed=seed)
    (tmp_path / "one" / "weights.json").write_bytes((tmp_path / "two" / "weights.json").read_bytes())
    with pytest.raises(ValueError, match="must hold weights that its rounds led to"):
        run(tmp_path / "one", 1, ALGORITHMS["mw-pub"])


def test_a_folder_that_was_made_and_no_more_is_a_new_checkpoint(tmp_path):
    (tmp_path / "kept" / "rounds").mkdir(parents=True)
    assert run(tmp_path / "kept", 2, ALGORITHMS["mw-pub"]) == run(tmp_path / "other", 1, ALGORITHMS["mw-pub"])


def test_a_generator_would_draw_the_same_again_and_is_refused_where_a_run_goes_on(tmp_path):
    ended(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], until=3, seed=np.random.PCG64(1))
    with pytest.raises(TypeError, match="must be None or a seed to resume a run"):
        run(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], seed=np.random.PCG64(1))
    assert len(run(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], seed=1).history) == 6


def test_parts_of_weights_that_a_killed_rank_left_are_taken_away(tmp_path):
    ended(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], until=3)
    part = tmp_path / "kept" / "weights" / ".000004.0001.zip.0123.unfinished"
    part.write_bytes(b"a part")
    run(tmp_path / "kept", 1, ALGORITHMS["mw-pub"])
    assert not part.exists()


@pytest.mark.parametrize("differs", [("kept", "other"), ("kept", None), (None, "kept")])
def test_ranks_with_different_checkpoints_are_refused_everywhere(tmp_path, differs):
    def program(comm):
        name = differs[min(comm.rank, 1)]
        support = pmw.ShardedSupport.of(SUPPORT, comm)
        folder = None if name is None else tmp_path / name
        ALGORITHMS["mw-pub"].calibrate(rho=0.3)(PRIVATE, support, WORKLOAD, checkpoint=folder)

    for error in run_ranks(3, program, errors=True):
        assert "checkpoint and every must be the same on every rank: rank 1, 2" in str(error)


def test_ranks_that_do_not_see_the_checkpoint_are_refused_before_anything_is_spent(tmp_path, monkeypatch):
    check = Checkpoint._check

    def elsewhere(self, run):
        if self._comm.rank == 1:
            raise FileNotFoundError(2, "No such file or directory", "run.json")
        check(self, run)

    monkeypatch.setattr(Checkpoint, "_check", elsewhere)
    with pytest.raises(FileNotFoundError):
        run(tmp_path / "kept", 3, ALGORITHMS["mw-pub"])
    assert not list((tmp_path / "kept" / "rounds").iterdir())


@pytest.mark.parametrize("every", [0, -1, 1.5, "2"])
def test_every_must_be_a_positive_integer(tmp_path, every):
    with pytest.raises((TypeError, ValueError), match="every"):
        run(tmp_path, 1, ALGORITHMS["mw-pub"], every=every)


def test_weights_of_a_run_are_those_of_its_shards_in_one_order(tmp_path):
    for size in (1, 3):
        run(tmp_path / str(size), size, ALGORITHMS["mw-pub"])
    parts = {}
    for size in (1, 3):
        shards = sorted((tmp_path / str(size) / "weights").glob("*.zip"))
        arrays = [np.load(shard)["rows/weights"] for shard in shards]
        parts[size] = np.concatenate(arrays)
    assert np.array_equal(parts[1], parts[3])
