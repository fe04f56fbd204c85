"""Counts made elsewhere: they stand for the table, stay private, and survive their file."""

import copy
import json
import os
import pickle
import stat

import numpy as np
import pytest

import privmw as pmw
from privmw.extensions.engines import Counts
from privmw.extensions.engines.counts import FORM, VERSION
from privmw.release.file import read_archive, write_archive

DOMAIN = pmw.Domain({"age": 4, "sex": 2, "race": 3, "work": 2})
WORKLOAD = pmw.Workload.all(DOMAIN, k=3)
CODES = np.random.default_rng(0).integers(0, DOMAIN.sizes, (300, 4))


@pytest.fixture
def table():
    return pmw.Table.from_codes(CODES, DOMAIN, private=True)


@pytest.fixture
def counts(table):
    return Counts.from_records(table, WORKLOAD)


def test_a_marginal_inside_a_counted_one_is_summed(table, counts):
    for workload in (WORKLOAD, pmw.Workload.all(DOMAIN, k=[1, 2]), WORKLOAD.select([2, 0])):
        assert np.array_equal(counts.counts(workload), table.counts(workload))


def test_a_marginal_that_was_not_counted_is_refused(counts):
    with pytest.raises(
        ValueError, match=r"lie in what was counted; marginal \('age', 'sex', 'race', 'work'\)"
    ):
        counts.counts(pmw.Workload.all(DOMAIN, k=4))


def test_what_is_asked_leaves_the_counts_as_they_are(counts, table):
    counts.counts(WORKLOAD).fill(0)
    with pmw.curator.Curator(counts, WORKLOAD, pmw.Budget.zcdp(1)):
        pass
    assert np.array_equal(counts.counts(WORKLOAD), table.counts(WORKLOAD))


@pytest.mark.parametrize(
    "release",
    [
        lambda private, support: pmw.release_auto(private, support, WORKLOAD, epsilon=1, delta=1e-6, rng=7),
        lambda private, support: pmw.MWPub().release(
            private, support, WORKLOAD, epsilon=1, delta=1e-6, rng=7
        ),
        lambda private, support: pmw.PEP().release(private, support, WORKLOAD, epsilon=1, delta=1e-6, rng=7),
    ],
    ids=["auto", "mw_pub", "pep"],
)
def test_a_release_is_that_of_the_table(table, counts, release):
    support = pmw.Support.full(DOMAIN)
    assert np.array_equal(release(counts, support).answers(), release(table, support).answers())


def test_measured_marginals_are_those_of_the_table(table, counts):
    def values(measured):
        return measured.marginals.noisy_counts

    def measured(private):
        return pmw.measure_marginals(private, [("age", "sex"), ("race",)], rho=0.5, rng=3)

    ours, theirs = measured(counts), measured(table)
    assert np.array_equal(values(ours), values(theirs))


def test_units_are_paid_for(table):
    ids = np.repeat(np.arange(100), 3)
    capped = table.capped(ids, unit="home", at_most=2)
    counts = Counts.from_records(capped, WORKLOAD)
    assert (counts.n, counts.unit, counts.at_most, counts.protected) == (200, "home", 2, capped.protected)
    with (
        pmw.curator.Curator(counts, WORKLOAD, pmw.Budget.zcdp(1)) as ours,
        pmw.curator.Curator(capped, WORKLOAD, pmw.Budget.zcdp(1)) as theirs,
    ):
        for curator in (ours, theirs):
            curator.measure(marginal=0, rho=0.5)
        assert ours.ledger.total == theirs.ledger.total
        assert ours.ledger.unit == theirs.ledger.unit
    with pytest.raises(ValueError, match="added before they are capped"):
        counts + counts


def test_parts_add_up(table):
    parts = [Counts.from_records(table.take(np.arange(300) % 3 == part), WORKLOAD) for part in range(3)]
    assert parts[0] + parts[1] + parts[2] == Counts.from_records(table, WORKLOAD)
    with pytest.raises(ValueError, match="of one workload"):
        parts[0] + Counts.from_records(table, WORKLOAD.select([0]))
    with pytest.raises(TypeError):
        parts[0] + 1
    labels = pmw.Domain({"age": 4, "sex": ["F", "M"], "race": 3, "work": 2})
    others = Counts.from_records(
        pmw.Table.from_codes(CODES, labels, private=True), pmw.Workload.all(labels, 3)
    )
    with pytest.raises(ValueError, match="of one workload"):
        parts[0] + others
    with pytest.raises(ValueError, match="on the domain of the counts"):
        parts[0].counts(others.workload)
    with pytest.raises(TypeError, match=r"records \(2-D array of int64\) must be a Table or a Scan"):
        Counts.from_records(CODES, WORKLOAD)


def test_a_file_is_its_owners_alone_and_reads_back(counts, tmp_path):
    path = tmp_path / "people.counts"
    old = os.umask(0)
    try:
        counts.save(path)
    finally:
        os.umask(old)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert Counts.load(path) == counts
    with pytest.raises(FileExistsError, match="overwrite=True"):
        counts.save(path)
    counts.save(path, overwrite=True)


def test_a_changed_file_is_refused(counts, tmp_path):
    path = tmp_path / "people.counts"
    counts.save(path)
    content = bytearray(path.read_bytes())
    place = content.find(b"NUMPY", content.find(b"counts.npy")) + 300
    content[place] ^= 1
    path.write_bytes(content)
    with pytest.raises(ValueError, match="must be a whole, unchanged private counts file"):
        Counts.load(path)


def test_a_file_that_others_may_read_is_refused(counts, tmp_path):
    path = tmp_path / "people.counts"
    counts.save(path)
    for mode in (0o640, 0o604, 0o620):
        path.chmod(mode)
        with pytest.raises(ValueError, match=rf"mode {mode:o}\) must be its owner's alone: chmod 600"):
            Counts.load(path)
    path.chmod(0o400)
    assert Counts.load(path) == counts


def test_a_file_that_ends_anywhere_is_refused(counts, tmp_path):
    path = tmp_path / "people.counts"
    counts.save(path)
    content = path.read_bytes()
    for length in range(0, len(content), 97):
        path.write_bytes(content[:length])
        with pytest.raises(ValueError, match="must be a whole, unchanged private counts file"):
            Counts.load(path)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("domain_sha256", "0" * 64),
        ("workload_sha256", "0" * 64),
        ("domain", {"age": 4, "sex": 2, "race": 3, "work": ["no", "yes"]}),
        ("n", 301),
        ("n", "300"),
        ("at_most", 2),
        ("unit", "sex"),
    ],
)
def test_a_file_with_new_digests_must_still_agree_with_itself(counts, tmp_path, name, change):
    path = tmp_path / "people.counts"
    counts.save(path)
    members = read_archive(path, form=FORM, version=VERSION)
    about = {**json.loads(members["about.json"]), name: change}
    members["about.json"] = json.dumps(about).encode()
    write_archive(path, members.items(), form=FORM, version=VERSION, overwrite=True, mode=0o600)
    with pytest.raises(ValueError, match="must be a whole, unchanged private counts file"):
        Counts.load(path)


@pytest.mark.parametrize("use", [pickle.dumps, copy.copy, copy.deepcopy])
def test_they_are_not_pickled_or_copied(counts, use):
    with pytest.raises(TypeError, match="must not be pickled or copied"):
        use(counts)


def test_nothing_shows_a_count(table):
    secret = 987_654_321
    counts = np.zeros(WORKLOAD.cells, np.int64)
    counts[WORKLOAD.offsets[:-1]] = secret
    held = Counts(WORKLOAD, counts, n=secret)
    shown = repr(held).replace("987654321 records", "")  # how many records there are is public
    assert "987654321" not in shown
    counts[5] = 123_456
    with pytest.raises(ValueError, match="add up to n") as caught:
        Counts(WORKLOAD, counts, n=secret)
    assert "123456" not in str(caught.value).replace("_", "")
    with pytest.raises(TypeError, match="they stayed where they were counted"):
        list(held.batches())


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"workload": 3}, TypeError, r"workload \(3\) must be a Workload"),
        ({"counts": [1.5]}, TypeError, r"counts \(1-D array of float64\) must be a 1-D array of integers"),
        ({"counts": [[1]]}, TypeError, r"counts \(2-D array of int64\) must be a 1-D array of integers"),
        ({"counts": [1]}, ValueError, r"counts \(1\) must be one for each of the 2 cells"),
        ({"counts": [-1, 6]}, ValueError, "counts must not be negative"),
        ({"counts": [1, 5]}, ValueError, r"counts must add up to n in each marginal; in \('sex',\)"),
        ({"n": -1}, ValueError, r"n \(-1\) must be"),
        ({"n": 5.0}, TypeError, r"n \(5.0\) must be"),
        ({"unit": "home"}, TypeError, r"unit \(.home.\) and at_most \(None\) must be given together"),
        ({"unit": "sex", "at_most": 2}, ValueError, r"unit \('sex'\) must not be an attribute"),
    ],
)
def test_a_bad_argument_is_refused(change, error, message):
    workload = pmw.Workload(pmw.Domain({"sex": 2}), [("sex",)])
    given = {"workload": workload, "counts": [2, 3], "n": 5, **change}
    with pytest.raises(error, match=message):
        Counts(**given)
