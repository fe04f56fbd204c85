"""Whatever is typed and whatever files hold: an exit code, one line of error, no traceback, no trace."""

import io
import json
import shutil
from contextlib import redirect_stderr, redirect_stdout

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import pyarrow.csv as csv
import pyarrow.parquet as parquet
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cli.cases import names_in, release_line, write_pair
from marks.slow import examples
from privmw.cli import COMMANDS, main
from privmw.cli.refusal import EXIT_DISAGREES

OPTIONS = [
    *("--private", "--public", "--domain", "--marginals", "--epsilon", "--delta", "--method", "--rounds"),
    *("--constraints", "--sample", "--records", "--bins", "--seed", "--config", "-o", "--output", "--query"),
    *("--setting", "--syntax"),
    *("--columns", "--json", "--quiet", "--n", "--help", "--version", "--"),
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
        "separator=;",
        "slack=1",
        "rounding=randomised",
        "most-labels=2",
    ),
]
words = st.sampled_from([*COMMANDS, *OPTIONS, *VALUES]) | st.text(max_size=6)
QUICK = release_line(marginals=1, method="mw-pub", rounds=1)
FIT = ["postprocess", "noisy.csv", "--domain", "domain.json", "--method", "reweight", "-o", "out"]
NOISY = """attribute_1,value_1,attribute_2,value_2,noisy_count,noise,scale
age,3,,,21.5,laplace,4
sex,F,age,3,10,gaussian,2
,,,,400,discrete-gaussian,3
"""
GOOD = [
    QUICK,
    [*QUICK, "--records", "3", "--bins", "draw", "--seed", "1", "--threads", "1", "--config", "new.toml"],
    [*QUICK, "--sample", "2", "--delta", "1e-6", "--constraints", "rules.json"],
    ["release", "--config", "run.toml", "--quiet"],
    [
        "inspect",
        "public.parquet",
        "--domain",
        "domain.json",
        "--marginals",
        "1,2",
        "--epsilon",
        "1",
        "--json",
    ],
    [
        "domain",
        "public.parquet",
        "--columns",
        "age,sex",
        "--bins",
        "3",
        "--setting",
        "other=x",
        "-o",
        "new.json",
    ],
    ["answer", "made", "--query", "age=3,sex=F", "--query", "region=north"],
    ["evaluate", "made", "--private", "private.csv", "-o", "new"],
    [*FIT, "--public", "public.parquet", "--bins", "draw", "--seed", "1"],
    [*FIT, "--setting", "downweight=std", "--constraints", "rules.json", "--records", "9"],
]


@st.composite
def edited(draw, good, part, most):
    """A good line or file with up to `most` places left out, replaced or put in."""
    made = draw(good)
    for _ in range(draw(st.integers(0, most))):
        start = draw(st.integers(0, len(made)))
        end = start + draw(st.integers(0, 2))
        made = made[:start] + draw(part) + made[end:]
    return made


lines = (
    st.lists(words, max_size=8)
    | st.builds(
        lambda command, pairs: [command, *(word for pair in pairs for word in pair)],
        st.sampled_from([name for name in COMMANDS if name != "demo"]),
        st.lists(st.tuples(st.sampled_from(OPTIONS), words), max_size=6),
    )
    | edited(st.sampled_from(GOOD), st.lists(words, max_size=2), 2)
)

RULES = {"invalid": [{"age": [{"from": 0, "to": 5}], "sex": ["F"]}]}


@pytest.fixture
def here(tmp_path, monkeypatch, request):
    """A folder in which every line of GOOD is good; a slow test draws the pictures of its reports."""
    if not request.node.get_closest_marker("slow"):
        request.getfixturevalue("blank_pictures")
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    csv.write_csv(parquet.read_table("private.parquet"), "private.csv")
    (tmp_path / "rules.json").write_text(json.dumps(RULES))
    (tmp_path / "noisy.csv").write_text(NOISY)
    assert run([*QUICK, "--config", "run.toml"])[0] in (0, EXIT_DISAGREES)
    (tmp_path / "out").rename("made")
    return tmp_path


def run(arguments):
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = main(arguments)
    return code, out.getvalue(), err.getvalue()


def check_ending(line, folder):
    """Done, and its folder taken away again; or refused in one line, without a trace."""
    before = names_in(folder)
    code, _, err = run(line)
    assert code in (0, 2, EXIT_DISAGREES), err
    if code == 2:
        assert len(err.splitlines()) == 1, err
        assert names_in(folder) == before
    else:
        shutil.rmtree(folder / "out")


@examples(20, 150)
def test_whatever_is_typed_ends_well(here, examples):
    @settings(max_examples=examples)
    @given(lines)
    @example(["release", "--config"])
    @example(["release", "--config=\x00", "--epsilon", "1"])
    @example(["release", "--config", "."])
    @example(["domain", "\x00"])
    @example(["domain", "public.parquet", "-o", "\x00"])
    @example(["domain", "."])
    @example(["answer", "\x00", "--query", "age=3"])
    @example(GOOD[0])
    @example(GOOD[1])
    @example(GOOD[2])
    @example(GOOD[3])
    @example(GOOD[4])
    @example(GOOD[5])
    @example(GOOD[6])
    @example(GOOD[7])
    @example(GOOD[8])
    @example(GOOD[9])
    def ends_well(line):
        if "demo" in line[:1] and "--help" not in line:
            line = [*line, "--n", "0"]  # a whole demonstration is tested elsewhere
        before = names_in(here)
        code, _, err = run(line)
        assert code in (0, 2, EXIT_DISAGREES), (line, err)
        assert "Traceback" not in err
        assert code != 2 or line not in GOOD
        if code == 2:
            assert len(err.splitlines()) == 1, err
            assert names_in(here) == before
        else:
            for path in here.iterdir():
                if path.name not in before:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()

    ends_well()


FILES = {
    "private.parquet": {},
    "public.parquet": {},
    "domain.json": {},
    "private.csv": {"private": "private.csv"},
    "rules.json": {"constraints": "rules.json"},
    "run.toml": {"config": "run.toml"},
}


@examples(20, 300)
def test_whatever_a_file_holds_ends_well(here, examples):
    """Random bytes: the whole file, or in place of some of a good one."""

    @settings(max_examples=examples)
    @given(st.sampled_from([*FILES, "noisy.csv"]), st.data())
    def ends_well(name, data):
        line = [*QUICK, *(word for k, v in FILES.get(name, {}).items() for word in (f"--{k}", v))]
        path = here / name
        good = path.read_bytes()
        anything = st.binary(max_size=200) | st.text(max_size=80).map(str.encode)
        path.write_bytes(data.draw(anything | edited(st.just(good), st.binary(max_size=3), 4)))
        try:
            check_ending(FIT if name == "noisy.csv" else line, here)
        finally:
            path.write_bytes(good)

    ends_well()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
declared = st.dictionaries(
    st.sampled_from(["age", "sex", "region", "invalid", "valid"]), json_values, max_size=4
)


@examples(20, 150)
def test_whatever_a_person_declares_ends_well(here, examples):
    @settings(max_examples=examples)
    @given(st.sampled_from(["domain.json", "rules.json"]), declared)
    def ends_well(name, value):
        good = (here / "domain.json").read_bytes()
        (here / name).write_text(json.dumps(value))
        try:
            options = {"constraints": name} if name == "rules.json" else {}
            check_ending(release_line(**options, marginals=1, method="mw-pub", rounds=1), here)
        finally:
            (here / "domain.json").write_bytes(good)

    ends_well()
