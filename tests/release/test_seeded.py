"""What seeded noise made says so, in every file: schema metadata, or the name of a csv."""

import json
import pickle

import pytest

import privmw as pmw
from privmw.io.files import about
from privmw.release.cells import write_answers, write_measurements
from release.cases import ledger, release

parquet = pytest.importorskip("pyarrow.parquet")


def records(*, seeded):
    return release(ledger=ledger(seeded=seeded)).sample(20, seed=0)


def test_records_of_a_seeded_release_know_it_whatever_is_made_of_them():
    made, fit = records(seeded=True), records(seeded=False)
    assert not made.for_release
    assert fit.for_release
    assert made != fit
    assert made == fit.not_for_release()
    copies = [made.take([0, 1]), made.project(["age"]), pickle.loads(pickle.dumps(made))]
    copies += [pmw.Table.concatenate([fit, made]), pmw.Table.concatenate([made, fit])]
    assert not any(copy.for_release for copy in copies)
    assert copies[2] == made
    assert pickle.loads(pickle.dumps(fit)) == fit
    assert "not for release" in repr(made)
    assert "not for release" not in repr(fit)


def test_parquet_and_arrow_carry_the_mark_and_csv_its_name(tmp_path):
    made, fit = records(seeded=True), records(seeded=False)
    made.write(tmp_path / "made.parquet")
    fit.write(tmp_path / "fit.parquet")
    assert about(str(tmp_path / "made.parquet"))["for_release"] is False
    assert about(str(tmp_path / "fit.parquet")) == {}
    for table, name in ((made, "made.parquet"), (fit, "fit.parquet")):
        assert pmw.read_table(tmp_path / name, table.domain, private=False) == table
    assert json.loads(made.to_frame().schema.metadata[b"privmw"])["why"] == "seeded: not for release"
    assert fit.to_frame().schema.metadata is None
    assert made.to_frame("pandas").equals(fit.to_frame("pandas"))
    for name in ("made.csv", "Made.CSV"):
        with pytest.raises(ValueError, match=r"path \(.*\) must have 'seeded' in its name: these records"):
            made.write(tmp_path / name)
    (tmp_path / "seeded").mkdir()
    with pytest.raises(ValueError, match="in its name"):
        made.write(tmp_path / "seeded" / "made.csv")
    made.write(tmp_path / "made-Seeded.csv")
    fit.write(tmp_path / "fit.csv")
    assert pmw.read_table(tmp_path / "made-Seeded.csv", made.domain, private=False).n == 20


@pytest.mark.parametrize("seeded", [True, False])
def test_answers_and_measurements_carry_the_mark(tmp_path, seeded):
    for write in (write_answers, write_measurements):
        path = tmp_path / f"{write.__name__}.parquet"
        write(release(ledger=ledger(seeded=seeded)), path)
        found = json.loads(parquet.read_schema(path).metadata[b"privmw"])
        assert found["for_release"] is not seeded
        assert ("why" in found) == seeded
