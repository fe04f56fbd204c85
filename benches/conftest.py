"""The smoke option, the fixture that runs one line of a case, and the tables of figures at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator

import pytest
from pytest_benchmark.fixture import BenchmarkFixture
from race import Case, Figures, add_ratios, race

import privmw as pmw

FIGURES = pytest.StashKey[Figures]()
HEADER = ("case", "line", "target", "reached", "")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--smoke", action="store_true", help="every bench once, on small sizes")


def pytest_configure(config: pytest.Config) -> None:
    smoke = bool(config.getoption("--smoke")) or os.environ.get("PRIVMW_BENCH") == "smoke"
    config.stash[FIGURES] = Figures(smoke)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """No workers: benches side by side would measure each other."""
    return 0


@pytest.fixture
def smoke(report: Figures) -> bool:
    return report.smoke


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = pmw.kernels.threads()
    pmw.kernels.set_threads(1)
    yield
    pmw.kernels.set_threads(before)


@pytest.fixture
def report(pytestconfig: pytest.Config) -> Figures:
    return pytestconfig.stash[FIGURES]


@pytest.fixture(scope="module")
def last_case() -> dict[str, Case]:
    """Only one at a time: a case may hold millions of rows."""
    return {}


@pytest.fixture
def bench(
    request: pytest.FixtureRequest, report: Figures, last_case: dict[str, Case], smoke: bool
) -> Callable[..., None]:
    """Checks and races a case at its first line; then leaves each line's own times to pytest-benchmark."""

    def run(
        title: str, line: str, build: Callable[[bool], Case], seconds: float = 6, fewest: int = 5
    ) -> None:
        file = request.path.name
        if title not in last_case:
            last_case.clear()
            case = last_case[title] = build(smoke)
            case.check()
            times = race(case.lines, 0 if smoke else seconds, 1 if smoke else fewest)
            add_ratios(report, file, title, case, times)
            report.note(file, case.note)
            for name, taken in times.items():
                once = taken.wall.min() * case.lines[name].share
                case.rounds[name] = 1 if smoke or once > 0.5 else 3
        case = last_case[title]
        # Asked for only now: it warns, hence fails, where a test skips without using it.
        benchmark: BenchmarkFixture = request.getfixturevalue("benchmark")
        benchmark.group = title
        benchmark.extra_info["share"] = case.lines[line].share
        benchmark.pedantic(case.lines[line].run, rounds=case.rounds[line], warmup_rounds=0)

    return run


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    figures = config.stash[FIGURES]
    for file, rows in figures.rows.items():
        small = " (smoke: small sizes, one round: figures mean nothing)" if figures.smoke else ""
        terminalreporter.section(f"{file}{small}")
        widths = [max(len(row[i]) for row in [HEADER, *rows]) for i in range(len(HEADER))]
        for row in [HEADER, *rows]:
            terminalreporter.line(
                "  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip()
            )
        for note in figures.notes.get(file, []):
            terminalreporter.line(f"  {note}")
    if figures.rows and hasattr(os, "getloadavg"):
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
        terminalreporter.line(f"  {cores} cores; load over the last minutes {os.getloadavg()[1]:.1f}")
