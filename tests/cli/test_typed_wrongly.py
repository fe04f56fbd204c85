"""Lines typed wrongly: each is refused by one line that names the argument, the value and the rule.

Nothing is spent, and nothing is written: the folder and the account stay as they are.
"""

import shlex

import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("rich")
pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

from cli.cases import names_in
from privmw.cli import main

RELEASE = {
    "--private": "private.parquet",
    "--public": "public.parquet",
    "--domain": "domain.json",
    "--marginals": "2",
    "--epsilon": "1",
    "--account": "account.jsonl",
    "-o": "new",
}


def release(more="", **changed):
    """The line of a release, with changes: an option of None is left out."""
    given = {**RELEASE, **{f"--{name}" if len(name) > 1 else f"-{name}": v for name, v in changed.items()}}
    return " ".join(["release", *(f"{name} {value}" for name, value in given.items() if value), more])


def synthesize(files="private.parquet public.parquet", output="new.csv", more="--yes"):
    return f"synthesize {files} -o {output} --epsilon 1 --account account.jsonl {more}"


def measure(more):
    return f"measure --private private.parquet --domain domain.json --epsilon 1 -o new {more}"


def postprocess(more):
    return f"postprocess out/measurements.parquet --domain domain.json -o new {more}"


# The line; what names the argument, the value, and the rule.
WRONG = [
    ("relase", "COMMAND", "relase", "did you mean release?"),
    ("--verson", "--verson", "", "is not an option of privmw; did you mean --version?"),
    (release("--privat x"), "--privat", "", "is not an option of privmw release; did you mean --private?"),
    (release("--eps 1"), "--eps", "", "is not an option of privmw release; did you mean --epsilon?"),
    (release("--syntax skip=-1"), "--syntax", "-1", "must be"),
    (release("--syntax comma=;"), "--syntax", "(comma=;)", "must be NAME=VALUE"),
    (release("--syntax header=maybe"), "--syntax", "(header=maybe)", "must be header=yes or header=no"),
    (release("--syntax separator=ab"), "--syntax", "('ab')", "must be one character"),
    (release("extra"), "extra", "", "must not be given: there is no such argument"),
    (release("--json=yes"), "--json", "(yes)", "takes no value"),
    (release("--seed"), "--seed", "", "must have a value"),
    (release(private=None), "--private", "", "required"),
    (release(epsilon=None), "--epsilon", "", "required"),
    (release(epsilon="one"), "--epsilon", "(one)", "must be a number"),
    (release(epsilon="-1"), "--epsilon", "(-1)", "must be finite and not negative"),
    (release(epsilon="nan"), "--epsilon", "(nan)", "must be finite"),
    (release(epsilon="0"), "--epsilon", "(0)", "must be positive"),
    (release(epsilon="1e9"), "--epsilon", "(1e9)", "must be at most 1,000,000"),
    (release(delta="1"), "--delta", "(1)", "must be below 1"),
    (release(delta="1e"), "--delta", "(1e)", "must be a number"),
    (release(delta="0"), "delta", "(0)", "must be above 0"),
    (release(marginals="two"), "--marginals", "(two)", "must be positive whole numbers, with commas"),
    (release(marginals="2,,3"), "--marginals", "(2,,3)", "must be positive whole numbers, with commas"),
    (release(marginals="9"), "--marginals", "9", "must be from 1 to"),
    (release("--sample 0"), "--sample", "(0)", "must be positive"),
    (release("--sample 10000"), "--sample", "(10000)", "must be from 0 to 6"),
    (release("--sample 3", marginals="1,2"), "--sample", "(3)", "must come with one order of marginals"),
    (release("--method best"), "--method", "(best)", "must be auto, dual-query, fem, "),
    (release("--method pep", public=None), "--method", "(pep)", "must come with a public file"),
    (release("--method mwem"), "public file", "(public.parquet)", "must not be given with --method mwem"),
    (release("--rounds 5"), "--rounds", "(5)", "must come with a --method other than auto"),
    (release("--method pep --rounds 2.5"), "--rounds", "(2.5)", "must be a whole number"),
    (release("--measure marginal"), "--measure", "(marginal)", "must come with a --method other than auto"),
    (
        release("--method fem --measure cell"),
        "--measure",
        "(cell)",
        "must come with a --method that measures",
    ),
    (release("--method pep --measure cells"), "--measure", "(cells)", "must be cell or marginal"),
    (release("--records 1e6"), "--records", "(1e6)", "must be a whole number"),
    (release("--bins middle"), "--bins", "(middle)", "must be label, midpoint, spread or draw"),
    (release("--bins draw", public=None), "--bins", "(draw)", "must come with a public file"),
    (release("--format xlsx"), "--format", "(xlsx)", "must be parquet, csv, feather or raw-csv"),
    (release("--intervals 95"), "--intervals", "(95)", "must be from 0.5 to 0.999"),
    (release("--threads 0"), "--threads", "(0)", "must be positive"),
    (release("--seed -1"), "--seed", "(-1)", "must be from 0 to 2^63 - 1"),
    (release("--unit house"), "--unit", "(house)", "must come with --at-most"),
    (release("--at-most 2"), "--at-most", "(2)", "must come with --unit"),
    (release("--unit age --at-most 2"), "unit", "('age')", "must not be an attribute of the domain"),
    (release("--cluster dask"), "--cluster", "(dask)", "must be mpi"),
    (release("--config no/run.toml"), "--config", "(no/run.toml)", "must be writable"),
    (release(domain="nowhere.json"), "--domain", "(nowhere.json)", "must exist"),
    (release(private="nowhere.csv"), "--private", "(nowhere.csv)", "must exist"),
    (release(private="domain.json"), "--private", "(domain.json)", "must be a .parquet, .csv"),
    (release(public="nowhere.csv"), "--public", "(nowhere.csv)", "must exist"),
    (release(constraints="nowhere.json"), "--constraints", "(nowhere.json)", "must exist"),
    (release(account="nowhere.jsonl"), "--account", "(nowhere.jsonl)", "must exist"),
    (release(o="out"), "--output", "(out)", "exists"),
    (release(o="no/new"), "--output", "(no/new)", "must lie in a folder that exists"),
    (synthesize(output="new.txt"), "--output", "(new.txt)", "must end in .csv, .parquet or .feather"),
    (synthesize(more="--yes --format parquet"), "--format", "(parquet)", "must be that of --output"),
    (synthesize(output="domain.json"), "--output", "(domain.json)", "must end in .csv"),
    (synthesize("private.parquet"), "PUBLIC or --domain", "", "must be given: nothing may be learned"),
    (synthesize(more=""), "--yes", "", "there is no terminal to ask on before the budget is spent"),
    (synthesize("private.parquet private.parquet"), "public", "private.parquet", "holds records of"),
    (synthesize("private.parquet nowhere.csv"), "PUBLIC", "(nowhere.csv)", "must exist"),
    (synthesize("nowhere.csv public.parquet"), "PRIVATE", "(nowhere.csv)", "must exist"),
    (synthesize(more="--seed 1 --yes"), "--output", "(new.csv)", "must have 'seeded' in its name"),
    ("domain public.parquet --bins 0", "--bins", "(0)", "must be positive"),
    ("domain public.parquet --setting most-labels=x", "--setting", "(x)", "must be a whole number"),
    (
        "domain public.parquet --setting missing=",
        "--setting",
        "(missing=)",
        "must be missing=yes or missing=no",
    ),
    ("domain public.parquet --setting other", "--setting", "(other)", "must be NAME=VALUE"),
    ("account new new --setting event-delta=-1", "--setting", "(-1)", "must be finite and not negative"),
    ("explore out --sample 0", "--sample", "(0)", "must be positive"),
    (measure("--setting simultaneous=1"), "--setting", "(simultaneous=1)", "must be simultaneous=yes or"),
    (postprocess("--method nnls --setting rounding=up"), "--setting", "(rounding=up)", "must be rounding="),
    ("domain public.parquet -o domain.json", "--output", "(domain.json)", "exists"),
    ("inspect --domain domain.json", "--n", "", "must be given"),
    ("inspect nowhere.csv --domain domain.json", "PUBLIC", "(nowhere.csv)", "must exist"),
    (measure("--intervals 2"), "--intervals", "(2)", "must be from 0.5 to 0.999"),
    (measure("--method best"), "--method", "(best)", "must be largest, marginals, cells, equal or hdmm"),
    ("finish nowhere", "FOLDER", "(nowhere)", "must hold release.npz"),
    ("finish out --records 5", "synthetic.parquet", "", "exists (remove it to write another)"),
    ("answer out --query age", "--query", "(age)", "must be conditions such as"),
    ("answer out --query age=abc", "--query", "(age=abc)", "must be"),
    ("answer out --query aeg=3", "--query", "(aeg=3)", "did you mean 'age'?"),
    ("answer nowhere --query age=3", "RELEASE", "(nowhere)", "must be a folder of a release"),
    ("evaluate out --private nowhere.csv", "--private", "(nowhere.csv)", "must exist"),
    ("evaluate out --private private.parquet --sample 3", "--sample", "(3)", "must come with --marginals"),
    ("evaluate out --private private.parquet --marginals 0", "--marginals", "(0)", "must be positive"),
    ("explore nowhere", "RELEASE", "(nowhere)", "must be a folder of a release"),
    ("account neu x", "action", "(neu)", "must be new or show"),
    ("account new x.jsonl", "--epsilon and --delta", "", "must be given for a new account"),
    ("account new x.jsonl --epsilon 1 --delta 2", "--delta", "(2)", "must be below 1"),
    ("account show nowhere.jsonl", "FILE", "(nowhere.jsonl)", "must exist"),
    (postprocess("--method least"), "--method", "(least)", "must be ols, nnls, max-fit, sequential or rew"),
    (
        postprocess("--method nnls --setting slack=1"),
        "--setting",
        "(slack=1)",
        "must come with --method max-fit",
    ),
    (postprocess("--method nnls --setting slac=1"), "--setting", "(slac=1)", "must be NAME=VALUE"),
    (postprocess("--method sequential --setting priorities=x"), "priorities", "'x'", "is not in the domain"),
    ("completion ksh", "shell", "(ksh)", "must be bash, zsh or fish"),
    ("demo --n 0", "--n", "(0)", "must be positive"),
]


@pytest.fixture
def folder(first_release, monkeypatch):
    """The files of `write_pair`, their release in out, and an account: shared, as nothing may change it."""
    monkeypatch.chdir(first_release)
    if not (first_release / "account.jsonl").exists():
        line = "account new account.jsonl --epsilon 100 --delta 1e-3 --quiet"
        assert main(shlex.split(line)) == 0
    return first_release


@pytest.mark.parametrize(("line", "argument", "value", "rule"), WRONG, ids=[case[0] for case in WRONG])
def test_a_wrong_line_is_refused_by_argument_value_and_rule(line, argument, value, rule, folder, capsys):
    before = names_in(folder), (folder / "account.jsonl").read_bytes(), names_in(folder / "out")
    code = main(shlex.split(line))
    said = capsys.readouterr()
    assert (code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 1, said.err
    for words in (argument, value, rule):
        assert words in said.err
    assert (names_in(folder), (folder / "account.jsonl").read_bytes(), names_in(folder / "out")) == before


def test_there_are_at_least_forty_of_them():
    assert len({line for line, *_ in WRONG}) == len(WRONG) >= 40
