"""Commands and the Synthesizer read and encode each file once; no value decides how."""

from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import numpy as np
import pyarrow as pa
import pyarrow.csv as csv
import pyarrow.parquet as parquet

import privmw as pmw
import privmw.io.scan
from cli.cases import RELEASED, release_line, write_pair
from privmw.cli import main

ONCE = {"private": 1, "public": 1}


@pytest.fixture
def reads(tmp_path, monkeypatch, blank_pictures):
    """The pair in the current folder, and how often each file is read and encoded from then on."""
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    counted, codes = Counter(), privmw.io.scan._codes

    def counting(reads, *rest, **options):
        counted.update(Path(path).stem for path, _ in reads)
        return codes(reads, *rest, **options)

    monkeypatch.setattr(privmw.io.scan, "_codes", counting)
    return counted


def test_a_release_reads_each_file_once(reads):
    assert main(release_line()) in RELEASED
    assert reads == ONCE


def test_synthesize_reads_each_file_once(reads):
    for name in ("public", "private"):
        csv.write_csv(parquet.read_table(f"{name}.parquet"), f"{name}.csv")
    line = ["synthesize", "private.csv", "public.csv", "--epsilon", "1", "--marginals", "2"]
    assert main([*line, "-o", "out.csv", "--yes"]) in RELEASED
    assert reads == ONCE


def test_the_synthesizer_reads_each_file_once(reads):
    synthesizer = pmw.Synthesizer(marginals=2, domain=pmw.Domain.read("domain.json"))
    synthesizer.fit("private.parquet", public="public.parquet")
    assert reads == ONCE


def test_what_does_not_fit_in_memory_is_read_again_with_the_same_release(reads, monkeypatch):
    assert main(release_line(seed=1)) in RELEASED
    monkeypatch.setattr(privmw.io.scan, "available_memory", lambda: 0)
    assert main(release_line(seed=1, output="again")) in RELEASED
    assert reads == {"private": 1 + 3, "public": 1 + 2}
    assert pmw.load_release("out/release.npz") == pmw.load_release("again/release.npz")


@pytest.mark.parametrize("kind", [np.int64, np.int8])
def test_whether_a_file_is_read_again_depends_on_no_value(reads, monkeypatch, kind):
    domain = pmw.Domain({"age": 300, "sex": {"labels": ["0", "1"]}})
    again = set()
    for name, age in {"equal": [0] * 100, "other": [*[0] * 99, 299 if kind is not np.int8 else 120]}.items():
        ages = pa.array(np.array(age, kind))
        parquet.write_table(pa.table({"age": ages, "sex": ["0", "1"] * 50}), f"{name}.parquet")
        for memory in range(4 * 295, 4 * 305):  # 3 bytes per record, of a quarter of the memory
            monkeypatch.setattr(privmw.io.scan, "available_memory", lambda memory=memory: memory)
            reads.clear()
            table = pmw.scan_table(f"{name}.parquet", domain, private=True)
            list(table.batches())
            again.add((memory, reads[name]))
    assert again == {(memory, 2 if memory < 4 * 300 else 1) for memory in range(4 * 295, 4 * 305)}
