"""Columns of synthetic records come back as they went in: the kinds that the study of records prints."""

import runpy
from pathlib import Path

import pytest

pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
pytest.importorskip("narwhals")

KINDS = runpy.run_path(str(Path(__file__).parents[2] / "benches" / "record_types.py"))["KINDS"]


def test_there_are_fourteen_kinds():
    assert len(KINDS) == 14


@pytest.mark.parametrize("name", KINDS)
def test_a_column_comes_back_as_it_went_in(name):
    assert KINDS[name]()
