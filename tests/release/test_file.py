import io
import json
import os
import stat
import zipfile

import numpy as np
import pytest

import privmw as pmw
import privmw.release.file
from privmw.release import Release, Round
from privmw.release.file import FORM, VERSION, load_release, write_archive, write_array
from privmw.release.measurements import Measurement
from release.cases import DOMAIN, SUPPORT, WORKLOAD, release


@pytest.fixture
def path(tmp_path):
    release().save(tmp_path / "x.release")
    return tmp_path / "x.release"


def refused(path, message="must be a whole, unchanged release file"):
    with pytest.raises(ValueError, match=message) as caught:
        load_release(path)
    assert path.name in str(caught.value)


def members(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist() if name != "manifest.json"}


def mended(path, **changed):
    """The same file with some members changed, and the digests right again."""
    new = {**members(path), **changed}
    kept = [(name, content) for name, content in new.items() if content is not None]
    write_archive(path, kept, form=FORM, version=VERSION, overwrite=True)


def described(path, **changed):
    values = {**json.loads(members(path)["release.json"]), **changed}
    mended(path, **{"release.json": json.dumps(values).encode()})


def unspent():
    return pmw.accounting.Ledger(pmw.Budget.zcdp(0.5), pmw.accounting.Neighbors.REPLACE_ONE, n=1000)


NOTHING = {"measurements": (), "history": (), "ledger": unspent(), "settings": {}}


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"measured": pmw.Workload(DOMAIN, [("age", "sex"), ("sex",)])},
        {"history": (), "settings": {}},
        NOTHING,
        {**NOTHING, "workload": pmw.Workload(DOMAIN, [])},
        {"settings": {"algorithm": "\ud800", "deep": [{"a": [1, 2.5, None, True]}]}},
    ],
)
def test_a_loaded_release_equals_the_saved_one(tmp_path, changed):
    saved = release(**changed)
    saved.save(tmp_path / "any name")
    loaded = load_release(tmp_path / "any name")
    assert loaded == saved
    assert repr(loaded) == repr(saved)
    assert np.array_equal(loaded.answers(), saved.answers())
    assert loaded.sample(50, seed=1) == saved.sample(50, seed=1)
    assert (loaded.measured is loaded.workload) == (saved.measured is saved.workload)
    assert not loaded.weights.flags.writeable
    assert os.listdir(tmp_path) == ["any name"]


def test_the_smallest_support_is_saved_and_loaded(tmp_path):
    domain = pmw.Domain({"only": 1})
    ledger = pmw.accounting.Ledger(pmw.Budget.pure(1), pmw.accounting.Neighbors.REPLACE_ONE, n=1)
    saved = Release(pmw.Support.full(domain), pmw.Workload.all(domain, 1), [1.0], ledger=ledger, settings={})
    saved.save(tmp_path / "one")
    assert load_release(str(tmp_path / "one")) == saved


def test_the_same_release_gives_the_same_bytes_that_numpy_reads_too(tmp_path, path):
    release().save(tmp_path / "again")
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
    with np.load(path, allow_pickle=False) as arrays:
        assert np.array_equal(arrays["weights"], release().weights)


def test_an_existing_file_is_kept_unless_told_otherwise(tmp_path, path):
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        release(settings={}).save(path)
    assert path.read_bytes() == before
    release(settings={}).save(path, overwrite=True)
    assert load_release(path).settings == {}
    assert os.listdir(tmp_path) == ["x.release"]


def test_a_file_that_comes_in_between_is_kept(tmp_path, monkeypatch):
    target = tmp_path / "late"
    synced = os.fsync
    monkeypatch.setattr(os, "fsync", lambda file: (target.write_text("mine"), synced(file)))
    with pytest.raises(FileExistsError):
        release().save(target)
    assert target.read_text() == "mine"
    assert os.listdir(tmp_path) == ["late"]


def test_without_links_a_file_is_still_written_whole(tmp_path, monkeypatch):
    def no_links(source, target):
        raise OSError("not supported")

    monkeypatch.setattr(os, "link", no_links)
    release().save(tmp_path / "x")
    assert load_release(tmp_path / "x") == release()
    with pytest.raises(FileExistsError):
        release().save(tmp_path / "x")


@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_an_interrupted_save_leaves_nothing(tmp_path, monkeypatch, error):
    def fail(file):
        raise error

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(type(error)):
        release().save(tmp_path / "x")
    assert os.listdir(tmp_path) == []


def test_a_file_has_the_usual_permissions(tmp_path, path):
    (tmp_path / "plain").write_text("")
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE((tmp_path / "plain").stat().st_mode)


def test_a_missing_file_or_folder_is_said_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_release(tmp_path / "none")
    with pytest.raises(FileNotFoundError):
        release().save(tmp_path / "none" / "x")
    with pytest.raises(IsADirectoryError):
        load_release(tmp_path)


def test_a_file_cut_anywhere_is_refused(path):
    whole = path.read_bytes()
    for length in [0, 1, 4, 30, *range(50, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:length])
        refused(path)


def test_a_file_with_a_byte_changed_anywhere_is_refused_or_means_the_same(path):
    # Dates, permissions and the like of a zip's entries carry no meaning, and no digest covers them.
    whole = path.read_bytes()
    messages = set()
    for place in range(0, len(whole), 5):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x21]) + whole[place + 1 :])
        try:
            assert load_release(path) == release()
        except ValueError as error:
            messages.add(str(error))
    assert messages
    assert all(path.name in message for message in messages)


@pytest.mark.parametrize("content", [b"", b"{}", b"\x80\x04N.", b"PK\x03\x04", b"\x93NUMPY\x01\x00"])
def test_a_foreign_file_is_refused(path, content):
    path.write_bytes(content)
    refused(path)


def test_a_zip_or_npz_of_others_is_refused(path):
    np.savez(path.with_suffix(".npz"), weights=np.ones(3))
    refused(path.with_suffix(".npz"), "must say format")
    write_archive(path, [], form="another", version=1, overwrite=True)
    refused(path, "must say format 'privmw release'")


def test_another_version_is_refused(path):
    write_archive(path, members(path).items(), form=FORM, version=2, overwrite=True)
    refused(path, r"version \(2\) must be 1")


def test_compressed_or_repeated_members_are_refused(path):
    inside = members(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("release.json", b" " * 10**7)
    refused(path, "must not be compressed")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("release.json", inside["release.json"])
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("release.json", inside["release.json"])
    refused(path, "must not overlap or repeat")


def test_an_edited_member_is_refused(path):
    with zipfile.ZipFile(path) as archive:
        inside = {name: archive.read(name) for name in archive.namelist()}
    inside["release.json"] = inside["release.json"].replace(b"MWPub", b"Other")
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in inside.items():
            archive.writestr(name, content)
    refused(path, "a SHA-256 differs")


def array(values, dtype):
    return write_array(np.array(values, dtype))


def pickled():
    buffer = io.BytesIO()
    np.save(buffer, np.array([{}] * 4, object), allow_pickle=True)
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("member", "content", "message"),
    [
        ("weights.npy", None, "weights.npy"),
        ("extra.npy", array([1], np.int64), "member .extra.npy. must be one that this version knows"),
        ("weights.npy", array([0.5, 0.5], np.float64), "must be one for each"),
        ("weights.npy", array([0.5] * 4, np.float64), "must sum to 1"),
        ("weights.npy", array([0.25] * 4, np.float32), "must be 1-D and float64"),
        ("weights.npy", array([[0.25] * 4], np.float64), "must be 1-D and float64"),
        ("weights.npy", pickled(), "must be 1-D and float64"),
        ("weights.npy", array([0.25] * 4, np.float64)[:-1], "must be as long as it says"),
        ("weights.npy", b"", "release file"),
        ("support/0.npy", array([0, 3, 3, 10], np.uint8), "outside the domain"),
        ("support/0.npy", array([3, 0, 3, 9], np.uint8), "must ascend"),
        ("support/2.npy", array([5, 9, 9, 59_999], np.uint16), "must be distinct"),
        ("support/0.npy", array([0, 3, 3, 9], np.int64), "must be 1-D and uint8"),
        ("support/counts.npy", array([1, 1, -1, 1], np.int64), "must not be negative"),
        ("workload/attributes.npy", array([0, 0, 3], np.int32), "must be from 0 to 2"),
        ("workload/attributes.npy", array([0, 1, 0], np.int32), "must ascend"),
        ("workload/attributes.npy", array([0, 1, 1], np.int32), "twice"),
        ("workload/starts.npy", array([0, 2, 1, 3], np.int64), "must ascend from 0"),
        ("workload/starts.npy", array([], np.int64), "must ascend from 0"),
        ("workload/starts.npy", array([0, 0, 3], np.int64), "must have 1 to 6 attributes"),
        ("measurements/cells.npy", array([3, 9, 30], np.int64), "must be from 0 to 29"),
        ("measurements/cells.npy", array([3, 9], np.int64), "sizes of the measurements"),
        ("measurements/noisy_counts.npy", array([3, 9, 4, 4], np.int64), "sizes of the measurements"),
        ("ledger.json", b"{}", "version"),
        ("ledger.json", b"\xff", "release file"),
        ("domain.json", b"[]", "must be a JSON object"),
        ("domain.json", pmw.Domain({"age": 10, "sex": 2}).to_json().encode(), "must be distinct"),
        ("release.json", b"{}", "must be an object with the keys"),
        ("release.json", b'{"a": 1, "a": 2}', "must be given only once"),
        ("release.json", b"[" * 100_000, "release file"),
    ],
)
def test_a_file_with_its_digests_mended_is_still_checked(path, member, content, message):
    mended(path, **{member: content})
    refused(path, message)


@pytest.mark.parametrize(
    "changed",
    [
        {"settings": []},
        {"settings": {"a": float("inf")}},
        {"history": 3},
        {"history": [{"round": 1}]},
        {"measured": "another workload"},
        {"measured": 1},
        {"measurements": {}},
        {"measurements": [{"size": 3, "noise": "none", "scale": 1.0, "round": 0}]},
        {"measurements": [{"size": -3, "noise": "discrete-laplace", "scale": 1.0, "round": 0}]},
        {"measurements": [{"size": 3, "noise": "discrete-laplace", "scale": 0, "round": 0}]},
        {"measurements": [{"size": 3, "noise": "discrete-laplace", "scale": 1, "round": 0, "more": 1}]},
        {"more": 1},
    ],
)
def test_a_release_json_that_says_something_else_is_refused(path, changed):
    described(path, **changed)
    refused(path)


def test_a_ledger_that_does_not_add_up_is_refused(path):
    text = members(path)["ledger.json"].decode()
    mended(path, **{"ledger.json": text.replace('"rho": 0.09375', '"rho": 0.03125').encode()})
    refused(path, "must be what the rest of the ledger says")


def test_only_releases_are_saved(tmp_path):
    with pytest.raises(TypeError, match="must be a Release"):
        privmw.release.file.save_release(SUPPORT, tmp_path / "x")
    with pytest.raises(TypeError, match="must be a string or a path"):
        release(workload=WORKLOAD).save(b"bytes")


def measured(cells=(3, 9), noise="discrete-gaussian", scale=4.0, number=0):
    return Measurement(cells, [360] * len(cells), noise, scale, number)


def spent(select=0.25, more=False, unit="record"):
    """The ledger of the release, with some of it changed."""
    made = pmw.accounting.Ledger(
        pmw.Budget.zcdp(0.5), pmw.accounting.Neighbors.REPLACE_ONE, n=1000, unit=unit
    )
    made.charge(pmw.accounting.DiscreteGaussian(sigma=4, l2_sensitivity_squared=1, size=2))
    if select is not None:
        made.charge(pmw.accounting.PermuteAndFlip(select, candidates=30))
    made.charge(pmw.accounting.DiscreteLaplace(scale=4, l1_sensitivity=1))
    if more:
        made.charge(pmw.accounting.PermuteAndFlip(select, candidates=30))
    return made


def chosen_alone():
    """A ledger without what was measured."""
    made = unspent()
    made.charge(pmw.accounting.PermuteAndFlip(0.25, candidates=30))
    return made


GAUSSIAN, LAPLACE = measured(), measured([17], "discrete-laplace", number=1)


def rounds(*pairs):
    return [Round(number, (17,) if number else (), 0.5, 0.25, rho) for number, rho in pairs]


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"measurements": (), "history": ()}, r"measurements \(0\) must be as many as the ledger says, 2"),
        ({"ledger": unspent()}, r"measurements \(2\) must be as many as the ledger says, 0"),
        ({"measurements": [GAUSSIAN]}, r"measurements \(1\) must be as many"),
        ({"measurements": [GAUSSIAN, LAPLACE, LAPLACE]}, r"measurements \(3\) must be as many"),
        ({"measurements": [LAPLACE, GAUSSIAN]}, "measurement 0.* must have noise and size of"),
        ({"measurements": [measured([3]), LAPLACE]}, "measurement 0.* must have noise and size of"),
        ({"measurements": [measured(scale=2.0), LAPLACE]}, "measurement 0.* must have noise and size of"),
        (
            {"measurements": [GAUSSIAN, measured([17], number=1)]},
            "measurement 1.* must have noise and size of",
        ),
        (
            {"history": rounds((0, 0.03125), (1, 0.0937))},
            "rho of round 1 must be 0.09375, by the ledger",
        ),
        ({"history": rounds((0, 0.07), (1, 0.09375))}, "rho of round 0 must be 0.03125, by the ledger"),
        ({"history": rounds((0, float("nan")), (1, 0.09375))}, "rho of round 0 must be"),
        ({"history": rounds((1, 0.03125), (0, 0.09375))}, "rounds of the history must ascend"),
        ({"history": rounds((1, 0.03125), (1, 0.09375))}, "rounds of the history must ascend"),
        ({"history": rounds((0, 0.09375))}, "rounds of the measurements must be those of the history"),
        ({"history": rounds((0, 0.01), (1, 0.03), (2, 0.09375))}, "must be those of the history"),
        ({"ledger": spent(select=None)}, "round 1 must choose by events of the ledger"),
        ({"ledger": spent(select=1e-6)}, "rho of round 1 must be"),
        ({"ledger": spent(more=True)}, "must have no event after the last round"),
        ({"ledger": spent(unit="household of at most 3 records")}, "noise for a unit of 3 records"),
        (
            {"settings": {"algorithm": "MWPub", "rounds": 2}},
            "must be 2, as the settings say",
        ),
        ({"measurements": [GAUSSIAN, measured([18], "discrete-laplace", number=1)]}, "of what was chosen"),
        (
            {
                "ledger": chosen_alone(),
                "measurements": (),
                "history": rounds((1, 0.03125)),
                "settings": {"algorithm": "MWPub", "rounds": 1, "measure": "cell"},
            },
            r"measurements \(none\) must be those of the rounds",
        ),
        ({"ledger": unspent(), "measurements": (), "history": ()}, "must have the rounds of the algorithm"),
    ],
)
def test_a_release_that_contradicts_itself_is_neither_saved_nor_loaded(
    tmp_path, monkeypatch, changed, message
):
    wrong = release(**changed)  # a release may be made so, for an experiment
    with pytest.raises(ValueError, match=message):
        wrong.save(tmp_path / "x")
    assert os.listdir(tmp_path) == []
    with monkeypatch.context() as lenient:
        lenient.setattr(privmw.release.file, "check_release", lambda release: None)
        wrong.save(tmp_path / "x")
    refused(tmp_path / "x", message)


def test_an_emptied_ledger_is_refused(path):
    blank = unspent().to_json().encode()
    mended(path, **{"ledger.json": blank})
    refused(path, "must be as many as the ledger says, 0")


def test_a_support_whose_rows_do_not_ascend_is_not_saved(tmp_path):
    backwards = pmw.Table.from_codes(SUPPORT.rows[::-1], DOMAIN, private=False)
    rows = pmw.Support(backwards, np.ones(4, np.int64))
    with pytest.raises(ValueError, match="rows of the support must ascend"):
        release(support=rows).save(tmp_path / "x")


def test_an_event_of_several_runs_stands_for_as_many_measurements(tmp_path):
    paid = pmw.accounting.Ledger(pmw.Budget.zcdp(0.5), pmw.accounting.Neighbors.REPLACE_ONE, n=1000)
    paid.charge(pmw.accounting.DiscreteGaussian(sigma=4, l2_sensitivity_squared=1, size=2, count=2))
    again = release(ledger=paid, measurements=[GAUSSIAN, measured()], history=(), settings={})
    again.save(tmp_path / "x")
    assert load_release(tmp_path / "x") == again


@pytest.mark.parametrize("lie", ["grown_rows", "grown_mass", "counts"])
def test_grown_rows_that_the_history_contradicts_are_refused(lie, tmp_path):
    private = pmw.Table.from_codes([[0, 1, 5], [1, 0, 3]] * 50, DOMAIN, private=True)
    support = pmw.Support.from_table(pmw.Table.from_codes([[0, 1, 5]], DOMAIN, private=False))
    path = tmp_path / "x.release"
    made = pmw.PEP(rounds=1, particles=100).release(private, support, WORKLOAD, rho=1, rng=1)
    made.save(path)
    assert load_release(path) == made
    if lie == "counts":
        mended(path, **{"support/counts.npy": write_array(made.support.counts + 1)})
    else:
        history = json.loads(members(path)["release.json"])["history"]
        history[-1]["details"][lie] *= 2
        described(path, history=history)
    refused(path, "by the history")
