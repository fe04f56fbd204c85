"""Pictures of docs/reproduce.md and benches/journal are drawn from committed figures, as is said there."""

import math
import re
from pathlib import Path

import pytest
from studies import figures

ROOT = Path(__file__).parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "benches" / "README.md",
    *sorted((ROOT / "benches" / "journal").glob("*.md")),
    *sorted((ROOT / "docs").glob("*.md")),
]


def test_every_study_and_figure_that_a_page_names_exists():
    studies = {path.stem for path in (ROOT / "benches" / "studies").glob("*.py")}
    named, drawn = set(), set()
    for page in PAGES:
        text = page.read_text("utf-8")
        named |= set(re.findall(r"study\.py (\w+)", text))
        drawn |= set(re.findall(r"[` ]figures (\w+) (?:R`|-o|results)|`figures (\w+)`", text))
    assert "family" in named
    assert named <= studies
    assert {a or b for a, b in drawn} <= set(figures.FIGURES)
    assert ("adult", "") in drawn


def test_every_picture_that_a_page_shows_exists():
    for page in PAGES:
        for name in re.findall(r"!\[[^]]*\]\(([^)]+)\)", page.read_text("utf-8")):
            assert (page.parent / name).is_file(), f"{page.name}: {name}"


def test_the_committed_means_have_the_sets_and_methods_of_the_pictures():
    found = figures.figures(None)
    assert {*figures.AUTHORS} <= {each.set for each in found}
    assert all(0 < each.largest < 1 and each.seconds > 0 and each.seeds > 0 for each in found)
    assert all(figures.colour(each.method) for each in found)


def test_the_tables_of_the_journal_are_read_as_numbers():
    rows = [row for row in figures.table_rows("2026-11-accuracy", "| method | T | eps") if row]
    assert rows[0][:2] == ["the authors' code, best T", ""]
    assert [figures.number(cell) for cell in rows[0][2:]] == [0.0331, 0.0277, 0.0214, 0.0137]
    assert math.isnan(figures.number(""))
    assert figures.number("1,024 rows") == 1024


@pytest.mark.parametrize(
    "name", ["adult", pytest.param("growth", marks=pytest.mark.slow), "accuracy", "cost", "speed"]
)
def test_a_picture_is_drawn_with_its_own_colours_in_light_and_dark(name, tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    picture = tmp_path / f"{name}.svg"
    with plt.rc_context(figures.STYLE):
        figures.save(figures.FIGURES[name](plt, None), str(picture))
        plt.close("all")
    text = picture.read_text("utf-8")
    assert "prefers-color-scheme: dark" in text
    assert figures.LIGHT["background"] in text
    assert re.search(r">\s*0\.\d\d+\s*</text>|>\s*(?:50|200)\s*</text>", text), "ticks are text, in full"
    assert picture.stat().st_size < 120_000


def test_results_without_a_set_of_the_figure_are_refused(tmp_path):
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    (tmp_path / "none.csv").write_text("set,method,epsilon,largest,error,l1,seconds,seeds\n")
    with pytest.raises(SystemExit, match="five methods"):
        figures.adult(plt, str(tmp_path / "none.csv"))
