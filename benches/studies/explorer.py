"""The explorer in a real browser: the size of its file, the time of a change, whether its answers are right.

    python benches/study.py explorer                   # the demo, and 100,000 rows x 67 columns
    python benches/study.py explorer --only demo       # one of them
    python benches/study.py explorer --keep FOLDER     # leave the pages there

Needs chromium, chromedriver and selenium. A change is what one click does: counting all rows anew, the words,
the picture, the table, both queries, and the layout and paint that follow. Every shown cell is compared with
`Release.answer`, bit by bit.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import shapes
from selenium import webdriver
from selenium.webdriver.chrome.service import Service

import privmw as pmw
from privmw.extensions import explorer
from privmw.extensions.population import draw_population

ASKED = [(1, 0), (2, 0), (3, 0), (1, 1), (2, 2), (3, 4)]  # columns, conditions
REPEATED = 5
CHANGE = """
const [columns, conditions, done] = arguments, byId = name => document.getElementById(name);
for (const button of document.querySelectorAll("[aria-label^='Remove']")) button.click();
for (const place of conditions) {
    byId("condition-on").value = place;
    byId("add-condition").click();
    const box = byId("conditions").lastElementChild.querySelector("input");
    box.click();
}
[1, 2, 3].forEach((k, i) => { byId(`column-${k}`).value = columns[i] ?? ""; });
const began = performance.now();
byId("order").dispatchEvent(new Event("change"));
const counted = performance.now() - began;
requestAnimationFrame(() => setTimeout(() => done({
    counted, painted: performance.now() - began,
    cells: window.explorer.cells().map(cell => [cell.values, cell.released]),
})));
"""


def demo() -> pmw.Release:
    """As `privmw demo` makes it."""
    public = draw_population(20_000, attributes=14, seed=2015)
    private = draw_population(20_000, attributes=14, shift=1.0, seed=2018, private=True)
    workload = pmw.Workload.all(public.domain, k=3)
    return pmw.release_auto(
        private, pmw.Support.from_table(public), workload, epsilon=1.0, delta=2.5e-9, rng=1
    )


def survey() -> pmw.Release:
    """100,000 distinct rows of a survey's shape, re-weighted to all pairs of a like table."""
    table = shapes.acs67(130_000)
    support = pmw.Support.from_table(table)
    codes = np.stack(table.columns, axis=1)
    rows = support.rows[:100_000]
    support = pmw.Support.from_table(pmw.Table.from_codes(rows, table.domain, private=False))
    private = pmw.Table.from_codes(codes[codes[:, 0] < 5], table.domain, private=True)
    workload = pmw.Workload.all(table.domain, k=2)
    return pmw.PEP(select="all").release(
        private, support, workload, epsilon=1.0, delta=1e-9, rng=1, public_is_public=True
    )


def open_browser() -> Any:
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or shutil.which("chromium-browser") or ""
    for argument in ("headless=new", "no-sandbox", "disable-dev-shm-usage", "disable-gpu"):
        options.add_argument(f"--{argument}")
    return webdriver.Chrome(options=options, service=Service(executable_path=shutil.which("chromedriver")))


def study(name: str, release: pmw.Release, browser: Any, folder: Path) -> None:
    path = folder / f"{name}.html"
    explorer.write_explorer(path, release, title=name, overwrite=True)
    browser.get(path.as_uri())
    browser.execute_async_script("""const done = arguments[0], wait = () =>
        document.documentElement.dataset.ready ? done() : setTimeout(wait, 5); wait()""")
    opened = browser.execute_script("return performance.now()")
    domain = release.support.domain
    shape, size = f"{release.support.size:,} rows x {len(domain)} columns", path.stat().st_size / 1e6
    print(f"{name}: {shape}, {size:.2f} MB, ready after {opened:.0f} ms")
    print(
        f"{'columns':>8} {'conditions':>10} {'cells':>7} {'counted, ms':>12} {'painted, ms':>12} {'equal':>6}"
    )
    rng, worst = np.random.default_rng(0), 0.0
    for columns, conditions in ASKED:
        times, equal, shown = [], 0, 0
        for _ in range(REPEATED):
            chosen = rng.choice(
                [a for a, size in enumerate(domain.sizes) if 1 < size < 20], columns + conditions, False
            )
            by, given = chosen[:columns].tolist(), chosen[columns:].tolist()
            found = browser.execute_async_script(CHANGE, [str(a) for a in by], [str(a) for a in given])
            times.append((found["counted"], found["painted"]))
            # Each condition leaves out its first value.
            kept = (release.support.rows[:, given] != 0).all(axis=1)
            masses = np.rint(release.weights * 2.0**60).astype(np.int64) * kept
            for values, answer in found["cells"]:
                if given:
                    matching = release.support.matching_rows([domain.names[a] for a in by], values)
                    expected = int(masses[matching].sum()) / 2.0**60
                else:
                    expected = release.answer([domain.names[a] for a in by], values)
                equal += answer == expected
                shown += 1
        counted, painted = np.max(times, axis=0)
        worst = max(worst, painted)
        same = "all" if equal == shown else f"{equal}/{shown}"
        print(f"{columns:8} {conditions:10} {shown // REPEATED:7,} {counted:12.0f} {painted:12.0f} {same:>6}")
    print(f"the longest change of {len(ASKED) * REPEATED}: {worst:.0f} ms\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=("demo", "survey"))
    parser.add_argument("--keep", type=Path, help="a folder for the pages")
    options = parser.parse_args()
    browser = open_browser()
    try:
        with tempfile.TemporaryDirectory() as temporary:
            for make in (demo, survey):
                if options.only in (None, make.__name__):
                    study(make.__name__, make(), browser, options.keep or Path(temporary))
    finally:
        browser.quit()


if __name__ == "__main__":
    main()
