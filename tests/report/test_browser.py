"""The report as a reader sees it: in headless Chromium, on a phone, on a desk and on paper."""

import base64
import re
from functools import cache

import pytest

from marks.slow import slow, slow_among
from report.cases import evaluated, fits, hostile, runs, unusual

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")
report = pytest.importorskip("privmw.report")
fit = pytest.importorskip("privmw.extensions.postprocess.report")

SIZES = {"phone": (360, 740), "desk": (1280, 900)}

OVERFLOW = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
# The least contrast of any text with what is behind it: (L1 + 0.05) / (L2 + 0.05), as WCAG defines it.
LEAST_CONTRAST = """
const channel = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
const light = c => 0.2126 * channel(c[0]) + 0.7152 * channel(c[1]) + 0.0722 * channel(c[2]);
const parse = text => text.match(/[\\d.]+/g).map(Number);
const behind = element => {
    for (; element; element = element.parentElement) {
        const colour = parse(getComputedStyle(element).backgroundColor);
        if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
};
let least = [99, ""];
const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (walker.nextNode()) {
    const element = walker.currentNode.parentElement, words = walker.currentNode.data.trim();
    if (!words || ["title", "desc", "STYLE"].includes(element.tagName)) continue;
    const style = getComputedStyle(element), svg = element.closest("svg");
    const pair = [light(parse(svg ? style.fill : style.color)), light(behind(svg || element))];
    const ratio = (Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05);
    if (ratio < least[0]) least = [ratio, words];
}
return least;
"""


PAGES = {
    "rounds": lambda: report.render(runs()["rounds"]),
    "one shot": lambda: report.render(runs()["auto"]),
    "evaluated": lambda: report.render(runs()["rounds"], evaluation=evaluated("rounds")),
    "hostile": lambda: report.render(hostile()),
    "60,000 values": lambda: report.render(unusual()["60,000 values"]),
    "fit": lambda: fit.render_fit(fits()["sequential"], for_release=False),
    "hostile fit": lambda: fit.render_fit(fits()["hostile"]),
    "fit of 60,000": lambda: fit.render_fit(fits()["60,000 values"]),
}


@cache
def page(name):
    return PAGES[name]()


def open_page(browser, name, size="desk", *, dark=False):
    width, height = SIZES[size]
    path = browser.folder / "report.html"
    path.write_text(page(name), "utf-8")
    metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": size == "phone"}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": theme})
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path.as_uri())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(
    "name", slow_among(PAGES, ["evaluated", "60,000 values", "hostile fit", "fit of 60,000"])
)
def test_a_page_fits_its_screen_and_shows_every_picture(browser, name, size):
    open_page(browser, name, size)
    width = SIZES[size][0]
    assert browser.execute_script("return window.innerWidth") == width
    assert browser.execute_script(OVERFLOW) <= 0
    pictures = browser.execute_script("""return [...document.querySelectorAll("svg")].map(svg => {
        const box = svg.getBoundingClientRect(), wide = svg.viewBox.baseVal.width;
        const size = text => parseFloat(getComputedStyle(text).fontSize);
        const names = svg.getAttribute("aria-labelledby").split(" ");
        const letters = [...svg.querySelectorAll("text")].map(text => text.getBoundingClientRect());
        return {
            left: box.left, right: box.right, width: box.width, height: box.height,
            alt: names.map(name => document.getElementById(name).textContent),
            letters: Math.min(...[...svg.querySelectorAll("text")].map(size)) * box.width / wide,
            inside: letters.every(text => text.left >= box.left - 2 && text.right <= box.right + 2),
            visible: svg.checkVisibility(),
        };
    })""")
    assert len(pictures) >= (2 if "fit" in name else 4)
    for picture in pictures:
        assert picture["visible"]
        assert picture["width"] > 200
        assert picture["height"] > 60
        assert picture["left"] >= 0
        assert picture["right"] <= width
        assert picture["letters"] >= 9
        assert picture["inside"], picture["alt"]
        title, description = picture["alt"]
        assert title
        assert re.search(r"\d", description)


@pytest.mark.parametrize("size", SIZES)
def test_the_statement_is_the_first_section_and_on_the_first_screen(browser, size):
    open_page(browser, "rounds", size)
    first = browser.execute_script("return document.querySelector('main').firstElementChild.id")
    assert first == "privacy"
    banner, heading = browser.execute_script(
        "return ['.banner', '#privacy-heading']"
        ".map(found => document.querySelector(found).getBoundingClientRect().top)"
    )
    assert 0 < banner < heading < SIZES[size][1]


@pytest.mark.parametrize("name", ["rounds", "hostile", *slow("evaluated", "hostile fit")])
def test_nothing_is_fetched_and_nothing_fails(browser, name):
    open_page(browser, name)
    assert browser.execute_script("return performance.getEntriesByType('resource').length") == 0
    assert browser.get_log("browser") == []
    asked = [entry["message"] for entry in browser.get_log("performance")]
    urls = [url for message in asked for url in re.findall(r'requestWillBeSent".*?"url":"([^"]*)', message)]
    assert all(url.startswith("file:") for url in urls)
    assert browser.execute_script("return document.scripts.length") == 0
    sections = 5 if "fit" in name else 6
    assert browser.execute_script("return document.querySelectorAll('main > section').length") == sections


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("name", ["one shot", "fit", *slow("evaluated")])
def test_every_word_stands_out_from_its_background(browser, name, dark):
    open_page(browser, name, dark=dark)
    ratio, words = browser.execute_script(LEAST_CONTRAST)
    assert 4.5 <= ratio < 22, words


def test_a_dark_page_has_dark_pictures_too_and_paper_is_always_white(browser):
    open_page(browser, "rounds", dark=True)
    colours = """
    const styles = name => [...document.querySelectorAll(`${name} *`)].map(e => getComputedStyle(e));
    return [getComputedStyle(document.body).backgroundColor,
        ...["#fit", "#attribute-0", "#pair-0"].map(name => styles(name).flatMap(s => [s.fill, s.stroke]))]
    """
    paper, *pictures = browser.execute_script(colours)
    assert paper == "rgb(17, 23, 28)"
    light = {"rgb(0, 114, 178)", "rgb(194, 78, 0)", "rgb(255, 255, 255)", "rgb(26, 26, 26)"}
    for found in pictures:
        assert not light & set(found)
        assert "rgb(90, 174, 227)" in found
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    assert browser.execute_script(colours)[0] == "rgb(255, 255, 255)"
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


@pytest.mark.parametrize("size", SIZES)
def test_the_contents_follow_and_mark_where_the_reader_is(browser, size):
    open_page(browser, "rounds", size)
    here = """const nav = document.querySelector("nav"), box = nav.getBoundingClientRect();
    const ink = element => getComputedStyle(element).color;
    const marked = [...nav.querySelectorAll("a")].filter(a => ink(a) === ink(document.body));
    return [box.top >= 0 && box.top < innerHeight, marked.map(a => a.getAttribute("href"))]"""
    for name in ("privacy", "trust", "pictures"):
        browser.execute_async_script(
            """document.getElementById(arguments[0]).scrollIntoView();
            scrollBy(0, 0.3 * innerHeight);
            requestAnimationFrame(() => requestAnimationFrame(arguments[1]))""",
            name,
        )
        assert browser.execute_script(here) == [True, [f"#{name}"]]


@pytest.mark.parametrize("name", ["fit", *slow("evaluated", "hostile fit")])
def test_tables_too_wide_for_a_phone_scroll_by_keyboard(browser, name):
    open_page(browser, name, "phone")
    wide = browser.execute_script("""return [...document.querySelectorAll(".table")]
        .filter(box => box.scrollWidth > box.clientWidth)
        .map(box => [box.tabIndex, box.getAttribute("role"), box.getAttribute("aria-label")])""")
    for tab, role, label in wide:
        assert (tab, role) == (0, "region")
        assert label


@pytest.mark.parametrize("name", ["rounds", "fit", *slow("evaluated")])
def test_it_prints(browser, name):
    open_page(browser, name)
    printed = browser.execute_cdp_cmd("Page.printToPDF", {"preferCSSPageSize": True, "printBackground": True})
    pdf = base64.b64decode(printed["data"])
    assert pdf.startswith(b"%PDF")
    assert 3 <= len(re.findall(rb"/Type\s*/Page\b", pdf)) <= 12


def test_the_checks_would_notice_a_page_too_wide_or_too_pale(browser):
    open_page(browser, "one shot", "phone")
    browser.execute_script("document.querySelector('.lead').style.color = '#999'")
    assert browser.execute_script(LEAST_CONTRAST)[0] < 4.5
    browser.execute_script("document.querySelector('.lead').style.width = '500px'")
    assert browser.execute_script(OVERFLOW) > 0
