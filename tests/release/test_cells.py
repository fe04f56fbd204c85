"""What a file of cells says must be what the release says, cell by cell."""

import json

import numpy as np
import pytest

from privmw import Budget, Domain, Release, Support, Table, Workload
from privmw.accounting import Ledger, Neighbors
from privmw.extensions.postprocess import NoisyMarginal, NoisyMarginals, nnls
from privmw.extensions.postprocess.noisy_file import write_fitted
from privmw.release.cells import write_answers, write_measurements
from privmw.release.measurements import Measurement

parquet = pytest.importorskip("pyarrow.parquet")

DOMAIN = Domain(
    {
        "age": {"edges": [0, 10, 100], "missing": "N"},
        "sex": ["F", "M"],
        "zip": 5,
        "id": 2**32 - 1,
    }
)
MEASUREMENTS = (
    Measurement([7, 0, 16], [120, -2, 3], "discrete-gaussian", scale=2.5, round=0),
    Measurement([16], [9], "discrete-laplace", scale=1.5, round=3),
)


@pytest.fixture
def release():
    rows = np.random.default_rng(0).integers(0, [3, 2, 5, 9], (50, 4))
    support = Support.from_table(Table.from_codes(rows, DOMAIN, private=False))
    return Release(
        support,
        Workload(DOMAIN, [("age", "sex"), ("sex",), ("age", "sex", "zip")]),
        support.start(),
        measured=Workload(DOMAIN, [("age", "sex"), ("sex",), ("zip", "sex")]),
        measurements=MEASUREMENTS,
        ledger=Ledger(Budget.zcdp(1), Neighbors.REPLACE_ONE, n=40),
        settings={},
    )


def cell_of(workload, row):
    """The cell that a row of a file names in words."""
    words = [
        (row[f"attribute_{place}"], row[f"value_{place}"])
        for place in (1, 2, 3)
        if row.get(f"attribute_{place}") is not None
    ]
    labels = {
        name: [str(DOMAIN[name].label(code)) for code in range(9)[: DOMAIN[name].size]] for name, _ in words
    }
    return workload.cell([name for name, _ in words], [labels[name].index(value) for name, value in words])


def test_every_answer_stands_beside_the_words_of_its_cell(release, tmp_path):
    write_answers(release, tmp_path / "answers.parquet")
    rows = parquet.read_table(tmp_path / "answers.parquet").to_pylist()
    assert [cell_of(release.workload, row) for row in rows] == list(range(release.workload.cells))
    assert [row["answer"] for row in rows] == release.answers().tolist()
    assert rows[0]["value_1"] == "[0, 10)"
    assert rows[6]["attribute_2"] is None


def test_every_noisy_count_stands_beside_its_cell_and_noise(release, tmp_path):
    write_measurements(release, tmp_path / "measurements.parquet")
    rows = parquet.read_table(tmp_path / "measurements.parquet").to_pylist()
    told = [
        (cell_of(release.measured, row), row["noisy_count"], row["noise"], row["scale"], row["round"])
        for row in rows
    ]
    expected = [
        (cell, count, each.noise, each.scale, each.round)
        for each in MEASUREMENTS
        for cell, count in zip(each.cells.tolist(), each.noisy_counts.tolist(), strict=True)
    ]
    assert told == expected


def test_the_files_say_of_how_many_records_and_which_domain(release, tmp_path):
    write_measurements(release, tmp_path / "measurements.parquet")
    about = json.loads(parquet.read_schema(tmp_path / "measurements.parquet").metadata[b"privmw"])
    assert about == {
        "n": 40,
        "domain": DOMAIN.fingerprint(),
        "neighbors": "replace-one",
        "for_release": True,
    }


def test_cells_of_many_row_groups_are_the_same_cells(release, tmp_path, monkeypatch):
    monkeypatch.setattr("privmw.release.cells.WRITTEN_CELLS", 7)
    write_answers(release, tmp_path / "answers.parquet")
    file = parquet.ParquetFile(tmp_path / "answers.parquet")
    assert file.num_row_groups == -(-release.workload.cells // 7)
    assert [cell_of(release.workload, row) for row in file.read().to_pylist()] == list(
        range(file.metadata.num_rows)
    )


def test_a_release_without_measurements_writes_an_empty_file(release, tmp_path):
    bare = Release(release.support, release.workload, release.weights, ledger=release.ledger, settings={})
    write_measurements(bare, tmp_path / "measurements.parquet")
    assert parquet.read_table(tmp_path / "measurements.parquet").num_rows == 0


def test_fitted_counts_stand_beside_what_was_measured(tmp_path):
    domain = Domain({"age": 3, "sex": ["F", "M"], "zip": 2})
    measured = NoisyMarginals.of_cells(
        domain,
        [(), ("age", "sex"), ("age", "sex", "zip")],
        [("gaussian", 2.0)],
        marginal_of=[0, 1, 1, 2],
        cells=[0, 5, 0, 11],
        noisy_counts=[20.0, 7.5, -1, 8],
        noise_of=[0, 0, 0, 0],
    )
    fit = nnls(measured)
    write_fitted(fit, tmp_path / "fitted.parquet")
    rows = parquet.read_table(tmp_path / "fitted.parquet").to_pylist()
    assert [row["fitted"] for row in rows] == fit.fitted_counts().tolist()
    assert rows[0] == {
        **{f"{kind}_{place}": None for place in (1, 2, 3) for kind in ("attribute", "value")},
        "noisy_count": 20.0,
        "fitted": fit.fitted_counts()[0],
        "standard_deviation": 2.0,
    }
    assert [row["noisy_count"] for row in rows[1:7]] == [-1, None, None, None, None, 7.5]
    assert [(row["value_1"], row["value_2"], row["value_3"]) for row in rows[6:9]] == [
        ("2", "M", None),
        ("0", "F", "0"),
        ("0", "F", "1"),
    ]


def test_fitted_totals_alone_have_empty_columns(tmp_path):
    fit = nnls(NoisyMarginals([NoisyMarginal((), [5.0], "laplace", 1.0)], Domain({"age": 3})))
    write_fitted(fit, tmp_path / "fitted.parquet")
    (row,) = parquet.read_table(tmp_path / "fitted.parquet").to_pylist()
    assert row["attribute_1"] is None
    assert row["fitted"] == pytest.approx(5)
