"""Whatever is typed and whatever files hold: an exit code, one line of error, no traceback, no trace."""

import io
import json
import shutil
from contextlib import redirect_stderr, redirect_stdout

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from cli_cases import names_in, release_line, write_pair
from privmw.cli import COMMANDS, main

few = settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])

OPTIONS = [
    *("--private", "--public", "--domain", "--marginals", "--epsilon", "--delta", "--method", "--rounds"),
    *("--constraints", "--sample", "--records", "--bins", "--seed", "--config", "-o", "--output", "--query"),
    *("--columns", "--other", "--most-labels", "--json", "--quiet", "--n", "--help", "--version", "--"),
]
VALUES = [
    *(
        "private.parquet",
        "public.parquet",
        "domain.json",
        "out",
        ".",
        "..",
        "/",
        "",
        "-",
        "1",
        "0",
        "-1",
        "3",
    ),
    *(
        "1e-9",
        "nan",
        "inf",
        "1e400",
        "99999999999999999999",
        "auto",
        "mwem",
        "age=3",
        "label",
        "\x00",
        "é",
        "a,b",
    ),
]
words = st.sampled_from([*COMMANDS, *OPTIONS, *VALUES]) | st.text(max_size=6)
lines = st.lists(words, max_size=8) | st.builds(
    lambda command, pairs: [command, *(word for pair in pairs for word in pair)],
    st.sampled_from([name for name in COMMANDS if name != "demo"]),
    st.lists(st.tuples(st.sampled_from(OPTIONS), words), max_size=6),
)


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    return tmp_path


def run(arguments):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


@few
@given(lines)
@example(["release", "--config"])
@example(["release", "--config=\x00", "--epsilon", "1"])
@example(["release", "--config", "."])
@example(["domain", "\x00"])
@example(["domain", "public.parquet", "-o", "\x00"])
@example(["domain", "."])
@example(["answer", "\x00", "--query", "age=3"])
def test_whatever_is_typed_ends_well(here, line):
    if "demo" in line[:1] and "--help" not in line:
        line = [*line, "--attributes", "1"]  # a whole demonstration is tested elsewhere
    before = names_in(here)
    code, _, err = run(line)
    assert code in (0, 2), (line, err)
    assert "Traceback" not in err
    if code == 2:
        assert len(err.splitlines()) == 1, err
        assert names_in(here) == before
    else:
        for path in here.iterdir():
            if path.name not in before:
                shutil.rmtree(path) if path.is_dir() else path.unlink()


@few
@given(
    st.sampled_from(["private.parquet", "public.parquet", "domain.json", "rules.json", "run.toml", "p.csv"]),
    st.binary(max_size=200) | st.text(max_size=80).map(str.encode),
    st.integers(0, 4000),
)
def test_whatever_a_file_holds_ends_well(here, name, content, where):
    """Random bytes: the whole file, or written over a part of a good one."""
    path = here / name
    good = path.read_bytes() if path.exists() else b""
    path.write_bytes(
        content if where % 2 or not good else good[:where] + content + good[where + len(content) :]
    )
    chosen = {
        "rules.json": {"constraints": name},
        "run.toml": {"config": name},
        "p.csv": {"private": name},
    }.get(name, {})
    try:
        before = names_in(here)
        code, _, err = run(release_line(**chosen, method="mw-pub", rounds=1))
        assert code in (0, 2), err
        if code == 2:
            assert len(err.splitlines()) == 1, err
            assert names_in(here) == before
        else:
            shutil.rmtree(here / "out")
    finally:
        path.write_bytes(good) if good else path.unlink()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
declared = st.dictionaries(
    st.sampled_from(["age", "sex", "region", "invalid", "valid"]), json_values, max_size=4
)


@few
@given(st.sampled_from(["domain.json", "rules.json"]), declared)
def test_whatever_a_person_declares_ends_well(here, name, value):
    good = (here / "domain.json").read_bytes()
    (here / name).write_text(json.dumps(value))
    try:
        before = names_in(here)
        options = {"constraints": name} if name == "rules.json" else {}
        code, _, err = run(release_line(**options, marginals=1, method="mw-pub", rounds=1))
        assert code in (0, 2), err
        if code == 2:
            assert len(err.splitlines()) == 1, err
            assert names_in(here) == before
        else:
            shutil.rmtree(here / "out")
    finally:
        (here / "domain.json").write_bytes(good)
