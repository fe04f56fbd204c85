"""Wrong input: one line, exit code 2, nothing written, nothing private said."""

import json
import sys

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import pyarrow as pa
import pyarrow.parquet as parquet

import privmw.algorithms.plan
from cli.cases import names_in, release_line, write_pair
from privmw.cli import main

SECRET = 98_765_431  # stands in private files only


@pytest.fixture
def here(tmp_path, monkeypatch, blank_pictures):
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path)
    return tmp_path


def refused(arguments, folder, capsys):
    """Run a line that must be refused; what it said."""
    before = names_in(folder)
    code = main(arguments)
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1, said.err
    assert "Traceback" not in said.err
    assert str(SECRET) not in said.err
    assert names_in(folder) == before
    return said.err


def change(path, edit):
    table = parquet.read_table(path)
    parquet.write_table(edit(table), path)


def with_column(name, values):
    return lambda table: table.set_column(table.column_names.index(name), name, pa.array(values))


def repeated(table, value, others):
    return [value] + [others] * (table.num_rows - 1)


BAD_PRIVATE = {
    "missing file": (lambda p: p.unlink(), "must exist"),
    "not parquet": (lambda p: p.write_text(f"age,sex\n{SECRET},F\n"), "must be a"),
    "empty file": (lambda p: p.write_bytes(b""), "must not be empty"),
    "truncated": (lambda p: p.write_bytes(p.read_bytes()[:-100]), "must be a"),
    "no rows": (lambda p: change(p, lambda t: t.slice(0, 0)), "at least one record"),
    "missing column": (lambda p: change(p, lambda t: t.drop_columns(["age"])), "'age'"),
    "duplicate column": (lambda p: change(p, lambda t: t.append_column("age", t["age"])), "'age'"),
    "outside the domain": (
        lambda p: change(p, lambda t: with_column("age", repeated(t, SECRET, 30))(t)),
        "'age'",
    ),
    "wrong type": (lambda p: change(p, lambda t: with_column("age", [str(SECRET)] * t.num_rows)(t)), "'age'"),
    "nan": (lambda p: change(p, lambda t: with_column("age", repeated(t, float("nan"), 30.0))(t)), "'age'"),
    "infinity": (
        lambda p: change(p, lambda t: with_column("age", repeated(t, float("inf"), 3.0))(t)),
        "'age'",
    ),
    "null": (lambda p: change(p, lambda t: with_column("age", repeated(t, None, 30))(t)), "'age'"),
    "a list": (lambda p: change(p, lambda t: with_column("age", [[SECRET]] * t.num_rows)(t)), "'age'"),
    "a folder without files": (lambda p: (p.unlink(), p.mkdir()), "private.parquet"),
}


@pytest.mark.parametrize("bad", BAD_PRIVATE)
def test_a_bad_private_file_is_refused_without_a_word_of_its_values(bad, here, capsys):
    spoil, said = BAD_PRIVATE[bad]
    spoil(here / "private.parquet")
    assert said in refused(release_line(), here, capsys)


BAD_CSV = {
    "mixed types": f"age,sex,region,household\n30,F,North,1\n{SECRET}x,F,North,1\n".encode(),
    "ragged": f"age,sex,region,household\n30,F\n{SECRET},F,North,1\n".encode(),
    "not utf-8": b"age,sex,region,household\n30,\xff\xfe" + str(SECRET).encode() + b",North,1\n",
    "duplicate header": f"age,age,sex,region,household\n{SECRET},30,F,North,1\n".encode(),
    "header only": b"age,sex,region,household\n",
    "nothing": b"",
}


@pytest.mark.parametrize("bad", BAD_CSV)
def test_a_bad_private_csv_is_refused_without_a_word_of_its_values(bad, here, capsys):
    (here / "private.csv").write_bytes(BAD_CSV[bad])
    refused(release_line(private="private.csv"), here, capsys)


BAD_DOMAINS = {
    "missing file": None,
    "not json": "{",
    "a list": "[1, 2]",
    "duplicate labels": '{"age": 100, "sex": ["F", "F"]}',
    "duplicate attributes": '{"age": 100, "age": 100}',
    "no attributes": "{}",
    "a size of zero": '{"age": 0}',
    "falling edges": '{"age": {"edges": [10, 0]}}',
}


@pytest.mark.parametrize("bad", BAD_DOMAINS)
def test_a_bad_domain_is_refused(bad, here, capsys):
    if BAD_DOMAINS[bad] is None:
        (here / "domain.json").unlink()
    else:
        (here / "domain.json").write_text(BAD_DOMAINS[bad])
    for line in (release_line(), ["inspect", "public.parquet", "--domain", "domain.json"]):
        assert "domain.json" in refused(line, here, capsys)


@pytest.mark.parametrize(
    ("options", "said"),  # test_typed_wrongly.py has many more
    [
        ({"output": "public.parquet"}, "exists"),
        ({"output": "."}, "exists"),
        ({"output": ""}, "folder"),
        ({"sample": "100"}, "--marginals 2 --sample 100: size (100)"),
        ({"marginals": "9"}, "--marginals 9: k must be from 1 to 6"),
        ({"config": "./out"}, "must not be the output"),
        ({"records": 2**62}, "must fit in memory"),
    ],
)
def test_bad_options_are_refused_before_anything_is_spent(options, said, here, capsys):
    line = refused(release_line(**options), here, capsys)
    assert said in line
    assert "spent" not in line


@pytest.mark.parametrize(
    "arguments",
    [[], ["answer", "out"]],
)
def test_a_line_that_is_no_command_is_refused(arguments, here, capsys):
    refused(arguments, here, capsys)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ("epsilon = ", "TOML"),
        ("colour = 'red'", "colour is not an option"),
        ("epsilom = 1", "did you mean epsilon?"),
        ("epsilon = true", "epsilon"),
        ("epsilon = {}", "epsilon"),
        ("epsilon = 'much'", "much"),
        (b"\xff\xfe", "TOML"),
    ],
)
def test_a_bad_config_is_refused(config, said, here, capsys):
    (here / "run.toml").write_bytes(config.encode() if isinstance(config, str) else config)
    assert said in refused(["release", "--config", "run.toml"], here, capsys)


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("colour=3", "'colour'"),
        ("age=", "'age'"),
        ("age=3,age=4", "once"),
        ("age>=x", "a number"),
        ("sex>F", "has no order"),
        ("age=40..5", "low <= high"),
        ("", "conditions"),
        ("=3", "attribute"),
    ],
)
def test_a_bad_query_is_refused(query, said, released, capsys):
    assert said in refused(["answer", "out", "--query", query], released, capsys)


@pytest.mark.parametrize(
    "command", [["answer", "--query", "age=3"], ["evaluate", "--private", "private.parquet"]]
)
@pytest.mark.parametrize("spoil", ["truncated", "missing", "foreign"])
def test_a_spoilt_release_is_refused(spoil, command, released, capsys):
    file = released / "out" / "release.npz"
    if spoil == "missing":
        file.unlink()
    else:
        file.write_bytes(file.read_bytes()[:-50] if spoil == "truncated" else b"PK nothing")
    assert "release.npz" in refused([command[0], "out", *command[1:]], released, capsys)


def test_an_existing_folder_is_never_touched(released, capsys):
    before = {path.name: path.read_bytes() for path in (released / "out").iterdir()}
    assert "exists" in refused(release_line(), released, capsys)
    assert before == {path.name: path.read_bytes() for path in (released / "out").iterdir()}
    assert "exists" in refused(["domain", "public.parquet", "-o", "domain.json"], released, capsys)
    assert "exists" in refused(["demo", "-o", "out"], released, capsys)


def test_errors_for_machines_are_one_json_object(here, capsys):
    assert main([*release_line(private="missing.parquet"), "--json"]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert "missing.parquet" in json.loads(said.err)["error"]


def test_a_line_that_is_no_command_is_refused_for_machines_too(here, capsys):
    said = json.loads(refused(["release", "--json"], here, capsys))
    assert "required" in said["error"]
    assert said["hint"] == "see privmw release --help"


def test_public_mistakes_are_found_before_the_private_file_is_looked_at(here, capsys):
    (here / "private.parquet").write_bytes(b"")
    assert "nowhere.parquet" in refused(release_line(public="nowhere.parquet"), here, capsys)


def test_a_workload_larger_than_memory_is_refused_before_anything_is_spent(here, monkeypatch, capsys):
    monkeypatch.setattr(privmw.algorithms.plan, "available_memory", lambda: 2**12)
    said = refused(release_line(), here, capsys)
    assert "must fit in memory" in said
    assert "spent" not in said


def test_a_public_file_with_bad_values_says_which(here, capsys):
    change(here / "public.parquet", lambda t: with_column("age", repeated(t, -5, 30))(t))
    said = refused(release_line(), here, capsys)
    assert "'age'" in said
    assert "-5" in said


def test_a_missing_mpi4py_is_said_with_what_to_install(here, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "mpi4py", None)
    sys.modules["privmw.extensions.cluster.mpi"].mpi.cache_clear()
    said = refused(release_line(cluster="mpi"), here, capsys)
    assert said == "privmw release: mpi4py must be installed (pip install 'privmw[cluster]')\n"


def as_csv(table, path):
    import pyarrow.csv as csv

    csv.write_csv(table, path)


PUBLISHED = {
    "the file itself": lambda table, here: "private.parquet",
    "a link": lambda table, here: (here / "link.parquet").symlink_to("private.parquet") or "link.parquet",
    "a copy": lambda table, here: (
        (here / "x.parquet").write_bytes((here / "private.parquet").read_bytes()) and "x.parquet"
    ),
    "another order": lambda table, here: table.take(pa.array(range(table.num_rows)[::-1])),
    "another order of columns": lambda table, here: table.select(table.column_names[::-1]),
    "csv": lambda table, here: as_csv(table, here / "x.csv") or "x.csv",
    "a superset": lambda table, here: pa.concat_tables([table, parquet.read_table("public.parquet")]),
    "six tenths": lambda table, here: table.slice(0, table.num_rows * 6 // 10),
}


@pytest.mark.parametrize("how", PUBLISHED)
def test_the_private_file_is_refused_as_a_public_one(how, tmp_path, monkeypatch, blank_pictures, capsys):
    monkeypatch.chdir(tmp_path)
    write_pair(tmp_path, n=3_000, attributes=8)
    made = PUBLISHED[how](parquet.read_table("private.parquet"), tmp_path)
    if isinstance(made, pa.Table):
        parquet.write_table(made, "x.parquet")
        made = "x.parquet"
    said = refused(release_line(public=made), tmp_path, capsys)
    assert f"{made} holds records of private.parquet" in said
    assert "--public-is-public" in said
    assert main([*release_line(public=made, seed=1), "--public-is-public", "--quiet"]) in (0, 3)
