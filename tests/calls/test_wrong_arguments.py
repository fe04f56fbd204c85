"""Private records as every argument of every public function and method: no error quotes a cell of them.

`python tests/calls/test_wrong_arguments.py` prints every error, to be read.
"""

import ast
import importlib
import inspect
import io
import itertools
import os
import sqlite3
import tempfile
from contextlib import redirect_stdout
from functools import cache
from pathlib import Path
from unittest import mock

import numpy as np
import pytest

import privmw as pmw
from privmw.extensions.cluster import ShardedRecords, ShardedSupport
from privmw.extensions.unbiased.strategies.strategy import check_weights
from privmw.kernels import checks
from privmw.report import svg
from privmw.secrecy import expect, raised_in, shown

pandas = pytest.importorskip("pandas")
for library in ("pyarrow", "narwhals", "matplotlib", "jinja2", "scipy"):
    pytest.importorskip(library)

PACKAGES = [
    "privmw",
    "privmw.accounting",
    "privmw.extensions.synthesizer.synthesizer",
    "privmw.curator",
    "privmw.extensions.cluster.sharded_records",
    "privmw.extensions.cluster.sharded_support",
    "privmw.extensions.engines",
    "privmw.extensions.evaluation",
    "privmw.extensions.experiments",
    "privmw.kernels",
    "privmw.mechanisms",
    "privmw.extensions.population",
    "privmw.extensions.postprocess",
    "privmw.random",
    "privmw.release",
    "privmw.report",
    "privmw.extensions.unbiased.file",
    "privmw.extensions.unbiased.strategies",
]
ROOT = Path(__file__).parents[2]
EXEMPT = ()
# A frame that is said to be public, and names of files, which errors of the system quote.
QUOTED = {
    "Synthesizer.fit(public)",
    "ShardedRecords.from_parquet(paths)",
    "ShardedSupport.from_parquet(paths)",
}
# Once one of these has taken an argument it computes for long: other records are not tried in its place.
SLOW = ("render", "write_", "Release.report", "GEM.pretrain")
SHARDS = 8
SPECIAL = ("__getitem__", "__call__", "__contains__")
WORD, NUMBER = "PRIVATECELL7319", 73190457
CELLS = (WORD, str(NUMBER), f"{NUMBER:,}", "7.31904")
ROW = {"age": NUMBER, "sex": WORD, "rooms": NUMBER}
DOMAIN = {"age": {"edges": [0, 18, 65, 100]}, "sex": ["F", "M"], "rooms": 4}


def intruders():
    """Private records, as they may come: short, as reprlib cuts longer ones in the middle."""
    wide = pmw.Domain({"age": 2**27, "sex": 2, "rooms": 2**27})
    frame = pandas.DataFrame([ROW])
    return {
        "frame": frame,
        "column": frame["sex"],
        "list of lists": [list(ROW.values())],
        "list of dicts": [ROW],
        "list of words": [WORD],
        "list of numbers": [NUMBER],
        "dict": {name: [value] for name, value in ROW.items()},
        "table": pmw.Table.from_codes([[NUMBER, 1, NUMBER]], wide, private=True),
        "array": np.array([list(ROW.values())], object),
        "integers": np.array([NUMBER]),
        "array of texts": np.array([WORD]),
        "named tuple": next(frame.itertuples()),
        "structured array": frame.to_records(index=False),
        "negative numbers": [-NUMBER],
    }


@cache
def valid():
    """An argument for every name of a parameter that has no default, and the objects that have methods."""
    from privmw import accounting, engines, kernels, mechanisms, postprocess, release, strategies
    from privmw.random import privacy_stream
    from privmw.ranks import ALONE

    rng = np.random.default_rng(0)
    domain = pmw.Domain(DOMAIN)
    codes, others = (np.stack([rng.integers(0, size, 60) for size in domain.sizes], axis=1) for _ in range(2))
    private = pmw.Table.from_codes(codes, domain, private=True)
    public = pmw.Table.from_codes(others, domain, private=False)
    support, workload = pmw.Support.from_table(public), pmw.Workload.all(domain, k=2)
    made = pmw.MWPub(rounds=2).calibrate(rho=1)(private, support, workload, rng=0)
    noise = accounting.DiscreteGaussian(sigma=4, l2_sensitivity_squared=1)
    residual = accounting.ResidualGaussian((3, 2), ((0,), (0, 1)), (9.0, 9.0))
    shot = strategies.equal().calibrate(workload, pmw.Budget.zcdp(0.01))
    answers = pmw.HDMM().release(private, workload, rho=0.5, rng=0)
    measured = postprocess.NoisyMarginals.of_release(made)
    columns = kernels.Columns([np.ascontiguousarray(c, np.uint8) for c in codes.T], [3, 2, 4])
    attributes, starts = np.array([0, 1, 1, 2], np.int32), np.array([0, 2, 4])
    marginals = kernels.Marginals(columns, attributes, starts)
    account = accounting.Account.create("valid.account", pmw.Budget.zcdp(9))
    domain.write("domain.json")
    made.save("valid.release")
    answers.save("valid.answers")
    public.write("valid.parquet")
    objects = [
        domain, domain["age"], private, public, support, workload, made, made.ledger, account, shot, answers,
        measured, columns, marginals, kernels.MarginalCells(marginals, np.array([1, 2])), noise, residual,
        kernels.Moves([3, 2, 4], attributes, starts), kernels.Products([3, 2, 4], attributes, starts),
        kernels.Tallies([3, 2, 4], attributes, starts), pmw.Budget.zcdp(1), pmw.Synthesizer(domain=domain),
        pmw.Constraints({"invalid": [{"rooms": [0], "sex": ["F"]}]}, domain), strategies.residual(),
        pmw.curator.Curator(private, workload, pmw.Budget.zcdp(99), rng=0), postprocess.nnls(measured),
        ShardedRecords(private, ALONE), ShardedSupport.of(support, ALONE), pmw.scan_table(
            "valid.parquet", domain, private=True), engines.Counts.from_records(private, workload),
        engines.sql(workload, "people", "duckdb"),
        pmw.extensions.unbiased.one_shot.OneShot().calibrate(rho=1), made.measurements[0],
        pmw.MWPub(rounds=2).calibrate(rho=1),
        *(each() for each in (pmw.MWPub, pmw.MWEMPub, pmw.PEP, pmw.MWEM, pmw.RAP, pmw.GEM, pmw.FEM,
                              pmw.DualQuery, pmw.HDMM)),
        mechanisms.Noise(noise), mechanisms.Selection.prepare(
            "exponential", candidates=3, sensitivity=1, epsilon=1, k=1),
        pmw.Syntax(), pmw.ChaCha20(0), pmw.evaluate(made, private, workload), release.Round(1, (), 1, 1, 1),
        accounting.Composition.of([noise]), accounting.Sequential((noise, noise)),
    ]  # fmt: skip
    ones = np.ones(workload.cells)
    arguments = {
        "answers": answers, "at_most": 2, "attributes": attributes, "base": ones, "bits": np.array([True]),
        "bit_generator": np.random.PCG64(0), "budget": pmw.Budget.zcdp(1), "candidates": 3,
        "cells": np.array([1]), "code": 1, "codes": codes, "columns": columns, "comm": ALONE,
        "connection": sqlite3.connect(":memory:").cursor(), "count": 2, "counts": np.array([3, 4]),
        "dataframe": pandas.DataFrame({"age": [1], "sex": ["F"], "rooms": [1]}), "declared": ["x", "y"],
        "delta": 1e-9, "dialect": "duckdb", "domain": domain, "epsilon": 1.0, "epsilon0": 0.1,
        "event": noise, "events": (noise,), "factor": 2.0, "fit": postprocess.nnls(measured),
        "frame": pandas.DataFrame({"age": [1], "sex": ["F"], "rooms": [1]}), "i": 1, "j": 1, "k": 2,
        "ids": np.arange(60), "kind": "pandas", "l1_sensitivity": 1, "l2_sensitivity": 1, "labels": "F",
        "l2_sensitivity_squared": 1, "ledger": made.ledger, "level": 0.9, "limit": pmw.Budget.zcdp(1),
        "looks": ((0,), (0, 1)), "marginals": [("age",), ("age", "sex")], "masses": np.ones(60, np.int64),
        "measured": measured, "measurements": made.measurements, "method": "nnls", "n": 60, "name": "age",
        "names": "age", "neighbors": accounting.Neighbors.REPLACE_ONE, "noise": "discrete-gaussian",
        "noisy": [],
        "noisy_counts": np.array([3]), "notion": "zCDP", "part": private, "path": "made.file",
        "paths": "valid.parquet", "places": np.array([1]), "private": private, "public": public, "q": 0.25,
        "queries": [{"age": 1}], "reason": "seed 0", "records": private, "release": made, "released": made,
        "rho": 0.5, "rounds": 3, "round": 1, "rows": np.array([1, 2], np.uint32), "rules": {}, "run": "run",
        "scale": 2.0, "scores": np.array([3, 4, 5]), "seed": 0, "sensitivity": 1, "settings": {},
        "shot": shot,
        "sigma": 2.0, "sigmas": (9.0, 9.0), "size": 3, "sizes": [3, 2, 4], "source": "domain.json",
        "spent": noise, "starts": starts, "stream": privacy_stream(0), "support": support, "table": public,
        "tables": [public, public], "text": "1", "threads": 1, "threshold": 9, "tolerance": 1e-3,
        "total": made.ledger.total, "unit": "home", "value": 1, "values": (1, 1), "weights": np.ones(60),
        "what": "a run", "workload": workload, "model_answers": ones / 9, "statements": objects[30],
        "chosen": (), "shown": made, "cost": noise.cost, "potentials": ones, "matrix": np.eye(2),
        "right": np.ones(2), "dataset": None, "option": 1,
        # of one function
        "Domain.attributes": DOMAIN, "Release.weights": made.weights, "Table.private": True,
        "Table.columns": {name: codes[:, a] for a, name in enumerate(domain.names)},
        "from_frame.private": True, "from_codes.private": True, "Scan.private": True,
        "Scan.path": "valid.parquet",
        "read_table.private": True, "read_table.path": "valid.parquet", "load_release.path": "valid.release",
        "scan_table.private": True, "scan_table.path": "valid.parquet", "Release.load.path": "valid.release",
        "load_unbiased_answers.path": "valid.answers", "UnbiasedAnswers.load.path": "valid.answers",
        "Account.path": "valid.account", "Domain.project.names": ["age"], "Table.project.names": ["age"],
        "Support.counts": np.ones(60, np.int64), "Support.matching_rows.names": ("age", "sex"),
        "matching_rows.names": ("age", "sex"), "Constraints.among.names": ["age"],
        "Workload.cell.names": ("age",),
        "Workload.cell.values": (1,), "Workload.index.names": ("age", "sex"),
        "Counts.counts": np.array([1] * 26),
        "NoisyMarginals.marginals": [], "Workload.cells_of.marginals": [0], "Workload.select.marginals": [0],
        "Curator.measure_residuals.event": residual, "ResidualNoise.event": residual, "sql.table": "people",
        "add_residual_gaussian.event": residual, "ResidualGaussian.sizes": (3, 2),
        "add_residual_gaussian.tables": [np.ones(3, np.int64), np.ones((3, 2), np.int64)],
        "Attribute.name": "age", "experiments.domain.name": "adult",
        "Columns.columns": [np.array([1], np.uint8)],
        "Columns.sizes": [3], "distinct_rows.columns": [np.array([1], np.uint8)], "distinct_rows.sizes": [3],
        "MarginalCells.marginals": marginals, "Measurement.noise": "discrete-gaussian",
        "NoisyMarginal.attributes": ("age",), "NoisyMarginal.noisy_counts": np.ones(3),
        "NoisyMarginal.noise": "laplace", "Threshold.noise": None, "matching_rows.attributes": [0],
        "matching_rows.values": [1], "matching_bitmap.attributes": [0], "matching_bitmap.values": [1],
        "from_parquet.private": True, "from_parquet.domain": domain, "Release.settings": {"algorithm": "x"},
        "Selection.prepare.kind": "exponential", "ShardedSupport.counts": np.ones(60, np.int64),
        "set_threads.n": kernels.threads(),
        "fit.private": pandas.DataFrame({"age": [1], "sex": ["F"], "rooms": [1]}),
    }  # fmt: skip
    return arguments, objects


def public_functions():
    """Every callable by name: functions of public packages, constructors, methods of classes and objects."""
    found = {}
    for package in PACKAGES:
        module = importlib.import_module(package)
        own = [name for name, each in vars(module).items() if getattr(each, "__module__", "") == package]
        for name in getattr(module, "__all__", [name for name in own if not name.startswith("_")]):
            each = getattr(module, name)
            if inspect.isclass(each):
                found |= {f"{name}.{key}": method for key, method in methods(each, each)}
            if callable(each):
                found[name] = each
    for each in valid()[1]:
        found |= {f"{type(each).__name__}.{key}": method for key, method in methods(type(each), each)}
    return dict(sorted((name, each) for name, each in found.items() if parameters(each)))


def methods(kind, owner):
    """The public methods of ours that can be called on a class or on an object."""
    for key in dir(kind):
        static = inspect.getattr_static(kind, key)
        function = getattr(static, "__func__", static)
        if (key.startswith("_") and key not in SPECIAL) or not inspect.isroutine(function):
            continue
        bound = owner is not kind or isinstance(static, staticmethod | classmethod)
        if bound and getattr(function, "__module__", "privmw").startswith("privmw"):
            yield key, getattr(owner, key)


def parameters(function):
    try:
        return list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):  # of a builtin
        return []


def argument(function, name):
    """A valid argument: the one of this function, or of all parameters of the name."""
    arguments, parts = valid()[0], function.split(".")
    named = [f"{owner}.{name}" for owner in (function, parts[0], parts[-1])]
    return next((arguments[each] for each in named if each in arguments), arguments.get(name))


def call(name, function, wrong=None, intruder=None):
    """Call with a valid argument for every parameter without a default, but for the wrong one."""
    args, kwargs = [], {}
    for each in parameters(function):
        optional = each.default is not each.empty or each.kind is each.VAR_KEYWORD
        if optional and each.name != wrong:
            continue
        value = intruder if each.name == wrong else argument(name, each.name)
        if each.kind in (each.POSITIONAL_ONLY, each.VAR_POSITIONAL):
            args.append(value)
        else:
            kwargs["sex" if each.kind is each.VAR_KEYWORD else each.name] = value
    with redirect_stdout(io.StringIO()):
        result = function(*args, **kwargs)
        if inspect.isgenerator(result):
            next(result, None)


def positions():
    """Every (name of a function, the function, name of a parameter)."""
    return [(n, f, each.name) for n, f in public_functions().items() for each in parameters(f)]


def tried(chosen):
    """Every (function(parameter), what was passed, its error or None)."""
    for name, function, parameter in chosen:
        for kind, intruder in intruders().items():
            error = None
            try:
                call(name, function, parameter, intruder)
            except Exception as raised:
                error = raised
            yield f"{name}({parameter})", kind, error
            if error is None and name.startswith(SLOW):
                break


def quoted(error):
    """What an error quotes of a cell: in its text, its arguments, or those of the errors it came from."""
    texts, seen = [], []
    while error is not None and error not in seen:
        seen.append(error)
        texts += [str(error), repr(error), repr(error.args)]
        error = error.__cause__ or error.__context__  # also a suppressed one: debuggers show it
    return next((text for text in texts if any(cell in text for cell in CELLS)), "")


def leaks(position, error):
    if error is None or position in QUOTED or (raised_in(error).replace(".", "/") + "/").startswith(EXEMPT):
        return ""
    return quoted(error)


@pytest.fixture(scope="module", autouse=True)
def _in_an_empty_folder_without_pictures(tmp_path_factory):
    before = os.getcwd()
    os.chdir(tmp_path_factory.mktemp("wrong"))
    with mock.patch.object(svg, "_inline", return_value="<svg></svg>"):  # drawing takes seconds
        yield
    os.chdir(before)


def test_there_are_enough_positions_and_the_other_arguments_are_valid():
    assert len(positions()) >= 1300
    working = 0
    for name, function in public_functions().items():
        try:
            call(name, function)
        except Exception:
            continue
        working += 1
    assert working >= 200


@pytest.mark.parametrize("shard", range(SHARDS))
def test_no_error_about_private_records_in_the_wrong_place_quotes_a_cell(shard):
    chosen = positions()[shard::SHARDS]
    found = [(where, kind, error is not None, leaks(where, error)) for where, kind, error in tried(chosen)]
    assert len({position for position, _, _, _ in found}) == len(chosen) >= 150
    assert sum(refused for _, _, refused, _ in found) > 0.6 * len(found)
    assert [(position, kind, text) for position, kind, _, text in found if text] == []


def internal_checks():
    """Functions that trust their callers about the kind of some arguments."""
    counts = np.array([3, 4])
    return {
        "check_array": lambda wrong: checks.check_array("counts", counts, wrong),
        "check_writable": lambda wrong: checks.check_writable("counts", counts, wrong),
        "check_weights": lambda wrong: check_weights([1, 2], wrong),
        "weights": lambda wrong: check_weights(wrong, 2),
    }


@pytest.mark.parametrize("name", internal_checks())
def test_no_internal_check_quotes_a_cell(name):
    for kind, intruder in intruders().items():
        if (name, kind) != ("weights", "list of numbers"):
            with pytest.raises((TypeError, ValueError, NotImplementedError)) as raised:
                internal_checks()[name](intruder)
            assert (kind, quoted(raised.value)) == (kind, "")


def test_no_compiled_function_quotes_a_cell():
    native = pytest.importorskip("privmw.kernels._native")
    functions = [each for name, each in vars(native).items() if callable(each) and name[0] != "_"]
    assert len(functions) >= 30
    for function, (kind, intruder) in itertools.product(functions, intruders().items()):
        for arguments in ((intruder,), (intruder, intruder), (np.ones(2), intruder, 1)):
            with pytest.raises((TypeError, ValueError)) as raised:
                function(*arguments)
            assert (function, kind, quoted(raised.value)) == (function, kind, "")
        with pytest.raises(TypeError) as raised:
            function(threads=intruder)
        assert quoted(raised.value) == ""


def test_the_search_finds_a_quoted_cell():
    for intruder in intruders().values():
        with pytest.raises(TypeError) as raised:
            expect("rounds", intruder, int, "an integer")
        assert quoted(raised.value) == ""
    assert [kind for kind, each in intruders().items() if not quoted(ValueError(repr(each)))] == ["table"]
    error = ValueError("rounds must be an integer")
    error.__context__ = KeyError(NUMBER)
    error.__suppress_context__ = True
    assert quoted(error)


def test_scalars_are_quoted_and_nothing_else():
    import datetime

    record = np.array([(NUMBER, WORD)], [("age", "i8"), ("sex", "U15")])[0]
    assert [shown(each) for each in (3, 2.5, None, True, "sex")] == ["3", "2.5", "None", "True", "'sex'"]
    assert shown(np.int64(3)) == repr(np.int64(3))
    assert "2020" in shown(datetime.date(2020, 1, 2))
    assert "2020" in shown(np.datetime64("2020-01-02"))
    assert len(shown("x" * 1000)) < 40
    assert [shown(each) for each in (record, (1,), {1}, b"x", pandas.NA)] == [
        "void", "tuple", "set", "bytes", "NAType",
    ]  # fmt: skip
    with pytest.raises(TypeError, match=r"^names\[0\] \(str\) must be a Table$"):
        expect("names[0]", WORD, pmw.Table, "a Table", quote=False)


def banned(source):
    """Lines of raises and of `expect` that quote by !r, repr or reprlib, not by `shown`."""
    tree = ast.parse(source)
    names = {"repr", "ascii"} | {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module == "reprlib"
        for alias in node.names
    }
    for node in ast.walk(tree):
        refuses = isinstance(node, ast.Call) and getattr(node.func, "id", "") == "expect"
        for part in ast.walk(node) if refuses or isinstance(node, ast.Raise) else ():
            conversion = isinstance(part, ast.FormattedValue) and part.conversion != -1
            called = isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id in names
            if conversion or called:
                yield part.lineno


MODULES = [str(path.relative_to(ROOT)) for path in sorted((ROOT / "privmw").rglob("*.py"))]


@pytest.mark.parametrize("path", [path for path in MODULES if not path.startswith(EXEMPT)])
def test_errors_quote_by_the_one_function_that_knows_what_may_be_quoted(path):
    assert list(banned((ROOT / path).read_text())) == []


def test_the_lint_finds_every_way_to_quote():
    head = "from reprlib import repr as _short\n"
    for quote in ('f"k ({k!r})"', 'f"k ({_short(k)})"', '"k (" + repr(k) + ")"', 'f"k ({k!s})"'):
        assert list(banned(f"{head}raise ValueError({quote})"))
        assert list(banned(f"{head}expect({quote}, k, int, 'an integer')"))
    assert not list(banned(head + "text = _short(k)\nraise ValueError(f'k ({shown(k)}) must be {k:.3g}')"))


if __name__ == "__main__":
    os.chdir(tempfile.mkdtemp())
    calls = [*tried(positions())]
    for position, kind, error in calls:
        print(f"{'QUOTES ' * bool(leaks(position, error))}{position} {kind}: {error!r}"[:300])
    leaking = {position for position, _, error in calls if leaks(position, error)}
    count = len({position for position, _, _ in calls})
    print(f"{count} positions, {len(calls)} calls; {len(leaking)} positions quote a cell")
