"""The gates of benches/track are tried on what they must find and on what they must not flag."""

import doctest
import json
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from track import compare, differences, history, instructions, intervals, page, work
from track.runs import RUNS

from kernels.cases import TRIED, load
from privmw.kernels import choice

ROOT = Path(__file__).parents[2]
BYTES = "kernel bytes"  # backends hold different things


@pytest.mark.parametrize("run", ["mw_pub", "pep, marginals", "auto, no public"])
def test_work_is_the_same_on_every_backend(run, monkeypatch):
    counted = []
    for name in TRIED:
        monkeypatch.setattr(choice, "kernels", load(name))
        counted.append(work.count_run(RUNS[run]))
    for other in counted[1:]:
        assert {**other, BYTES: 0} == {**counted[0], BYTES: 0}
    assert counted[0]["passes"] > 0
    assert counted[0]["rows x marginals"] > 0


def test_counting_changes_no_bit_and_leaves_the_kernels_as_they_were():
    before, seen = choice.kernels, []

    def make():
        run = RUNS["mw_pub"]()
        return lambda: seen.append(run()) or seen[0]

    first, again = work.count_run(make), work.count_run(RUNS["mw_pub"])
    assert choice.kernels is before
    assert first == again
    np.testing.assert_array_equal(seen[0].weights, RUNS["mw_pub"]()().weights)


def test_one_more_pass_is_told_in_words():
    def once_more():
        run = RUNS["answers"]()
        return lambda: (run(), run())

    before, after = work.count_run(RUNS["answers"]), work.count_run(once_more)
    assert differences.work_differences({"answers": before}, {"answers": before}) == []
    (line,) = differences.work_differences({"answers": before}, {"answers": after})
    assert line.startswith("answers: passes 1 -> 2 (+100.0 %); rows x marginals ")
    assert "Marginals.sums called 1 -> 2 (+100.0 %)" in line


def test_committed_counts_are_those_of_the_runs_and_kernels_there_are():
    committed = json.loads((ROOT / "benches/track/work.json").read_text())
    assert list(committed) == list(RUNS)
    counts = json.loads((ROOT / "benches/track/instructions.json").read_text())["counts"]
    kernels = [name.removeprefix("track_").replace("_", " ") for name in instructions.tracked_functions()]
    assert list(counts) == [*kernels, instructions.FROM_PYTHON]


def test_the_driver_is_compiled_as_the_library_is():
    options = instructions.Options.read(ROOT)
    assert "-ffp-contract=off" in options.all
    assert options.of_file["csrc/draw/chacha20_avx2.cpp"] == ["-mavx2"]
    special = {str(path.relative_to(ROOT)) for path in (ROOT / "csrc").rglob("*_avx2.cpp")}
    assert set(options.of_file) == special | {"csrc/core/marginals/row_effects.cpp"}


def test_three_percent_more_instructions_are_flagged_and_one_percent_is_not():
    before = {"tilt": 182_869, "nnls": 309_807}
    assert instructions_flagged(before, 1.03) == ["tilt", "nnls"]
    assert instructions_flagged(before, 1.01) == []
    assert instructions_flagged(before, 0.5) == []


def instructions_flagged(before, factor):
    after = {name: round(number * factor) for name, number in before.items()}
    worse, _ = differences.instruction_differences(before, after, 0.02)
    return [line.split(":")[0] for line in worse]


def test_the_interval_covers_the_median_as_often_as_it_says():
    # 4,000 intervals of level .95 over a skewed law: coverage is .95 or more, and a standard error is .0035.
    rng = np.random.default_rng(5)
    for n in (10, 25):
        found = [intervals.median_interval(rng.exponential(size=n), 0.95) for _ in range(4000)]
        covered = np.mean([each.low <= np.log(2) <= each.high for each in found])
        assert 0.94 < covered < 0.99
    assert intervals.median_interval([1.0, 1.1], 0.95).low == -np.inf
    assert np.isnan(intervals.median_interval([], 0.95).median)


def simulated(rng, slower, noise=0.02, spike=0.1):
    """Ratios of pairs with noise, one in ten far off, as on a machine that others use."""

    def sample(pair, runs):
        far = np.where(rng.random(len(runs)) < 0.1, 1 + spike * rng.standard_normal(len(runs)), 1.0)
        return dict(zip(runs, (1 + slower) * (1 + noise * rng.standard_normal(len(runs))) * far, strict=True))

    return sample


def test_a_planted_slowdown_of_five_percent_is_found_and_identical_builds_are_not_flagged():
    rule, runs, rng = compare.Rule(), [f"run {i}" for i in range(15)], np.random.default_rng(9)
    flagged = [
        any(
            rule.flags(found)
            for found, _ in compare.paired_intervals(simulated(rng, 0.0), runs, rule).values()
        )
        for _ in range(200)
    ]
    # Each run's interval lies above 1.02 with probability below 1e-3: of 200 trials of 15 runs a few may.
    assert sum(flagged) <= 10
    found = [compare.paired_intervals(simulated(rng, 0.05), ["run"], rule)["run"] for _ in range(200)]
    assert np.mean([rule.flags(interval) for interval, _ in found]) > 0.9
    assert all(pairs <= rule.most for _, pairs in found)


def test_sampling_ends_when_the_interval_is_narrow_and_leaves_out_what_one_build_lacks():
    asked = []

    def sample(pair, runs):
        asked.append(list(runs))
        return {run: 1.0 + (0.001 if run == "quiet" else 0.2) * (pair % 3) for run in runs if run != "new"}

    rule = compare.Rule(fewest=10, most=12)
    found = compare.paired_intervals(sample, ["quiet", "loud", "new"], rule)
    assert {run: pairs for run, (_, pairs) in found.items()} == {"quiet": 10, "loud": 12}
    assert asked[0] == ["quiet", "loud", "new"]
    assert asked[1] == ["quiet", "loud"]
    assert "SLOWER" not in compare.table(found, rule)


def test_a_run_that_is_surely_slower_is_said():
    rule = compare.Rule()
    found = compare.paired_intervals(lambda pair, runs: dict.fromkeys(runs, 1.05), ["run"], rule)
    assert compare.table(found, rule).endswith("1.050   1.050 to 1.050     10   SLOWER")


ENTRIES = [
    {
        "commit": f"{number:012x}",
        "date": f"2026-01-0{number}T00:00:00+00:00",
        "subject": "perf: a < b & c",
        "toolchain": {"compiler": "g++ 12"},
        "work": {"mw_pub": {"passes": 10 * number, BYTES: 5}},
        "instructions": {"tilt": 1000 + number} if number > 1 else {},
        "errors": {"mw_pub": 0.5},
        "no instructions": "the driver must compile",
    }
    for number in (1, 2, 3)
]


class Reader(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.texts, self.addresses = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.addresses += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.texts.append(data)


def test_the_page_has_a_plot_for_every_figure_and_fetches_nothing():
    reader = Reader()
    reader.feed(page.render(ENTRIES))
    assert reader.tags.count("svg") == 4
    assert reader.tags.count("circle") == 3 * 3 + 2
    assert reader.addresses == []
    assert "prefers-color-scheme: dark" in "".join(reader.texts)
    assert "+50.0 %" in reader.texts  # 20 -> 30 passes
    assert reader.texts.count("perf: a < b & c") == 3
    assert page.render([]).startswith("<!doctype html>")


def test_the_history_keeps_each_commit_once_in_order(tmp_path):
    file = tmp_path / "history.jsonl"
    history.write_history([ENTRIES[2], ENTRIES[0], {**ENTRIES[0], "subject": "again"}], file)
    assert [entry["subject"] for entry in history.read_history(file)] == ["again", "perf: a < b & c"]
    assert history.read_history(tmp_path / "none") == []


@pytest.mark.parametrize("module", [differences, intervals, page])
def test_the_examples_run(module):
    failed, tried = doctest.testmod(module)
    assert tried > 0
    assert failed == 0
