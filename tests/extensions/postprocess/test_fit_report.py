"""The report of a fit: its numbers are the fit's, and its page is as fit to be read as a release's."""

import math
import os
import sys
from functools import cache

import numpy as np
import pytest

import privmw as pmw
from marks.slow import slow_among
from privmw.extensions.postprocess import NoisyMarginal, NoisyMarginals, nnls, ols, report, reweight
from privmw.extensions.postprocess.report import facts
from report.cases import fits
from report.html_page import Page, assert_readable, assert_whole

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

DOMAIN = pmw.Domain({"age": 3, "sex": ["F", "M"]})
SEX = NoisyMarginal(("sex",), [40.0, -10.0], "gaussian", 5.0)
TOTAL = NoisyMarginal((), [34.0], "gaussian", 5.0)


@cache
def rendered(name):
    return report.render_fit(fits()[name])


def by_hand(method=nnls, rows=None):
    support = (
        None if rows is None else pmw.Support.from_table(pmw.Table.from_codes(rows, DOMAIN, private=False))
    )
    return method(NoisyMarginals([SEX, TOTAL], DOMAIN), support)


@pytest.mark.parametrize("name", slow_among(fits(), ["ols", "max_fit", "reweight", "a total"]))
def test_every_page_of_a_fit_is_whole_and_can_be_read_out(name):
    assert_whole(rendered(name))
    assert_readable(rendered(name), ["certificate", "agreement", "cost", "pictures", "use"])


def test_the_same_fit_gives_the_same_bytes():
    assert report.render_fit(fits()["nnls"]) == rendered("nnls")


def test_the_agreement_is_that_of_measured_cells():
    measured = NoisyMarginals.of_cells(
        DOMAIN,
        [("age",), ("sex",)],
        [("laplace", 2.0), ("gaussian", 3.0)],
        marginal_of=[0, 0, 1, 1],
        cells=[0, 2, 0, 1],
        noisy_counts=[10.0, 5, 12, 3],
        noise_of=[0, 0, 1, 1],
    )
    fit = nnls(measured)
    found = facts.agreement(fit)
    assert found.cells.tolist() == [0, 2, 3, 4]
    assert found.heavy_tailed == 0.5
    np.testing.assert_allclose(found.deviations, [math.sqrt(8), math.sqrt(8), 3, 3])
    np.testing.assert_allclose(found.z, -fit.residuals()[found.cells])


def test_marginals_are_told_the_worst_first():
    first, second = facts.marginal_gaps(by_hand(), most=2)
    assert (first.name, second.name) == ("sex", "total")
    assert first.noise == "Gaussian"
    assert first.largest == pytest.approx(2)
    assert first.root_mean_square == pytest.approx(math.sqrt((4 + 0.6**2) / 2))
    assert first.where.replace("\u00a0", " ") == "sex = M"
    assert second.largest == pytest.approx(0.6)
    assert second.where == "the total"
    assert len(facts.marginal_gaps(by_hand(), most=1)) == 1


def test_the_cost_is_the_distance_from_ordinary_least_squares():
    found = facts.change_from_ols(by_hand())
    free = by_hand(ols)
    assert found.total_before == pytest.approx(free.weights.sum())
    assert found.total_after == pytest.approx(37)
    np.testing.assert_allclose(
        found.changes, (by_hand().fitted_counts() - free.fitted_counts()) / 5, atol=1e-9
    )
    assert found.largest == pytest.approx(np.abs(found.changes).max())
    assert found.root_mean_square == pytest.approx(np.sqrt(np.mean(found.changes**2)))


def test_very_many_answers_are_not_compared():
    assert facts.change_from_ols(fits()["60,000 values"]) is None
    assert "were not computed" in Page(rendered("60,000 values")).text


def test_cells_that_no_row_can_reach_are_counted_and_shown():
    fit = by_hand(rows=[[0, 1], [2, 1]])
    count, cells = facts.unreached(fit, most=5)
    assert count == 1
    assert (cells[0].noisy, cells[0].missed) == (40.0, pytest.approx(8))
    text = Page(report.render_fit(fit)).text
    assert "1 measured cell has no row in the support" in text
    assert facts.unreached(by_hand(), most=5) == (0, [])
    assert "no row in the support" not in Page(report.render_fit(by_hand())).text


def test_the_page_shows_these_numbers():
    text = Page(report.render_fit(by_hand())).text
    assert (
        "6 rows, all that the domain has, weigh 37 records. They fit 3 noisy answers to 2 marginals." in text
    )
    assert "The largest gap is 2 standard deviations, at sex = M: −10 by the noisy answer, 0 fitted." in text
    assert "Other weights fit as well" in text
    assert "total by this fit 37" in text


def test_negative_weights_and_many_stages_are_told():
    assert "below 0 (together" in " ".join(facts.certificate_in_words(fits()["ols"]))
    assert "Nothing: ordinary least squares take negative weights" in Page(rendered("ols")).text
    assert "synthetic.parquet" not in rendered("ols")
    assert "x0 x x1" in rendered("sequential")
    assert "least largest gap" in rendered("max_fit")


def test_seeded_noise_is_marked_on_top():
    assert "NOT FOR RELEASE" not in rendered("nnls")
    text = report.render_fit(by_hand(reweight), for_release=False)
    assert text.index("NOT FOR RELEASE") < text.index("<main>")


def test_names_and_labels_cannot_break_out_of_a_fits_page():
    page = Page(rendered("hostile"))
    assert "</style></script><script>" in page.text
    assert not page.all("script")
    assert "\x07" not in page.text
    assert "\u202e" not in page.text


def test_a_fits_report_is_written_whole_and_overwrites_only_when_told(tmp_path):
    path = tmp_path / "report.html"
    report.write_fit_report(path, by_hand())
    assert path.read_text("utf-8") == report.render_fit(by_hand())
    with pytest.raises(FileExistsError, match="overwrite=True"):
        report.write_fit_report(path, by_hand())
    report.write_fit_report(path, by_hand(reweight), overwrite=True)
    assert os.listdir(tmp_path) == ["report.html"]


def test_only_fits_are_reported_as_fits():
    with pytest.raises(TypeError, match=r"fit \(3\) must be a Fit"):
        report.render_fit(3)


@pytest.mark.parametrize("name", ["jinja2", "matplotlib"])
def test_what_is_not_installed_is_named(monkeypatch, name):
    monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ModuleNotFoundError, match=rf"{name} must be installed to write reports"):
        report.render_fit(by_hand())
