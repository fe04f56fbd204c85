"""What a notebook shows: panels of every kind of object, and the picture of a marginal."""

import re
import subprocess
import sys
from functools import cache
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest

import privmw as pmw
from privmw.extensions.population import draw_population

for library in ("jinja2", "matplotlib"):
    pytest.importorskip(library)

from privmw.report.notebook.panel import panel_of  # noqa: E402


@cache
def run(seeded=True):
    public = draw_population(2_000, attributes=5, seed=1)
    private = draw_population(10_000, attributes=5, shift=1.0, seed=2, private=True)
    support, workload = pmw.Support.from_table(public), pmw.Workload.all(public.domain, k=[1, 2])
    mechanism = pmw.PEP(rounds=3, warm_up=0.5, order=1).calibrate(1.0, 1e-9)
    release = mechanism(private, support, workload, rng=0 if seeded else None)
    return public.domain, support, workload, mechanism, mechanism.plan(support, workload, n=10_000), release


def shown():
    *objects, release = run()
    return [*objects, release.ledger, release]


class Parser(HTMLParser):
    """Collects the text and the ids of a fragment, and counts open tags."""

    def __init__(self):
        super().__init__()
        self.ids, self.words, self.open, self.used = [], [], [], []

    def handle_starttag(self, tag, attrs):
        for key, value in attrs:
            self.ids += [value] if key == "id" else []
            self.used += re.findall(r"url\(#([^)]+)\)", value or "") + (
                [value[1:]] if key == "href" else (value.split() if key == "aria-labelledby" else [])
            )
        self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_startendtag(self, tag, attrs):
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)


def parsed(html):
    parser = Parser()
    parser.feed(html)
    assert parser.open == []
    return parser


@pytest.mark.parametrize("place", range(7))
def test_every_kind_has_a_small_panel_that_fetches_nothing(place):
    one = shown()[place]
    html = one._repr_html_()
    parser = parsed(html)
    assert len(html) < 60_000
    assert set(parser.used) <= set(parser.ids)
    assert not re.search(r"<script|https?://(?!www\.w3\.org)", html)
    assert html == one._repr_html_()


def test_panels_say_the_figures_of_their_objects():
    domain, support, workload, _, plan, release = run()
    said = {type(one).__name__: " ".join(parsed(one._repr_html_()).words) for one in shown()}
    assert "5 attributes" in said["Domain"]
    assert f"{domain.size:,}" in said["Domain"]
    assert f"{support.size:,} distinct rows" in said["Support"]
    assert "2,000" in said["Support"]
    assert f"{workload.cells:,}" in said["Workload"]
    assert "exponential mechanism" in said["Mechanism"]
    assert "epsilon = 1 at delta = 1e-09" in said["Mechanism"]
    assert f"{plan.cells:,}" in said["Plan"]
    assert "Seeded: not for release" in said["Ledger"]
    assert "Seeded: not for release" in said["Release"]
    assert "1 at delta 1e-9" in said["Release"]
    assert "The 3 attributes that moved most, of 5" in said["Release"]
    assert "Seeded" not in run(seeded=False)[-1]._repr_html_()
    assert next(picture.title for picture in panel_of(release).pictures) in domain.names


def test_two_panels_share_no_id_unless_they_are_the_same():
    one, other = (parsed(run(seeded)[-1]._repr_html_()).ids for seeded in (True, False))
    assert one
    assert not set(one) & set(other)


def test_names_and_labels_are_escaped():
    domain = pmw.Domain({"<script>alert(1)</script>": ["<b>", "&amp;"]})
    html = domain._repr_html_()
    assert "<script>" not in html
    assert "&lt;b&gt;" in html
    parsed(html)


def test_supports_without_public_rows_or_with_missing_columns_have_panels():
    domain = pmw.Domain({"age": 3, "sex": ["F", "M"]})
    assert "no public row" in pmw.Support.without_public(domain)._repr_html_()
    public = pmw.Table.from_codes([[1], [0]], domain.project(["sex"]), private=False)
    assert "the public rows lack" in pmw.Support.from_table(public, domain=domain)._repr_html_()


def test_a_private_table_has_no_panel():
    private = draw_population(10, attributes=3, seed=2, private=True)
    assert not hasattr(private, "_repr_html_")
    with pytest.raises(TypeError, match="must be an object that has a panel"):
        panel_of(private)


def test_without_the_packages_a_notebook_shows_the_repr():
    program = """
import sys
sys.modules["matplotlib"] = None
import privmw
print(privmw.Domain({"sex": 2})._repr_html_())
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout == "None\n"


def test_the_picture_of_a_marginal_shows_public_released_and_interval(tmp_path):
    _, support, _, _, _, release = run()
    picture = release.plot_marginal("region")
    assert picture.title == "region"
    marginal = pmw.Workload(support.domain, [("region",)])
    cell = int(release.answers(marginal).argmax())
    assert f"{100 * support.answers(marginal)[cell]:.3g} % of the public rows" in picture.alt
    assert f"{100 * release.answers(marginal)[cell]:.3g} % released" in picture.alt
    assert ">interval<" in picture.svg
    assert "Intervals of 95 % for the answers" in picture.caption
    apart = release.plot_marginal("sex", "region")
    assert ">interval<" not in apart.svg
    assert "were not measured together" in apart.caption
    picture.write(tmp_path / "marginal.svg")
    root = ElementTree.parse(tmp_path / "marginal.svg").getroot()
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    with pytest.raises(FileExistsError):
        picture.write(tmp_path / "marginal.svg")
    parsed(picture._repr_html_())


def test_a_large_marginal_shows_its_largest_cells_and_the_rest_together():
    release = run()[-1]
    picture = release.plot_marginal("age", "region", "sex")
    cells = pmw.Workload(release.support.domain, [("age", "region", "sex")]).cells
    assert picture.svg.count("<text") >= 24
    assert f"The largest of {cells} cells; the {cells - 24} others have" in picture.caption


def test_a_release_without_intervals_or_public_rows_has_a_picture_and_says_why():
    private = draw_population(1_000, attributes=3, seed=2, private=True)
    workload = pmw.Workload.all(private.domain, k=2)
    release = pmw.RAP(select="all", steps=5).release(private, None, workload, epsilon=1.0, rng=0)
    picture = release.plot_marginal("age")
    assert "for the truth, by what was measured alone" in picture.caption
    assert "public" not in picture.alt
    assert np.isclose(release.marginal("age", level=None, kind="pyarrow")["answer"].to_numpy().sum(), 1)


def test_a_release_writes_its_report_and_explorer_and_loads(tmp_path):
    release = run()[-1]
    release.report(tmp_path / "report.html")
    release.explore(tmp_path / "explore.html")
    from privmw.report import render

    assert (tmp_path / "report.html").read_text("utf-8") == render(release)
    assert "<html" in (tmp_path / "explore.html").read_text("utf-8")
    with pytest.raises(FileExistsError):
        release.report(tmp_path / "report.html")
    release.report(tmp_path / "report.html", overwrite=True)
    release.save(tmp_path / "x.release")
    assert pmw.Release.load(tmp_path / "x.release") == release
