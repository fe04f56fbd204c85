"""A run that ended early goes on from its checkpoint, on any number of ranks, and spends nothing twice."""

import hashlib
import json
import os
import stat

import numpy as np
import pytest

import privmw as pmw
from algorithms.cases import EndedError
from extensions.cluster.sharded_cases import ALGORITHMS, PRIVATE, SUPPORT, WORKLOAD
from extensions.cluster.thread_ranks import run_ranks
from marks.slow import slow, slow_among
from privmw.algorithms.checkpoint import FORM, VERSION, Checkpoint
from privmw.algorithms.schedule import ExpectedRounds
from privmw.algorithms.task import make_task
from privmw.extensions.cluster import ShardedSupport
from privmw.release.file import read_archive, write_archive, write_array


def run(folder, size, algorithm, *, until=None, every=2, seed=5):
    """The releases of all ranks, or the error of each where rank 0 ends after a round."""

    def program(comm):
        def progress(entry):
            if entry.round == until:
                raise EndedError

        support = ShardedSupport.of(SUPPORT, comm) if size > 1 else SUPPORT
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
    assert {path.suffix for path in files} == {".json", ".txt", ".zip"}
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


def test_a_round_that_a_killed_run_did_not_finish_storing_does_not_stay(tmp_path):
    ended(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], until=3)
    drawn = tmp_path / "kept" / "rounds" / ".000004.zip.0123456789abcdef.unfinished"
    drawn.write_bytes((tmp_path / "kept" / "rounds" / "000003.zip").read_bytes())
    ended(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], until=4)
    assert not drawn.exists()
    assert (tmp_path / "kept" / "rounds" / "000004.zip").exists()


@pytest.mark.parametrize("differs", [("kept", "other"), ("kept", None), (None, "kept")])
def test_ranks_with_different_checkpoints_are_refused_everywhere(tmp_path, differs):
    def program(comm):
        name = differs[min(comm.rank, 1)]
        support = ShardedSupport.of(SUPPORT, comm)
        folder = None if name is None else tmp_path / name
        ALGORITHMS["mw-pub"].calibrate(rho=0.3)(PRIVATE, support, WORKLOAD, checkpoint=folder)

    for error in run_ranks(3, program, errors=True):
        assert "checkpoint and every must be the same on every rank: rank 1, 2" in str(error)


def test_ranks_that_do_not_see_the_checkpoint_are_refused_before_anything_is_spent(tmp_path, monkeypatch):
    check = Checkpoint._check

    def elsewhere(self):
        if self._comm.rank == 1:
            raise FileNotFoundError(2, "No such file or directory", "run.json")
        return check(self)

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


def stored(folder):
    """The files of the rounds, in order."""
    return sorted((folder / "rounds").glob("*.zip"))


def rewritten(folder, changes, *, number=2):
    """Change what the file of a round says, and mend every digest after it: a careful edit."""
    before = ""
    lines = []
    for path in stored(folder):
        members = read_archive(path, form=FORM, version=VERSION)
        described = json.loads(members["round.json"])
        if int(path.stem) == number:
            changes(described, members)
        described["after"] = before
        members["round.json"] = json.dumps(described).encode()
        write_archive(path, members.items(), form=FORM, version=VERSION, overwrite=True)
        before = hashlib.sha256(path.read_bytes()).hexdigest()
        lines.append(f"{path.name} {before}\n")
    (folder / "rounds.txt").write_text("".join(lines))


def change(**values):
    return lambda described, members: described.update(values)


def emptied(described, members):
    described["events"] = []


def without_an_event(described, members):
    described["events"].pop()


def with_another_scale(described, members):
    described["events"][1]["sigma"] *= 2
    described["measurements"][0]["scale"] *= 2


def with_more_noise_than_paid(described, members):
    described["measurements"][0]["scale"] *= 2


def with_more_candidates(described, members):
    described["events"][0]["candidates"] += 1


def with_a_cheaper_choice(described, members):
    described["events"][0]["epsilon"] = "1/1000"


def with_cells(values):
    def changed(described, members):
        members["measurements/cells.npy"] = write_array(np.array(values))

    return changed


def without_its_measurement(described, members):
    described["measurements"] = []
    for name in ("cells", "noisy_counts"):
        members[f"measurements/{name}.npy"] = write_array(np.empty(0, np.int64))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (emptied, r"events of round 2 must be those of its schedule, .*, not \[\]"),
        (without_an_event, "events of round 2 must be those of its schedule"),
        (with_another_scale, "events of round 2 must be those of its schedule"),
        (with_more_candidates, "events of round 2 must be those of its schedule"),
        (with_a_cheaper_choice, "events of round 2 must be those of its schedule"),
        (with_more_noise_than_paid, "must be of round 2, with the noise of its DiscreteGaussian"),
        (with_cells([10**6]), "cells of Measurement.* must be those that were chosen"),
        (with_cells([0]), "cells of Measurement.* must be those that were chosen"),
        (without_its_measurement, "measurements of round 2 must be 1"),
        (change(chosen=[]), r"chosen \(\) of round 2 must be 1 different cells below"),
        (change(chosen=[5, 5]), r"chosen \(5, 5\) of round 2 must be 1 different cells below"),
        (change(chosen=[WORKLOAD.cells]), "must be 1 different cells below"),
        (change(chosen=[7]), "cells of Measurement.* must be those that were chosen"),
        (change(rho=0.01), "rho .0.01. must be that of all events so far"),
        (change(round=3), "round .3. must be that of the file's name"),
        (change(seeded=7), "reason .7. must be a string"),
    ],
)
def test_a_round_that_its_schedule_does_not_allow_is_refused(tmp_path, changes, reason):
    algorithm = pmw.MWPub(rounds=4)
    ended(tmp_path / "kept", 1, algorithm, until=3, every=None)
    rewritten(tmp_path / "kept", lambda described, members: None)
    rewritten(tmp_path / "kept", changes)
    with pytest.raises(
        ValueError, match=rf"000002\.zip' must be a whole, unchanged checkpoint file: .*{reason}"
    ):
        run(tmp_path / "kept", 1, algorithm, every=None)


def test_a_careful_edit_that_changes_nothing_is_accepted(tmp_path):
    algorithm = pmw.MWPub(rounds=4)
    ended(tmp_path / "kept", 1, algorithm, until=3, every=None)
    rewritten(tmp_path / "kept", lambda described, members: None)
    assert len(run(tmp_path / "kept", 1, algorithm, every=None).history) == 4


@pytest.mark.parametrize("cells", ["another marginal", "fewer", "another order"])
def test_cells_that_are_not_those_of_the_chosen_marginal_are_refused(tmp_path, cells):
    algorithm = pmw.PEP(rounds=3, prior_weight=100.0)
    ended(tmp_path / "kept", 1, algorithm, until=2, every=None)

    def changes(described, members):
        found = np.frombuffer(members["measurements/cells.npy"][-8 * described["measurements"][0]["size"] :])
        found = found.view(np.int64)
        other = {"another marginal": (found + 1), "fewer": found[:-1], "another order": found[::-1]}[cells]
        members["measurements/cells.npy"] = write_array(np.ascontiguousarray(other))

    rewritten(tmp_path / "kept", changes)
    with pytest.raises(ValueError, match=r"cells of Measurement.* must be those|sizes of the measurements"):
        run(tmp_path / "kept", 1, algorithm, every=None)


@pytest.mark.parametrize(
    ("missing", "reason"), [(1, "before 000002.zip"), (2, "before 000003.zip"), (3, None)]
)
def test_a_missing_round_is_refused_the_last_one_too(tmp_path, missing, reason):
    ended(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], until=3, every=None)
    stored(tmp_path / "kept")[missing - 1].unlink()
    with pytest.raises(ValueError, match=reason or "must hold 000003.zip as it was stored"):
        run(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], every=None)


def test_a_round_beyond_the_last_is_refused(tmp_path):
    run(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], every=None)
    last = stored(tmp_path / "kept")[-1]
    last.with_name("000007.zip").write_bytes(last.read_bytes())
    rewritten(tmp_path / "kept", change(round=7), number=7)
    with pytest.raises(ValueError, match=r"round \(7\) must be 7, and at most 6, the last"):
        run(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], every=None)


def test_a_line_that_was_not_finished_is_not_missed(tmp_path):
    ended(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], until=3, every=None)
    lines = tmp_path / "kept" / "rounds.txt"
    lines.write_bytes(lines.read_bytes()[:-30])
    ended(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], until=5, every=None)  # which writes behind it
    assert len(run(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], every=None).history) == 6


@pytest.mark.parametrize(
    "name", ["mw-pub after a shot", "mw-pub on marginals afresh", "mwem+pub", "pep of all"]
)
def test_what_a_run_charges_and_measures_is_what_its_schedule_expects(tmp_path, name):
    whole = run(tmp_path / "kept", 1, ALGORITHMS[name], every=None)
    assert run(tmp_path / "kept", 1, ALGORITHMS[name], every=None) == whole


def test_records_of_one_unit_multiply_the_sensitivities_that_are_expected():
    algorithm = pmw.MWPub(rounds=2, measure="marginal", warm_up=0.5)
    task = make_task(WORKLOAD, None, "marginal")
    for budget, grows in ((pmw.Budget.zcdp(1), 9), (pmw.Budget.pure(1), 3)):
        for number, chosen in ((0, []), (1, [4])):
            one, three = (
                ExpectedRounds(algorithm.schedule, budget, task, at_most=k).events(number, chosen)
                for k in (1, 3)
            )
            name = "l2_sensitivity_squared" if budget.notion == "zCDP" else "l1_sensitivity"
            assert getattr(three[-1], name) == grows * getattr(one[-1], name)
            assert three[-1].rho == pytest.approx(one[-1].rho, rel=1e-12)
            assert three[:-1] == one[:-1]


def test_a_checkpoint_grows_linearly_with_its_rounds_and_stores_each_event_once(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "fsync", lambda file: None)  # a tenth of the time
    domain = pmw.Domain({"a": 2, "b": 2})
    table = pmw.Table.from_codes([[0, 0], [1, 1], [0, 1]] * 30, domain, private=True)
    sizes = {}
    for rounds in (100, 200, 400):
        folder = tmp_path / str(rounds)
        mechanism = pmw.MWPub(rounds=rounds, replay="none").calibrate(rho=1)
        release = mechanism(
            table,
            pmw.Support.full(domain),
            pmw.Workload.all(domain, k=1),
            rng=1,
            checkpoint=folder,
            every=None,
        )
        members = [read_archive(path, form=FORM, version=VERSION) for path in stored(folder)]
        events = [event for member in members for event in json.loads(member["round.json"])["events"]]
        assert len(events) == len(release.ledger.events) == 2 * rounds
        sizes[rounds] = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    # Twice as many rounds more take twice as much; it would be four times if each repeated the ledger.
    assert sizes[400] - sizes[200] == pytest.approx(2 * (sizes[200] - sizes[100]), rel=0.1)
    assert sizes[400] < 4.2 * sizes[100]


def test_a_checkpoint_is_readable_by_its_owner_only(tmp_path):
    ended(tmp_path / "kept", 1, ALGORITHMS["mw-pub"], until=3)
    for path in (tmp_path / "kept", *(tmp_path / "kept").rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_without_weights_only_rank_0_sees_the_folder(tmp_path, monkeypatch):
    def elsewhere(self):
        assert self._comm.rank == 0
        return check(self)

    check = Checkpoint._check
    monkeypatch.setattr(Checkpoint, "_check", elsewhere)
    whole = run(tmp_path / "whole", 1, ALGORITHMS["mw-pub"], every=None)
    ended(tmp_path / "kept", 3, ALGORITHMS["mw-pub"], until=3, every=None)
    assert not list((tmp_path / "kept" / "weights").iterdir())
    assert run(tmp_path / "kept", 2, ALGORITHMS["mw-pub"], every=None).ledger == whole.ledger
    assert not (tmp_path / "kept" / "weights.json").exists()


def test_a_part_of_the_first_file_that_a_killed_run_left_is_no_obstacle(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / ".run.json.0123.unfinished").write_bytes(b"{")
    assert len(run(tmp_path / "kept", 1, ALGORITHMS["mw-pub"]).history) == 6
