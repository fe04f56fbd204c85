"""The report of unbiased answers: whole, readable, the same bytes each time, with the right figures."""

import pytest

import privmw as pmw
from privmw import strategies
from privmw.extensions.unbiased import report
from report.html_page import Page, assert_readable, assert_whole

for library in ("jinja2", "matplotlib"):
    pytest.importorskip(library, reason="reports need privmw[app]")

DOMAIN = pmw.Domain({"age": 15, "<b>sex</b>": ["F & G", "M"], "one": 1})


def answers(seed=1, strategy=None):
    codes = [[value % 15, value % 2, 0] for value in range(3000)]
    private = pmw.Table.from_codes(codes, DOMAIN, private=True)
    marginals = [("age", "<b>sex</b>"), ("one",)]
    chosen = strategy or strategies.residual()
    return pmw.measure_marginals(private, marginals, epsilon=1, delta=1e-9, strategy=chosen, rng=seed)


def test_the_page_is_whole_can_be_read_out_and_is_the_same_each_time():
    release = answers()
    page = report.render_unbiased(release)
    assert_whole(page)
    assert_readable(page, ["promise", "errors-of-answers", "pictures", "use"])
    figures = [attributes["id"] for attributes in Page(page).all("figure")]
    assert figures == ["errors", "attribute-0", "attribute-1"]
    assert report.render_unbiased(release) == page
    words = " ".join(Page(page).words)
    assert "NOT FOR RELEASE" in words
    assert "3,000" in words
    assert "The 12 commonest of 15 values." in words
    assert "NOT FOR RELEASE" not in " ".join(Page(report.render_unbiased(answers(seed=None))).words)
    assert "<b>sex" not in page


def test_only_unbiased_answers_are_reported_as_such(tmp_path):
    with pytest.raises(TypeError, match="must be UnbiasedAnswers"):
        report.render_unbiased("answers")
    report.write_unbiased_report(tmp_path / "report.html", answers(strategy=strategies.equal()))
    with pytest.raises(FileExistsError):
        report.write_unbiased_report(tmp_path / "report.html", answers())
