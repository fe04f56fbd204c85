import math
import os
import re
import subprocess
import sys
from functools import cache
from statistics import NormalDist

import numpy as np
import pytest

import privmw as pmw
from extensions.evaluation.cases import release_of, table
from marks.slow import slow, slow_among
from privmw import report
from privmw.release.errors import measured_intervals_of
from privmw.release.measurements import Measurement
from privmw.report import formats
from privmw.report.release import facts, pictures
from privmw.report.release.words import promise, settings_in_words
from report.cases import HOSTILE, by_hand, evaluated, grown_by_hand, hostile, ledger, runs, unusual
from report.html_page import Page, assert_readable, assert_whole

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")


SECTIONS = ["privacy", "released", "trust", "error", "pictures", "use"]


def page_of(release, **options):
    return Page(report.render(release, **options))


@cache
def every_release():
    return {**runs(), **unusual(), "by hand": by_hand(), "hostile": hostile()}


PAGES = slow_among(
    every_release(),
    every_release().keys()
    - {"auto", "rounds", "60,000 values", "by hand", "hostile", "grown by hand", "no public row"},
)


@cache
def rendered(name):
    return report.render(every_release()[name])


@cache
def rendered_evaluated():
    return report.render(runs()["rounds"], evaluation=evaluated("rounds"))


@pytest.mark.parametrize("name", PAGES)
def test_every_page_is_whole_and_needs_nothing_else(name):
    assert_whole(rendered(name))


@pytest.mark.parametrize("name", PAGES)
def test_every_page_can_be_read_out(name):
    assert_readable(rendered(name), SECTIONS)


def test_the_same_release_gives_the_same_bytes_whatever_the_users_style():
    matplotlib = pytest.importorskip("matplotlib")
    first = rendered_evaluated()
    with matplotlib.rc_context({"font.size": 30, "axes.grid": False, "svg.fonttype": "path"}):
        assert report.render(runs()["rounds"], evaluation=evaluated("rounds")) == first


def test_another_process_writes_the_same_bytes(tmp_path):
    runs()["rounds"].save(tmp_path / "x.release")
    program = """
import sys, privmw, privmw.report
privmw.report.write_report(sys.argv[2], privmw.load_release(sys.argv[1]))
"""
    paths = [str(tmp_path / name) for name in ("x.release", "report.html")]
    environment = {**os.environ, "PYTHONHASHSEED": "1"}
    subprocess.run([sys.executable, "-c", program, *paths], check=True, env=environment, cwd=tmp_path)
    assert (tmp_path / "report.html").read_text("utf-8") == rendered("rounds")


def test_the_noise_is_that_of_the_measurements():
    gaussian, laplace = facts.noise_levels(by_hand())
    assert gaussian == facts.NoiseSummary("discrete-gaussian", 2, 4.0, 0.004)
    p = math.exp(-1 / 2.5)
    assert laplace.deviation == pytest.approx(math.sqrt(2 * p) / (1 - p))
    assert laplace.share == laplace.deviation / 1000


def test_the_fit_is_the_gap_between_released_and_noisy():
    found = by_hand().agreement()
    deviation = facts.noise_levels(by_hand())[1].deviation
    assert found.cells.tolist() == [3, 9, 17]
    assert found.noisy.tolist() == [0.493, 0.372, 0.03]
    assert found.fitted.tolist() == [0.5, 0.375, 0.0]
    assert found.z == pytest.approx([1.75, 0.75, -30 / deviation])
    assert found.farthest == 2
    assert found.largest_gap == pytest.approx(0.03)
    assert found.within == pytest.approx((1 / 3, 2 / 3, 2 / 3))
    normal, laplace = math.erf(math.sqrt(0.5)), 1 - math.exp(-math.sqrt(2))
    assert found.expected[0] == pytest.approx((2 * normal + laplace) / 3)
    assert found.heavy_tailed == pytest.approx(1 / 3)


def test_a_release_that_missed_its_measurements_says_so():
    assert not by_hand().agreement().agrees
    text = Page(rendered("by hand")).text
    assert "DISAGREES with what was measured" in text
    assert "The release did not reach what was measured" in text
    assert "Add public rows in which these values occur together" in text
    near = by_hand(measurements=[Measurement([3, 9], [499, 372], "discrete-gaussian", 4.0, 1)])
    assert near.agreement().agrees
    text = page_of(near).text
    assert "no gap is larger than noise explains" in text
    assert "DISAGREES" not in text


def test_the_weights_and_attributes_are_compared_with_the_public_frequencies():
    found = facts.row_weights(by_hand())
    assert found.before == pytest.approx([0.2, 0.2, 0.4, 0.2])
    assert found.effective_before == pytest.approx(1 / 0.28)
    assert found.effective_after == pytest.approx(1 / 0.40625)
    assert found.empty == 1
    assert found.moved == pytest.approx(0.475)
    moved = {
        attribute.name: attribute.moved
        for attribute in facts.distributions(by_hand(), facts.noisy_intervals_of(by_hand()))
    }
    assert list(moved) == ["zip", "age", "sex"]
    assert list(moved.values()) == pytest.approx([0.475, 0.175, 0.1])
    age = facts.distributions(by_hand(), facts.noisy_intervals_of(by_hand()))[1]
    assert (age.codes.tolist(), age.size) == ([0, 3, 9], 10)
    assert age.before == pytest.approx([0.2, 0.6, 0.2])
    assert age.after == pytest.approx([0.125, 0.5, 0.375])


def test_grown_rows_are_told_by_attribute_and_have_no_weight_before():
    release = grown_by_hand()
    support, growth = release.support, release.growth()
    assert support.rows[support.counts == 0].tolist() == [[3, 1, 9], [7, 0, 9]]
    assert growth.mass == pytest.approx(0.5)
    change = facts.row_weights(release)
    assert (change.before > 0).sum() == 4
    assert change.empty == 1  # a public row; every grown row has weight
    page = Page(rendered("grown by hand"))
    assert "Of 6 rows, 2 were grown: no public record has them. They carry 50 % of the" in page.text
    assert "age = 7" in page.text.replace("\u00a0", " ")
    assert "Not shown: 2 grown rows, without weight before." in page.text
    picture = pictures.growth(growth)
    assert picture.alt.startswith("A bar chart of 3 attributes. Grown rows carry 50 % of the records.")
    assert "Most new values are of age: 25 %." in picture.alt


def test_a_release_of_public_rows_has_no_picture_of_grown_ones():
    assert pictures.growth(by_hand().growth()) is None
    assert "Grown rows" not in Page(rendered("by hand")).text


def test_without_a_public_record_nothing_is_compared_with_a_start():
    page = Page(rendered("no public row"))
    assert "All 2 rows were grown: no public record is among them." in page.text
    assert "There is no public start to compare the weights and the attributes with" in page.text
    assert "Weights of the rows, after against before" not in page.text
    assert "distinct public rows" not in page.text


def test_the_spending_is_the_ledgers():
    found = facts.spending(by_hand().ledger)
    assert (found.unit, found.limit, found.total) == ("rho", 0.5, 0.1875)
    assert [(look.purpose, look.times, look.each, look.total) for look in found.looks] == [
        ("measuring", 1, 0.0625, 0.0625),
        ("choosing", 1, 0.125, 0.125),
    ]
    assert [look.share for look in found.looks] == pytest.approx([1 / 3, 2 / 3])
    assert found.running["measuring"].tolist() == [0.0625, 0.0625]
    assert found.running["choosing"].tolist() == [0, 0.125]
    assert facts.spending(runs()["pure"].ledger).unit == "epsilon"
    assert facts.spending(runs()["pure"].ledger).total == pytest.approx(1.0)
    assert facts.spending(runs()["advanced"].ledger).total == pytest.approx(runs()["advanced"].ledger.rho)


def test_the_page_shows_these_numbers():
    page = Page(rendered("by hand"))
    deviation = facts.noise_levels(by_hand())[1].deviation
    for shown in (
        "discrete Gaussian noise 2 4 0.4 %",
        "1 standard deviation of the noise 33.3 % 70.7 %",
        "2 standard deviations of the noise 66.7 % 95 %",
        f"is {formats.quantity(30 / deviation)} standard deviations, at age = 3, sex = M: 3 % of the records "
        "by the noisy count, 0 % released. The largest gap in records is 3 % of them.",
        "Effective number of rows: 3.58 before, 2.47 after; 1 row without weight.",
        "47.5 % of the weight moved",
        "measuring discrete Gaussian noise 1 0.0625 0.0625 33.3 %",
        "choosing exponential mechanism 1 0.125 0.125 66.7 %",
        "60,000 values; 47.5 % of the records moved",
        "distinct public rows, weighed 4",
        "marginals asked for 2",
        "cells in them 30",
        "2 measurements counted 3 cells",
        "1 age = 3 25 % 12.5 %",
        "2 age = 3, sex = M 6.25 % 3 %",
        "rounds 2 how often",
        f"Made by privmw {pmw.__version__}",
    ):
        assert shown in page.text, shown


@pytest.mark.parametrize("name", ["by hand", "rounds", "pure", *slow("advanced", "one value")])
def test_the_privacy_statement_comes_first_and_exactly(name):
    release = every_release()[name]
    page = Page(rendered(name))
    for line in release.statement().splitlines():
        assert line in page.text
    assert page.text.index("What is promised") < page.text.index(release.statement()[:40])
    assert page.text.index(release.statement()[:40]) < page.text.rindex("What was released")
    for words_ in ("timing side channels", "budgets add up", "for one release"):
        assert words_ in page.text
    public = "must really be public" in page.text
    assert public == (name not in ("pure", "one value"))


def test_the_figures_of_the_promise_never_claim_too_much():
    for name, release in runs().items():
        found = promise(release.ledger)
        delta = release.ledger.budget.delta or 0.0
        epsilon = release.ledger.epsilon(delta)
        odds = math.exp(epsilon)
        assert float(found.epsilon) >= epsilon, name
        assert float(found.delta) >= delta
        assert float(found.factor) >= odds
        assert float(found.guess) / 100 >= (odds + delta) / (1 + odds)
        assert float(found.guess) / 100 <= (odds + delta) / (1 + odds) + 0.0011
        test = min(0.05 * odds + delta, 1 - (0.95 - delta) / odds)
        assert test <= float(found.hits) / 100 <= test + 0.0011
        assert float(found.twice) >= 2 * epsilon
        if delta:
            assert 1 / float(found.chance.removeprefix("1 in ").replace(",", "")) >= delta * (1 - 1e-9)


@pytest.mark.parametrize(
    ("epsilon", "guess", "hits"), [(0.01, "50.3", "5.1"), (5, "99.4", "99.4"), (800, "100", "100")]
)
def test_strong_and_weak_promises_are_shown_as_they_are(epsilon, guess, hits):
    paid = pmw.accounting.Ledger(pmw.Budget.pure(epsilon), pmw.accounting.Neighbors.REPLACE_ONE, n=9)
    paid.charge(pmw.accounting.DiscreteLaplace(scale=1 / epsilon, l1_sensitivity=1))
    found = promise(paid)
    assert (found.guess, found.hits) == (guess, hits)
    assert found.strength.startswith("hardly better" if epsilon < 1 else "as good as certain")


def test_adding_or_removing_is_said_so():
    page = page_of(by_hand(ledger=ledger(pmw.accounting.Neighbors.ADD_REMOVE_ONE, unit="person")))
    assert "Adding or removing one person makes no set of outcomes" in page.text
    assert "whether one person is in the table at all" in page.text
    assert "about 1,000" in page.text
    assert "the number of persons shown is a public figure" in page.text


@pytest.mark.parametrize("neighbors", pmw.accounting.Neighbors)
def test_a_unit_of_several_records_is_said_so(neighbors):
    page = page_of(by_hand(ledger=ledger(neighbors, unit="household of at most 4 records")))
    replaced = neighbors is pmw.accounting.Neighbors.REPLACE_ONE
    change = (
        "Replacing the records of one household by any others"
        if replaced
        else ("Adding or removing the records of one household")
    )
    assert f"{change} makes no set of outcomes" in page.text
    assert "one household of at most 4 records" in page.text
    assert "suppose they know every other household and are unsure only" in page.text
    assert "Several households together" in page.text
    assert "1,000 private records" in page.text
    assert "the number of records is public" in page.text or not replaced
    assert "recordss" not in page.text


def test_a_seeded_release_is_marked_on_top():
    page = Page(rendered("auto"))
    assert page.text.startswith("NOT FOR RELEASE: Report")
    assert page.text.index("NOT FOR RELEASE", 20) < page.text.index("What is promised")
    assert "NOT FOR RELEASE" not in Page(rendered("by hand")).text


def test_true_errors_are_marked_everywhere():
    found = evaluated("rounds")
    text = rendered_evaluated()
    page = Page(text)
    assert page.text.startswith("NOT PRIVATE: Report")
    assert page.text.index("NOT PRIVATE: contains true errors") < page.text.index("What is promised")
    assert page.text.count("NOT PRIVATE: true") == text.count('class="true"') == 2
    picture = text[text.index('<figure id="truth"') :]
    assert "NOT PRIVATE" in picture[: picture.index("</figure>")]
    shown = page.text
    for error in (found.max_error, found.mean_error, found.rmse, found.max_total_variation):
        assert formats.percent(error, up=True) in shown
    for cell in found.largest:
        name = ", ".join(f"{n} = {v}" for n, v in zip(cell.names, cell.values, strict=True))
        answers = f"{formats.percent(cell.true)} {formats.percent(cell.released)}"
        assert f"{name} {answers} {formats.percent(cell.error, up=True)}" in shown


def test_without_an_evaluation_nothing_is_said_to_be_true():
    page = Page(rendered("rounds"))
    assert "NOT PRIVATE" not in page.text
    assert "truth" not in page.ids


def test_a_perfect_release_is_evaluated_and_shown():
    codes = [[0, 0, 0], [2, 1, 3]]
    release = release_of(pmw.Support.from_table(table(codes)), [0.5, 0.5])
    found = pmw.evaluate(release, table(codes, True))
    assert found.typical == ()
    assert "largest error of any cell 0 %" in page_of(release, evaluation=found).text


def test_expected_errors_are_shown_by_attribute_when_given():
    release = runs()["auto"]
    errors = release.expected_errors(probes=2)
    page = report.render(release, errors=errors)
    assert_whole(page)
    assert_readable(page, SECTIONS)
    assert "How far off answers are expected to be" in page
    assert "How far off" not in report.render(release)
    for name, error in errors.attributes.items():
        assert name in page
        assert formats.percent(error, up=True) in page
    none = by_hand().expected_errors()
    assert "Not known: the response of" in report.render(by_hand(), errors=none)
    with pytest.raises(ValueError, match="errors must be those of the release's workload"):
        report.render(release, errors=none)
    with pytest.raises(TypeError, match=r"errors \(3\) must be ExpectedErrors"):
        report.render(release, errors=3)


def test_a_page_has_the_title_that_was_given():
    page = report.render(by_hand(), title=f"Panel {HOSTILE}")
    assert_whole(page)
    assert Page(page).text.startswith(f"Panel {HOSTILE}")
    assert Page(rendered("by hand")).text.startswith("Report of a private release")


def test_a_page_links_to_the_files_beside_it_and_to_no_others():
    files = ["release.npz", "answers.csv", "synthetic.seeded.csv"]
    links = [link["href"] for link in Page(report.render(by_hand(), files=files)).all("a")]
    assert [link for link in links if link[0] != "#"] == [
        "synthetic.seeded.csv",
        "answers.csv",
        "release.npz",
    ]
    assert all(link["href"][0] == "#" for link in Page(rendered("by hand")).all("a"))


def test_settings_that_had_no_part_in_the_run_are_left_out():
    auto = [name for name, *_ in settings_in_words(runs()["auto"].settings)]
    rounds = [name for name, *_ in settings_in_words(runs()["rounds"].settings)]
    assert {"algorithm", "select", "slack", "prior_weight"} <= set(auto)
    assert not {"rounds", "per_round", "split", "warm_up", "order", "gamma"} & set(auto)
    assert {"rounds", "per_round", "split", "replay"} <= set(rounds)
    assert not {"warm_up", "order"} & set(rounds)
    warm = {name: value for name, value, _ in settings_in_words(runs()["warm-up"].settings)}
    assert (warm["warm_up"], warm["order"]) == ("0.3", "1")


def test_what_can_be_trusted_is_what_was_measured_whole():
    measured = Measurement(np.arange(10), [125, 0, 0, 493, 0, 0, 0, 0, 0, 372], "discrete-gaussian", 4.0, 1)
    release = by_hand(measurements=[measured])
    reach = NormalDist().inv_cdf(0.975) * math.sqrt(measured.variance) / 1000
    age, *others = facts.attribute_precisions(release, facts.noisy_intervals_of(release))
    assert (age.name, age.cells) == ("age", 10)
    assert age.measured == pytest.approx(reach)
    assert age.released == pytest.approx(reach + 0.007)  # the released 50 % lie above the noisy 49.3 %
    assert all(math.isnan(other.released) for other in others)
    text = page_of(release).text
    assert f"age 10 {formats.percent(reach, up=True)} {formats.percent(reach + 0.007, up=True)}" in text
    assert "zip 60,000 not measured: rests on the public rows" in text
    assert "Not known: no marginal was fully measured" in Page(rendered("by hand")).text


def test_pairs_are_as_precise_as_their_intervals_say():
    release = runs()["auto"]
    pairs = pmw.Workload.all(release.support.domain, k=2)
    intervals = measured_intervals_of(release, 0.95, pairs)
    known = facts.noisy_intervals_of(release)
    assert [intervals.deviations[first] for first in pairs.offsets[:-1]] == pytest.approx(
        list(known.deviations.values())
    )
    assert list(known.deviations) == [tuple(row) for row in pairs.attributes.reshape(-1, 2).tolist()]
    assert "precision" in Page(rendered("auto")).ids


def test_the_pairs_that_moved_most_are_shown_with_what_was_measured_of_them():
    pair, *others = facts.changed_pairs(by_hand(), 3)
    assert (pair.names, others) == (("age", "sex"), [])  # zip has too many values for a picture
    assert pair.before[[0, 3, 9], [1, 0, 1]] == pytest.approx([0.2, 0.6, 0.2])
    assert pair.after[[0, 3, 9], [1, 0, 1]] == pytest.approx([0.125, 0.5, 0.375])
    assert pair.moved == pytest.approx(0.175)
    assert np.isnan(pair.low).all()
    assert "No measured marginal has both" in Page(rendered("by hand")).text
    shown = facts.changed_pairs(runs()["auto"], 3)
    assert len(shown) == 3
    assert (shown[0].low <= shown[0].high).all()
    names = [name for pair in shown for name in pair.names]
    assert max(map(names.count, names)) <= 2
    assert [pair.moved for pair in shown] == sorted((pair.moved for pair in shown), reverse=True)


def test_every_picture_of_an_attribute_has_its_intervals():
    release = runs()["auto"]
    for place, found in enumerate(facts.distributions(release)):
        assert np.isfinite(found.low).all()
        assert pictures.attribute(found, release.support.domain, place, "public rows").svg.count("<line") > (
            3 * len(found.codes)
        )


def test_long_labels_are_wrapped_and_not_cut():
    domain = pmw.Domain({"place": ["elsewhere in the country, or abroad", "here"]})
    found = facts.Distribution("place", 2, np.arange(2), *np.full((2, 2), 0.5), 0.0, *np.full((2, 2), np.nan))
    picture = pictures.attribute(found, domain, 0, "public rows")
    assert "elsewhere in the<" in picture.svg
    assert "country, or abroad<" in picture.svg
    assert "…" not in picture.svg


def test_one_shot_has_no_picture_of_rounds_and_says_so():
    page = Page(rendered("auto"))
    assert not {"rounds", "budget"} & set(page.ids)
    assert "everything was measured in one shot. The whole budget went into that one look." in page.text
    assert {"fit", "gaps", "weights", "attribute-0"} <= set(page.ids)
    assert {"rounds", "budget"} <= set(Page(rendered("rounds")).ids)


def test_names_and_labels_cannot_break_out_of_the_page():
    domain = hostile().support.domain
    private = pmw.Table.from_codes([[1, 0], [0, 1]], domain, private=True)
    text = report.render(hostile(), evaluation=pmw.evaluate(hostile(), private))
    page = Page(text)
    assert not page.all("script")
    assert "49" not in page.text.replace("$", " ").split()
    assert "alert('x')" in page.text
    assert text.count("</style>") == 1
    assert "\u202e" not in text
    assert "\x07" not in text
    assert "é" * 100 not in text
    assert "日本語" in page.text
    assert HOSTILE[:15] in page.text


def test_many_points_and_values_are_thinned_and_the_caption_says_so():
    text = rendered("60,000 values")
    page = Page(text)
    assert re.search(r"Of 60,000 measured cells, [\d,]+ are shown", page.text)
    assert "60,000 values, 11 shown" in page.text
    assert "all others" in page.text
    assert len(text) < 500_000


def test_a_report_is_written_whole_and_overwrites_only_when_told(tmp_path):
    path = tmp_path / "report.html"
    report.write_report(path, by_hand())
    assert path.read_text("utf-8") == rendered("by hand")
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match="overwrite=True"):
        report.write_report(path, runs()["auto"])
    assert path.read_bytes() == before
    report.write_report(path, runs()["auto"], overwrite=True)
    assert path.read_bytes() != before
    assert os.listdir(tmp_path) == ["report.html"]


def test_only_releases_and_their_evaluations_are_reported():
    with pytest.raises(TypeError, match=r"release \(3\) must be a Release"):
        report.render(3)
    with pytest.raises(TypeError, match=r"evaluation \(dict\) must be an Evaluation"):
        report.render(by_hand(), evaluation={})
    with pytest.raises(ValueError, match="must be on the domain of the release"):
        report.render(by_hand(), evaluation=evaluated("rounds"))


@pytest.mark.parametrize("name", ["jinja2", "matplotlib"])
def test_what_is_not_installed_is_named_with_its_extra(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(
        ModuleNotFoundError, match=rf"{name} must be installed .* pip install 'privmw\[app\]'"
    ):
        report.render(by_hand())


def test_importing_the_report_loads_neither_matplotlib_nor_jinja2():
    program = "import sys, privmw.report; print({'matplotlib', 'jinja2'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    assert done.stdout.strip() == "set()"


@pytest.mark.parametrize(
    ("fraction", "shown", "up"),
    [
        (0, "0 %", "0 %"),
        (1, "100 %", "100 %"),
        (0.99999, "100 %", "100 %"),
        (0.12341, "12.3 %", "12.4 %"),
        (0.3, "30 %", "30 %"),
        (-0.012, "−1.2 %", "−1.2 %"),
        (1e-12, "below 0.000001 %", "below 0.000001 %"),
        (math.nan, "unknown", "unknown"),
        (np.float64(0.07), "7 %", "7 %"),
    ],
)
def test_percentages_have_three_digits_and_round_up_when_asked(fraction, shown, up):
    assert formats.percent(fraction) == shown
    assert formats.percent(fraction, up=True) == up


def test_the_template_and_the_style_are_installed_with_the_package():
    from importlib.resources import files

    report = ("base.html.j2", "picture.html.j2", "files.html.j2", "style.css", "release/release.html.j2")
    explorer = tuple(f"explorer/{name}" for name in ("explore.html.j2", "explore.css", "explore.js"))
    fits = ("postprocess/report/fit.html.j2", "unbiased/report/unbiased.html.j2")
    for package, names in (("privmw.report", report), ("privmw.extensions", explorer + fits)):
        for name in names:
            assert (files(package) / name).is_file()
