"""The explorer in headless Chromium: it answers as the release does, by mouse, by keyboard, on a phone."""

import csv
import io
import json
import shlex
from statistics import NormalDist

import numpy as np
import pytest

import privmw as pmw
from privmw.cli import main
from privmw.extensions import explorer
from privmw.release.errors import measured_intervals_of
from report.cases import hostile, runs
from report.test_browser import LEAST_CONTRAST, OVERFLOW

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

CHOOSE = """
const [names, order] = arguments;
[1, 2, 3].forEach((k, i) => { document.getElementById(`column-${k}`).value = names[i] ?? ""; });
document.getElementById("order").value = order;
document.getElementById("order").dispatchEvent(new Event("change"));
"""
CELLS = "return window.explorer.cells().map(c => [c.values, c.released, c.published, c.interval])"


def opened(browser, release, *, width=1280, dark=False, **options):
    path = browser.folder / "explore.html"
    path.write_text(explorer.render_explorer(release, **options), "utf-8")
    metrics = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)
    theme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "", "features": theme})
    browser.get_log("browser")
    browser.get_log("performance")
    browser.get(path.as_uri())
    browser.execute_async_script("""const done = arguments[0], wait = () =>
        document.documentElement.dataset.ready ? done() : setTimeout(wait, 5); wait()""")


def choose(browser, places, order="listed"):
    browser.execute_script(CHOOSE, [str(place) for place in places], order)
    return browser.execute_script(CELLS)


def add_condition(browser, place, values):
    """Add a condition by the form, and keep these values."""
    browser.execute_script("document.getElementById('condition-on').value = arguments[0]", str(place))
    browser.find_element("id", "add-condition").click()
    boxes = browser.find_elements("css selector", "#conditions > fieldset")[-1]
    for value, box in enumerate(boxes.find_elements("css selector", "input")):
        if value not in values:
            box.click()


def test_the_page_answers_as_the_release_does_and_passes_its_query_on(browser, tmp_path, monkeypatch, capsys):
    release = runs()["auto"]
    domain, start = release.support.domain, release.support.start()
    (tmp_path / "out").mkdir()
    release.save(tmp_path / "out" / "release.npz")
    opened(browser, release)
    for places in ([0], [3, 0], [2, 1, 4]):
        names = [domain.names[place] for place in places]
        for values, released, public, _ in choose(browser, places):
            assert released == release.answer(names, values)
            rows = release.support.matching_rows(names, values)
            assert public == np.rint(start[rows] * 2.0**60).astype(np.int64).sum() / 2.0**60
    # One condition of several values, one of a single value, one on a column that is shown.
    conditions = {2: [0, 2], 4: [1], 0: [0, 1]}
    choose(browser, [0, 1])
    for place, values in conditions.items():
        add_condition(browser, place, values)
    cells = browser.execute_script(CELLS)
    names = [domain.names[place] for place in (0, 1, 2, 4)]
    assert [values for values, *_ in cells] == [[a, b] for a in conditions[0] for b in range(domain.sizes[1])]
    for values, released, *_ in cells:
        summed = sum(release.answer(names, [*values, c, d]) for c in conditions[2] for d in conditions[4])
        assert released == pytest.approx(summed, abs=1e-15)
    rows = list(csv.reader(io.StringIO(browser.execute_script("return window.explorer.csv()"))))
    assert rows[0][:3] == [domain.names[0], domain.names[1], "released"]
    assert [float(row[2]) for row in rows[1:]] == [released for _, released, *_ in cells]
    monkeypatch.chdir(tmp_path)
    program = browser.execute_script("return document.getElementById('as-python').value")
    found = {}
    exec(program, found)
    assert list(found["answers"].values()) == pytest.approx([released for _, released, *_ in cells])
    assert [list(cell) for cell in found["answers"]] == [values for values, *_ in cells]
    command = browser.execute_script("return document.getElementById('as-command').value")
    words = shlex.split(command.replace("\\\n", " "), comments=True)
    assert words[:3] == ["privmw", "answer", "out"]
    assert main([*words[1:], "--json"]) == 0
    answers = [answer["fraction"] for answer in json.loads(capsys.readouterr().out)["answers"]]
    assert answers[0] + answers[1] == pytest.approx(cells[0][1])
    ordered = choose(browser, [0, 1], "released")
    assert [cell[1] for cell in ordered] == sorted((cell[1] for cell in cells), reverse=True)


def test_intervals_are_shown_where_they_are_known_and_nowhere_else(browser):
    release = runs()["auto"]
    domain = release.support.domain
    opened(browser, release)
    known = measured_intervals_of(release, 0.95, pmw.Workload(domain, [domain.names[:3:2]]))
    for place, (_, _, _, interval) in enumerate(choose(browser, [0, 2])):
        assert interval == pytest.approx([known.low[place], known.high[place]], abs=1e-6)
    assert "each holds the true share 95 times in 100" in browser.find_element("id", "precision").text
    assert len(browser.find_elements("css selector", "#picture .interval")) == len(known.low)
    choose(browser, [0])
    add_condition(browser, 2, [0, 1])
    shown = [cell[3] for cell in browser.execute_script(CELLS)]
    noisy, variances = (
        part.reshape(domain.sizes[:3:2])[:, :2].sum(axis=1) for part in (known.noisy, known.deviations**2)
    )
    reach = NormalDist().inv_cdf(0.975) * np.sqrt(variances)
    ends = np.stack([np.clip(noisy, 0, 1) - reach, np.clip(noisy, 0, 1) + reach], axis=1)
    assert np.array(shown) == pytest.approx(np.clip(ends, 0, 1), abs=1e-6)
    opened(browser, release, intervals=release.intervals(0.9, workload=known.workload, refits=10))
    single = [cell[3] for cell in choose(browser, [0, 2])]
    choose(browser, [0])
    add_condition(browser, 2, [0, 1])
    added = np.array(single).reshape(*domain.sizes[:3:2], 2)[:, :2].sum(axis=1)
    shown = [cell[3] for cell in browser.execute_script(CELLS)]
    assert np.array(shown) == pytest.approx(np.minimum(added, 1), abs=1e-6)
    assert "wider than need be" in browser.find_element("id", "precision").text
    opened(browser, release)
    assert all(cell[3] is None for cell in choose(browser, [0, 1, 2]))
    assert "No interval is stated" in browser.find_element("id", "precision").text
    widths = [high - low for *_, (low, high) in choose(browser, [0])]
    opened(browser, release, rows=20)
    assert "a sample of 10 synthetic records" in browser.find_element("css selector", ".lead").text
    for (*_, (low, high)), width in zip(choose(browser, [0]), widths, strict=True):
        assert high - low > width + 0.1 or (low, high) == (0, 1)  # a sample of ten adds that much


def test_it_is_used_by_keyboard_and_read_out(browser):
    from selenium.webdriver.common.action_chains import ActionChains
    from selenium.webdriver.common.keys import Keys

    opened(browser, runs()["auto"])
    domain = runs()["auto"].support.domain
    first = browser.find_element("id", "status").text
    press = lambda *keys: ActionChains(browser).send_keys(*keys).perform()  # noqa: E731
    press(Keys.TAB, Keys.TAB)  # past the link that skips to the form
    assert browser.switch_to.active_element.get_attribute("id") == "column-1"
    press(Keys.ARROW_DOWN)
    heading = browser.find_element("id", "result-heading").text
    assert heading == domain.names[1]
    assert browser.find_element("id", "status").text != first
    press(Keys.TAB, Keys.TAB, Keys.TAB, Keys.TAB, Keys.ENTER)  # to the button of conditions
    focused = browser.switch_to.active_element
    assert focused.get_attribute("type") == "checkbox"
    press(Keys.SPACE)
    assert "where" in browser.find_element("id", "result-heading").text
    assert "The conditions hold for" in browser.find_element("id", "status").text
    unnamed = browser.execute_script("""const fields = "select, input, button, textarea";
        return [...document.querySelectorAll(fields)]
        .filter(e => !e.labels?.length && !e.ariaLabel && !e.textContent.trim()).map(e => e.outerHTML)""")
    assert unnamed == []
    live = browser.find_elements("css selector", "[aria-live=polite]")
    assert "status" in [element.get_attribute("id") for element in live]
    headers = browser.find_elements("css selector", "#answer thead th")
    assert all(header.get_attribute("scope") == "col" for header in headers)
    assert len(browser.find_elements("css selector", "#answer caption")) == 1
    assert (
        browser.execute_script("return document.querySelector('#picture svg').getAttribute('role')") == "img"
    )


@pytest.mark.parametrize(("width", "dark"), [(360, True), (1280, False)])
def test_names_of_any_kind_fit_the_screen_and_nothing_is_fetched(browser, width, dark):
    opened(browser, hostile(), width=width, dark=dark)
    choose(browser, [0, 1])
    add_condition(browser, 1, [0, 1])
    assert browser.execute_script(OVERFLOW) <= 0
    ratio, words = browser.execute_script(LEAST_CONTRAST)
    assert ratio >= 4.5, words
    assert browser.get_log("browser") == []
    asked = [json.loads(entry["message"])["message"] for entry in browser.get_log("performance")]
    urls = [
        sent["params"]["request"]["url"] for sent in asked if sent["method"] == "Network.requestWillBeSent"
    ]
    assert all(url.startswith(("file:", "blob:")) for url in urls)
    paper = browser.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (paper == "rgb(255, 255, 255)") != dark
    assert "\u202e" not in browser.find_element("tag name", "body").text
