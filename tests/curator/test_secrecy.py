"""Errors about private data carry no frame that shows them, however they arise: all frames are searched."""

import gc
import sys
import threading
import types

import numpy as np
import pytest

import privmw as pmw
import privmw.accounting.ledger
from kernels.cases import NATIVE_DRAWS
from marks.slow import examples
from privmw import mechanisms
from privmw.cli import main
from privmw.extensions.cluster.sharded_records import ShardedRecords
from privmw.kernels import choice
from privmw.ranks import ALONE
from privmw.secrecy import raised_in, sealed

pandas = pytest.importorskip("pandas")
polars = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")
parquet = pytest.importorskip("pyarrow.parquet")

DOMAIN = pmw.Domain({"age": {"edges": [0, 18, 120]}, "name": ["SECRET 1", "SECRET 2"]})
AGES = [31, 4, 65, 17, 80, 3, 9, 44]
NAMES = [f"SECRET {1 + i % 2}" for i in range(len(AGES))]
CODES = np.array([[age >= 18, i % 2] for i, age in enumerate(AGES)], np.uint8)
WORKLOAD = pmw.Workload.all(DOMAIN, k=1)
ANSWERS = np.full(WORKLOAD.cells, 0.5)


def frames_inside(error):
    """The frames of an error, and of those it came from, below the caller's: from privmw's first frame on."""
    seen, errors = [], [error]
    while errors:
        error = errors.pop()
        trace, inside = error.__traceback__, False
        while trace is not None:
            inside = inside or trace.tb_frame.f_globals["__name__"].startswith("privmw")
            seen += [trace.tb_frame] if inside else []
            trace = trace.tb_next
        errors += [other for other in (error.__context__, error.__cause__) if other is not None]
    return seen


def leaks(value, known):
    """Whether a variable holds values: arrays, columns, frames, texts, or something that refers to these."""
    if id(value) in known:
        return False
    known.add(id(value))
    if isinstance(value, np.ndarray | pa.Array | pa.ChunkedArray | pa.Table | pa.RecordBatch):
        return True
    if isinstance(value, pandas.DataFrame | pandas.Series | polars.DataFrame | polars.Series):
        return True
    if isinstance(value, str | bytes):
        return "SECRET" in str(value)
    if isinstance(value, types.GeneratorType):
        value = {} if value.gi_frame is None else dict(value.gi_frame.f_locals)
    if isinstance(value, types.FunctionType):
        return any(leaks(cell.cell_contents, known) for cell in value.__closure__ or ())
    if isinstance(value, dict):
        return any(leaks(each, known) for pair in value.items() for each in pair)
    if isinstance(value, list | tuple | set):
        return any(leaks(each, known) for each in value)
    return False


def shown(error):
    """The variables inside that show private values, by function."""
    return [
        (frame.f_code.co_qualname if sys.version_info >= (3, 11) else frame.f_code.co_name, name)
        for frame in frames_inside(error)
        for name, value in frame.f_locals.items()
        if leaks(value, {id(DOMAIN)})
    ]


def failure(action):
    try:
        action()
    except BaseException as error:
        return error
    raise AssertionError("nothing failed")


def table():
    return pmw.Table.from_codes(CODES, DOMAIN, private=True)


def frame_table(frame):
    return pmw.Table.from_frame(frame, DOMAIN, private=True)


def write(path, *, ages=AGES, names=NAMES):
    columns = pa.table({"age": ages, "name": names})
    if str(path).endswith(".csv"):
        path.write_text("".join(f"{a},{b}\n" for a, b in [("age", "name"), *zip(ages, names, strict=True)]))
    else:
        parquet.write_table(columns, path, row_group_size=3)
    return path


BAD = [*NAMES[:-1], "SECRET 3"]
REFUSALS = {
    "a code": lambda _: pmw.Table({"age": [0, 7], "name": [0, 1]}, DOMAIN, private=True),
    "codes": lambda _: pmw.Table.from_codes(CODES + 1, DOMAIN, private=True),
    "ragged": lambda _: pmw.Table.from_codes([[0, 1], [0]], DOMAIN, private=True),
    "lengths": lambda _: pmw.Table({"age": [0, 1, 1], "name": [0, 1]}, DOMAIN, private=True),
    "unsaid": lambda _: pmw.Table({"age": [0, 7], "name": [0, 1]}, DOMAIN, private=None),
    "positions": lambda _: table().take([99]),
    "domains": lambda _: pmw.Table.concatenate([table(), table().project(["age"])]),
    "another workload": lambda _: table().counts(pmw.Workload.all(pmw.Domain({"a": 2}), k=1)),
    "pandas": lambda _: pmw.Table.from_frame(
        pandas.DataFrame({"age": AGES, "name": BAD}), DOMAIN, private=True
    ),
    "mixed": lambda _: frame_table(pandas.DataFrame({"age": [*AGES[:-1], {}], "name": NAMES})),
    "polars": lambda _: pmw.Table.from_frame(
        polars.DataFrame({"age": AGES, "name": BAD}), DOMAIN, private=True
    ),
    "arrow": lambda _: frame_table(pa.table({"age": AGES, "name": BAD})),
    "csv": lambda folder: pmw.read_table(write(folder / "bad.csv", names=BAD), DOMAIN, private=True),
    "parquet": lambda folder: pmw.read_table(write(folder / "bad.parquet", names=BAD), DOMAIN, private=True),
    "scan": lambda folder: pmw.scan_table(write(folder / "bad.parquet", names=BAD), DOMAIN, private=True),
    "sharded": lambda folder: ShardedRecords.from_parquet(
        write(folder / "bad.parquet", names=BAD), DOMAIN, ALONE, private=True
    ),
    "json lines": lambda folder: pmw.read_table(json_lines(folder / "bad.jsonl"), DOMAIN, private=True),
    "synthesizer": lambda _: pmw.Synthesizer(domain=DOMAIN).fit(pandas.DataFrame({"age": AGES, "name": BAD})),
    "changed": lambda folder: changed(folder / "table.parquet"),
    "scores": lambda _: mechanisms.select_permute_and_flip(np.arange(9), sensitivity=0, epsilon=1),
    "counts": lambda _: mechanisms.add_discrete_gaussian(np.arange(9), l2_sensitivity=1, rho=-1),
    "shape": lambda _: mechanisms.add_discrete_laplace(np.int64(9), l1_sensitivity=1, epsilon=1),
    "bits": lambda _: mechanisms.randomized_response(np.ones(9, bool), epsilon=-1),
    "answers": lambda _: pmw.curator.Curator(table(), WORKLOAD, pmw.Budget.zcdp(1)).select(
        ANSWERS[1:], epsilon=1
    ),
}


def json_lines(path):
    rows = zip(AGES, BAD, strict=True)
    path.write_text("".join(f'{{"age": {age}, "name": "{name}"}}\n' for age, name in rows))
    return path


def changed(path):
    scan = pmw.scan_table(write(path), DOMAIN, private=True)
    batches = scan.batches()
    write(path, ages=[age + 1 for age in AGES])
    for _ in batches:
        pass


@pytest.mark.parametrize("name", REFUSALS)
def test_a_refusal_shows_no_private_value_in_any_frame(tmp_path, name):
    error = failure(lambda: REFUSALS[name](tmp_path))
    assert isinstance(error, ValueError | TypeError)
    assert shown(error) == []
    declared = '["SECRET 1", "SECRET 2"]'  # the labels of the domain, which is public
    assert "SECRET" not in str(error).replace(declared, "")
    assert raised_in(error).startswith("privmw")  # the command line may show its message


WORK = {
    "select": lambda curator: curator.select(ANSWERS, epsilon=1),
    "marginal": lambda curator: curator.select(ANSWERS, epsilon=1, mechanism="exponential", among="marginal"),
    "gaussian": lambda curator: curator.measure([0], rho=0.1),
    "laplace": lambda curator: curator.measure(marginals=[0, 1], epsilon=0.1),
}
KERNELS = {
    "select": "select_permute_and_flip",
    "marginal": "select_exponential",
    "gaussian": "discrete_gaussian",
    "laplace": "discrete_laplace",
}


@pytest.mark.parametrize("kind", [ValueError, MemoryError, KeyboardInterrupt])
@pytest.mark.parametrize("work", WORK)
def test_a_kernel_that_fails_shows_no_private_value(monkeypatch, work, kind):
    def fail(*given):
        scores = given  # noqa: F841  a variable of the frame that fails
        raise kind("SECRET 1")

    with pmw.curator.Curator(table(), WORKLOAD, pmw.Budget.zcdp(9)) as curator:
        monkeypatch.setattr(choice.kernels, KERNELS[work], fail, raising=False)
        error = failure(lambda: WORK[work](curator))
    assert type(error) is kind
    assert shown(error) == []
    assert not raised_in(error).startswith("privmw")  # the command line withholds its message


@pytest.mark.parametrize("kind", [RuntimeError, KeyboardInterrupt])
def test_counting_that_fails_shows_no_private_value(tmp_path, monkeypatch, kind):
    scan = pmw.scan_table(write(tmp_path / "table.parquet"), DOMAIN, private=True)
    all_records = [table(), scan, ShardedRecords(table(), ALONE)]

    class Failing:
        def __init__(self, columns, *given):
            self.columns = columns
            raise kind

    monkeypatch.setattr(choice.kernels, "Marginals", Failing, raising=False)
    for records in all_records:
        for count in (
            lambda: records.counts(WORKLOAD),  # noqa: B023
            lambda: pmw.curator.Curator(records, WORKLOAD, pmw.Budget.zcdp(1)),  # noqa: B023
            lambda: pmw.measure_marginals(records, [("age",)], rho=1),  # noqa: B023
            lambda: pmw.evaluate(table(), records, WORKLOAD),  # noqa: B023
        ):
            error = failure(count)
            assert type(error) is kind
            assert shown(error) == []


def everything(path):
    """A table read, counted, and asked through the door; again from its file."""
    for records in (pmw.read_table(path, DOMAIN, private=True), pmw.scan_table(path, DOMAIN, private=True)):
        with pmw.curator.Curator(records, WORKLOAD, pmw.Budget.zcdp(9), rng=1) as curator:
            for work in WORK.values():
                work(curator)


class Interruption:
    """Raises KeyboardInterrupt at one line of privmw's, or counts the lines if there are not so many."""

    def __init__(self, line):
        self.line, self.lines = line, 0

    def __call__(self, frame, event, argument):
        name = frame.f_globals.get("__name__", "")
        # The wrapper itself has a few lines on which its arguments cannot be gone yet.
        if not name.startswith("privmw") or name == "privmw.secrecy":
            return None
        if event == "line":
            self.lines += 1
            if self.lines == self.line:
                raise KeyboardInterrupt
        return self

    def run(self, action):
        before = sys.gettrace()
        sys.settrace(self)
        try:
            action()
        finally:
            sys.settrace(before)


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")  # a file just opened
@examples(60, 400)
def test_an_interruption_anywhere_shows_no_private_value(tmp_path, examples, monkeypatch):
    path = write(tmp_path / "table.csv")
    everything(path)  # what is imported or remembered once comes before
    whole = Interruption(0)
    whole.run(lambda: everything(path))
    assert whole.lines > 1000
    caught = 0
    for line in np.linspace(1, whole.lines, examples).astype(int).tolist():
        # A tracer can raise where no signal can: behind a block, before its lock is released.
        monkeypatch.setattr(privmw.accounting.ledger, "_CHARGING", threading.Lock())
        error = failure(lambda: Interruption(line).run(lambda: everything(path)))  # noqa: B023
        assert type(error) is KeyboardInterrupt
        assert shown(error) == []
        caught += 1
    assert caught == examples
    del error
    gc.collect()  # here, where the warning of a file that was interrupted before its block is ignored


def test_the_error_that_a_debugged_command_raises_shows_no_private_value(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRIVMW_DEBUG", "1")
    DOMAIN.write(tmp_path / "domain.json")
    write(tmp_path / "public.csv")
    write(tmp_path / "private.csv", names=BAD)
    line = "release --private private.csv --public public.csv --domain domain.json --marginals 1 --epsilon 1"
    error = failure(lambda: main([*line.split(), "--output", "out", "--quiet"]))
    assert "private.csv" in str(error)
    assert shown(error) == []


def test_an_error_about_public_data_keeps_its_frames(tmp_path):
    for action in (
        lambda: pmw.Table({"age": [0, 7], "name": [0, 1]}, DOMAIN, private=False),
        lambda: pmw.read_table(write(tmp_path / "bad.csv", names=BAD), DOMAIN, private=False),
    ):
        assert len(frames_inside(failure(action))) > 2


def test_a_generator_is_sealed_too_and_passes_on_what_is_sent():
    @sealed
    def echo(secret, *, private):
        received = yield secret
        if received is None:
            raise ValueError(f"{secret}"[:0])
        return received

    def frames(error):
        trace, names = error.__traceback__, []
        while trace is not None:
            names.append(trace.tb_frame.f_code.co_name)
            trace = trace.tb_next
        return names

    for private, inside in ((True, False), (False, True)):
        generator = echo([3], private=private)
        assert next(generator) == [3]
        assert ("echo" in frames(failure(lambda: next(generator)))) == inside  # noqa: B023
        generator = echo([3], private=private)
        next(generator)
        with pytest.raises(StopIteration) as ended:
            generator.send(5)
        assert ended.value.value == 5
        generator = echo([3], private=private)
        next(generator)
        generator.close()


def test_the_search_finds_what_a_plain_function_shows(tmp_path, monkeypatch):
    # Planted: reading without the seal.
    unsealed = pmw.read_table.__wrapped__
    assert shown(failure(lambda: unsealed(write(tmp_path / "bad.csv", names=BAD), DOMAIN, private=True)))
    select = pmw.curator.Curator.select.__wrapped__
    monkeypatch.setattr(pmw.mechanisms.Selection, "draw", lambda self, scores, *rest: rest[5])
    with pmw.curator.Curator(table(), WORKLOAD, pmw.Budget.zcdp(9)) as curator:
        assert shown(failure(lambda: select(curator, ANSWERS, epsilon=1)))


@pytest.mark.skipif(not NATIVE_DRAWS, reason="the draws in Python are those of the other tests")
def test_the_draws_in_python_show_no_private_value(monkeypatch):
    from privmw.kernels.python_ import draws, selection

    def fail(*given):
        raise KeyboardInterrupt

    monkeypatch.setattr(selection, "peel", fail)
    for name in ("select_permute_and_flip", "Errors"):
        monkeypatch.setattr(choice.kernels, name, getattr(draws, name), raising=False)
    with pmw.curator.Curator(table(), WORKLOAD, pmw.Budget.zcdp(9)) as curator:
        assert shown(failure(lambda: curator.select(ANSWERS, epsilon=1))) == []
