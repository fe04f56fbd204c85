"""Pictures of the papers' figures and of long tables, with the papers' own values in them.

    python benches/study.py figures                                    # what there is
    python benches/study.py figures adult -o docs/pictures/adult.svg   # from the committed benches/family.csv
    python benches/study.py figures adult results.jsonl -o adult.svg   # from runs of your own: `family run`
    python benches/study.py figures rows -o docs/pictures/rows.svg     # measured here and now (a minute)

docs/reproduce.md says which figure of which paper is which name here. Only `rows` runs anything: the others
draw the means in benches/family.csv, which `family keep` writes, or the tables of benches/journal. Pictures
have a background of their own, light or dark as the reader's system is. Needs matplotlib.
"""

from __future__ import annotations

import argparse
import csv
import math
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

BENCHES = Path(__file__).parents[1]
EPSILONS = (0.1, 0.25, 0.5, 1.0)

# What the pictures compare with: the authors' published code on the split of `pairs.py`, at the best T of 10,
# 25, 50 and 100 by the true error, mean of two seeds; AIM's published code on the same split, one or two.
AUTHORS = {
    "ADULT, 286 three-way": {
        "authors' MW-Pub, best T": {
            0.1: 0.0132,
            0.15: 0.0136,
            0.2: 0.0135,
            0.25: 0.0134,
            0.5: 0.0119,
            1.0: 0.0082,
        },
        "AIM, no public table": {0.1: 0.0523, 0.25: 0.032, 0.5: 0.0191, 1.0: 0.017},
    },
    "ADULT, 286 three-way, women undersampled by 0.3": {
        "authors' MW-Pub, best T": {
            0.1: 0.0331,
            0.15: 0.0312,
            0.2: 0.0290,
            0.25: 0.0277,
            0.5: 0.0214,
            1.0: 0.0137,
        },
        "authors' PEP, public start": {0.1: 0.0295, 0.25: 0.0199, 1.0: 0.0158},
        "AIM, no public table": {0.1: 0.0523, 0.25: 0.032, 0.5: 0.0191, 1.0: 0.017},
    },
    # The authors' settings in numpy, best T of 25, 50 and 100, two seeds.
    "HI-18 from HI-15, 1,024 three-way": {
        "MW-Pub as its authors ran it, best T": {0.25: 0.0233, 1.0: 0.0195}
    },
}
# Largest error of the public rows themselves: `python benches/pairs.py`.
STARTS = {
    "ADULT, 286 three-way": 0.0136,
    "ADULT, 286 three-way, women undersampled by 0.3": 0.2726,
    "HI-18 from HI-15, 1,024 three-way": 0.0244,
    "HI-18 from NM-18, 1,024 three-way": 0.5828,
}
# Published, on other records: 64 three-way marginals of ADULT with 588 values (Vietri et al. 2020).
PUBLISHED_588 = {
    "FEM, published": {0.1: 0.167, 0.15: 0.134, 0.2: 0.116, 0.25: 0.104, 0.5: 0.078, 1.0: 0.074},
    "HDMM, published": {0.1: 0.369, 0.15: 0.246, 0.2: 0.185, 0.25: 0.148, 0.5: 0.074, 1.0: 0.037},
    "DualQuery, published": {0.1: 0.221, 0.2: 0.154, 0.5: 0.103},
}

MARKS = {"MW-Pub": "D", "PEP": "v", "AIM": "^", "FEM": "D", "HDMM": "v", "DualQuery": "^"}

# Colours say the algorithm and are legible on both backgrounds; a dashed line starts from no public rows.
COLOURS = {
    "release_auto": "#d1495b",
    "MW-Pub": "#3b82c4",
    "MWEM": "#d9822b",
    "PEP": "#2a9d6f",
    "GEM": "#9a6dd7",
    "RAP": "#a9745b",
    "HDMM": "#7d8590",
    "residual": "#8a8f2a",
    "DualQuery": "#d26ab0",
    "FEM": "#1f9aa8",
}
WITHOUT_PUBLIC = (
    "MWEM, full domain",
    "PEP, full domain, uniform",
    "HDMM, Gaussian",
    "residual strategy, Gaussian",
    "DualQuery",
    "FEM",
    "RAP",
    "RAP-softmax",
    "RAP-softmax, one shot",
    "GEM",
    "release_auto, no public table",
)
LIGHT = {"background": "#ffffff", "text": "#24292f", "grid": "#d8dee4"}
DARK = {"background": "#15191c", "text": "#dde3e9", "grid": "#3a4249"}

STYLE = {
    "svg.fonttype": "none",
    "svg.hashsalt": "privmw",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Helvetica", "Arial"],
    "font.size": 9,
    "axes.titlesize": 9,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "grid.color": LIGHT["grid"],
    "grid.linewidth": 0.6,
    **dict.fromkeys(
        ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color"), LIGHT["text"]
    ),
}


@dataclass(frozen=True)
class Figure:
    """Mean largest error, its standard error, and processor seconds, of one method on one set."""

    set: str
    method: str
    epsilon: float
    largest: float
    error: float
    seconds: float
    seeds: int


def figures(path: str | None) -> list[Figure]:
    """Those of a file of `family run`, or the committed ones."""
    if path is None or path.endswith(".csv"):
        with Path(path or BENCHES / "family.csv").open(newline="") as file:
            lines = list(csv.DictReader(file))
    else:
        from studies import family

        lines = [
            {"set": name, "method": method, "epsilon": epsilon, **line}
            for name, method, epsilon, line in family.summary(family.read(Path(path)))
        ]
    return [
        Figure(
            line["set"],
            line["method"],
            *(float(line[what]) for what in ("epsilon", "largest", "error", "seconds")),
            int(line["seeds"]),
        )
        for line in lines
    ]


def colour(method: str) -> str:
    """That of the algorithm whose name a method begins with."""
    return next(shade for name, shade in COLOURS.items() if method.startswith(name))


def panels(plt: Any, count: int, across: int, height: float) -> tuple[Any, list[Any]]:
    """A figure of so many panels, for one legend below."""
    down = -(-count // across)
    figure, axes = plt.subplots(down, across, figsize=(10, height * down), squeeze=False)
    for spare in axes.flat[count:]:
        spare.axis("off")
    return figure, list(axes.flat[:count])


def against_epsilon(panel: Any, title: str) -> None:
    """Both axes logarithmic, the papers' budgets marked."""
    panel.set(xscale="log", yscale="log", title=title, xlabel="epsilon")
    panel.set_xlim(0.09, 1.12)
    panel.set_xticks(EPSILONS, [f"{epsilon:g}" for epsilon in EPSILONS], minor=False)
    panel.xaxis.minorticks_off()
    low, high = panel.get_ylim()
    spread = max(1, math.sqrt(6 * low / high))  # so that a small difference looks small
    panel.set_ylim(low / spread, high * spread)
    plain(panel.yaxis)


def plain(axis: Any) -> None:
    """Numbers as one writes them, also between the powers of ten."""
    from matplotlib.ticker import LogLocator, NullFormatter, NullLocator

    axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axis.set_major_formatter(lambda value, _: f"{value:,.10g}")
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())


def legend(figure: Any, axes: Sequence[Any], columns: int = 4) -> None:
    """Every line once, below all panels."""
    found = {}
    for axis in axes:
        found |= dict(zip(*axis.get_legend_handles_labels()[::-1], strict=True))
    rows = -(-len(found) // columns)
    space = (0.19 * rows + 0.1) / figure.get_figheight()
    figure.legend(found.values(), found, loc="lower center", ncols=columns, frameon=False, fontsize=8)
    figure.tight_layout(rect=(0, space, 1, 1))


def draw_sets(plt: Any, found: list[Figure], names: Sequence[str], extra: dict[str, dict]) -> Any:
    """Largest error against epsilon, a panel a set, with what others reached and the public rows' error.

    A set on which fewer than five methods were run is left out.
    """
    names = [name for name in names if len({each.method for each in found if each.set == name}) > 4]
    if not names:
        sys.exit("results must have a set of this figure with five methods: `family run`")
    figure, axes = panels(plt, len(names), min(len(names), 3), 5)
    for axis, name in zip(axes, names, strict=True):
        for method in dict.fromkeys(each.method for each in found):
            points = [each for each in found if (each.set, each.method) == (name, method)]
            if not points:
                continue
            axis.errorbar(
                [each.epsilon for each in points],
                [each.largest for each in points],
                [0 if math.isnan(each.error) else each.error for each in points],
                color=colour(method),
                ls="--" if method in WITHOUT_PUBLIC else "-",
                lw=2.4 if method == "release_auto" else 1.2,
                marker="s" if "one shot" in method else "o",
                ms=3,
                label=method,
            )
        for label, values in extra.get(name, {}).items():
            mark = next(mark for part, mark in MARKS.items() if part in label)
            axis.plot(*zip(*values.items(), strict=True), ":", color=LIGHT["text"], marker=mark)
            axis.lines[-1].set(markersize=5, lw=1, label=label)
        if name in STARTS:
            axis.axhline(STARTS[name], color=LIGHT["text"], lw=0.8, ls=(0, (1, 3)), label="the public rows")
        against_epsilon(axis, name.replace(", women", ",\nwomen").replace(", 1,024", ",\n1,024"))
    axes[0].set_ylabel("largest error")
    legend(figure, axes)
    return figure


def adult(plt: Any, results: str | None) -> Any:
    """ADULT, 286 three-way marginals, from an unbiased and a biased public tenth."""
    return draw_sets(plt, figures(results), list(AUTHORS)[:2], AUTHORS)


def survey(plt: Any, results: str | None) -> Any:
    """The survey: 15 attributes, and 67 from a good and a poor public table."""
    names = (
        "reduced survey, 455 three-way",
        "HI-18 from HI-15, 1,024 three-way",
        "HI-18 from NM-18, 1,024 three-way",
    )
    return draw_sets(plt, figures(results), names, AUTHORS)


def marginals64(plt: Any, results: str | None) -> Any:
    """64 marginals of order 3 and 5 of ADULT and LOANS; published figures are of ADULT with 588 values."""
    names = [f"{data}, 64 {order}-way" for data in ("ADULT", "LOANS") for order in ("three", "five")]
    return draw_sets(plt, figures(results), names, {"ADULT, 64 three-way": PUBLISHED_588})


def cost(plt: Any, results: str | None) -> Any:
    """Processor seconds of a run against its largest error, at epsilon 1."""
    names = ("ADULT, 286 three-way, women undersampled by 0.3", "HI-18 from HI-15, 1,024 three-way")
    found = [each for each in figures(results) if each.epsilon == 1]
    figure, axes = panels(plt, 2, 2, 4.6)
    for axis, name in zip(axes, names, strict=True):
        here = [each for each in found if each.set == name]
        for each in here:
            bare = each.method in WITHOUT_PUBLIC
            axis.plot(each.seconds, each.largest, "o", mfc="none" if bare else colour(each.method))
            axis.lines[-1].set(color=colour(each.method), ms=6)
        axis.set(xscale="log", yscale="log", xlabel="processor seconds", title=name.replace(", w", ",\nw"))
        axis.set_xlim(right=axis.get_xlim()[1] * 6)
        plain(axis.yaxis)
        plain(axis.xaxis)
        axis.tick_params(axis="x", labelsize=7)
        label_points(axis, [(each.seconds, each.largest, each.method) for each in here])
    axes[0].set_ylabel("largest error at epsilon 1")
    figure.tight_layout()
    return figure


def label_points(axis: Any, points: Sequence[tuple[float, float, str]]) -> None:
    """Names to the right of their points, one below the other where they would overlap."""
    taken: list[tuple[float, float, float]] = []
    for x, y, name in sorted(points, key=lambda point: -point[1]):
        left, height = axis.transData.transform((x, y)) * 72 / axis.figure.dpi
        width, low = 4.2 * len(name), height - 3
        for begins, ends, other in taken:
            if begins < left + width and left < ends and abs(other - low) < 8:
                low = other - 8
        taken.append((left, left + width, low))
        axis.annotate(name, (x, y), (6, low - height), textcoords="offset points", fontsize=7)


def sweep(plt: Any, results: str | None) -> Any:
    """What changes with the size of the workload, and with the share of the public table that is used."""
    found = figures(results)
    sizes = {
        "64 marginals of HI-18": 64,
        "256 marginals of HI-18": 256,
        "HI-18 from HI-15, 1,024 three-way": 1024,
        "4096 marginals of HI-18": 4096,
    }
    shares = {"HI-15, 1 %": 1, "HI-15, 10 %": 10, "HI-18 from HI-15, 1,024 three-way": 100}
    figure, axes = panels(plt, 2, 2, 3.8)
    for axis, places, label in zip(
        axes, (sizes, shares), ("marginals", "share of HI-15, %, at 1,024 marginals"), strict=True
    ):
        for method in (
            "release_auto",
            "MW-Pub",
            "residual strategy, Gaussian",
            "release_auto, no public table",
        ):
            for epsilon, style in ((0.25, "--"), (1.0, "-")):
                points = {
                    places[each.set]: each.largest
                    for each in found
                    if each.set in places and (each.method, each.epsilon) == (method, epsilon)
                }
                if len(points) > 1:
                    line = sorted(points.items())
                    axis.plot(*zip(*line, strict=True), style, color=colour(method), marker="o", ms=3)
                    axis.lines[-1].set(
                        label=f"{method}, eps {epsilon:g}", lw=0.9 if "no public" in method else 1.6
                    )
        axis.set(xscale="log", yscale="log", xlabel=label)
        axis.set_xticks(list(places.values()), [f"{place:,}" for place in places.values()], minor=False)
        axis.xaxis.minorticks_off()
        plain(axis.yaxis)
    axes[0].set_ylabel("largest error")
    legend(figure, axes)
    return figure


def table_rows(page: str, first: str) -> Iterator[list[str]]:
    """The cells of the tables of a journal page whose head begins with `first`; an empty list after each."""
    inside = False
    for line in (BENCHES / "journal" / f"{page}.md").read_text("utf-8").splitlines():
        if line.startswith(first):
            inside = True
        elif not line.startswith("|"):
            if inside:
                yield []
            inside = False
        elif inside and not line.startswith("|---"):
            yield [cell.strip() for cell in line.strip("|").split("|")]


def number(cell: str) -> float:
    """The first number of a cell, NaN where there is none."""
    found = re.search(r"\d*\.?\d+", cell.replace(",", ""))
    return float(found.group()) if found else math.nan


def accuracy(plt: Any, results: str | None) -> Any:
    """The two ADULT tables of the journal: each method at its best rounds, as in the papers."""
    figure, axes = panels(plt, 2, 2, 4.4)
    pages = iter(axes)
    axis, method = next(pages), ""
    best: dict[str, np.ndarray] = {}
    titles = iter(("women undersampled by 0.3", "unbiased tenth"))
    shades = ("#3b82c4", "#7d8590", "#9a6dd7", "#1f9aa8", "#d9822b", "#8a8f2a", "#2a9d6f", "#d1495b")
    colours: dict[str, str] = {}
    for row in table_rows("2026-11-accuracy", "| method | T | eps"):
        if row:
            method = row[0] or method
            values = np.array([number(cell) for cell in row[2:]])
            best[method] = np.fmin(best.get(method, values), values)
            continue
        for name, values in best.items():
            authors = name.startswith("the authors")
            shade = LIGHT["text"] if authors else colours.setdefault(name, shades[len(colours) % len(shades)])
            axis.plot(
                EPSILONS, values, ":" if authors else "-", marker="D" if authors else "o", ms=4, label=name
            )
            axis.lines[-1].set(color=shade, lw=2.4 if name == "release_auto" else 1.2)
        against_epsilon(axis, f"ADULT, {next(titles)}")
        axis, best = next(pages, axis), {}
    axes[0].set_ylabel("largest error, best T")
    legend(figure, axes, columns=2)
    return figure


def growth(plt: Any, results: str | None) -> Any:
    """The first table of the journal page on growth: public rows only, and rows that grow."""
    lines: dict[str, dict[str, list[float]]] = {}
    name = ""
    for row in table_rows("2026-11-growth", "| set | | eps .1"):
        if row:
            name = row[0] or name
            lines.setdefault(name, {}).setdefault(row[1], [number(cell) for cell in row[2:]])
    figure, axes = panels(plt, len(lines), 5, 2.6)
    for axis, (title, methods) in zip(axes, lines.items(), strict=True):
        for method, values in methods.items():
            have = ~np.isnan(values)
            before = method == "public rows only"
            axis.plot(np.array(EPSILONS)[have], np.array(values)[have], marker="o", ms=3, label=method)
            axis.lines[-1].set(color="#7d8590" if before else "#d1495b", ls="--" if before else "-")
        against_epsilon(axis, title.replace(", ", ",\n", 1))
        axis.title.set_fontsize(8)
        axis.tick_params(labelsize=7)
    legend(figure, axes)
    return figure


def speed(plt: Any, results: str | None) -> Any:
    """The first table of the journal page on kernels: what was reached beside what was aimed at."""
    cases: list[tuple[str, float, float]] = []
    name = ""
    for row in table_rows("2026-11-kernels", "| case | against | target | reached |"):
        if not row:
            break
        name = name if row[0] in ("", "the same") else row[0]
        if row[3].endswith("x") and "threads" not in name:
            label = f"{name}; {row[1]}".replace("`", "").replace("; a full", ": a full")
            cases.append((label if len(label) < 92 else f"{label[:90]}...", number(row[2]), number(row[3])))
    figure, (axis,) = panels(plt, 1, 1, 0.3 * len(cases) + 0.9)
    places = np.arange(len(cases))[::-1]
    axis.barh(places, [reached for _, _, reached in cases], height=0.55, color="#3b82c4", label="reached")
    axis.plot(
        [target for _, target, _ in cases], places, "|", color="#d1495b", ms=12, mew=2.5, label="aimed at"
    )
    axis.set_yticks(places, [label for label, _, _ in cases], fontsize=7)
    axis.set(xscale="log", xlabel="times as fast, one thread")
    plain(axis.xaxis)
    axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure


def rows(plt: Any, results: str | None) -> Any:
    """Processor seconds against rows: distinct rows, and 200 three-way marginals beside numpy."""
    from baselines import numpy_sums, subset
    from bench_growth import rescaled, seconds
    from shapes import acs67

    import privmw as pmw

    counts = (10_000, 30_000, 100_000, 300_000, 1_000_000)
    longest = acs67(counts[-1])
    workload = pmw.Workload.sample(longest.domain, k=3, size=200, seed=0)
    few = subset(workload, 2)
    pmw.kernels.set_threads(1)
    taken: dict[str, list[float]] = {}
    for count in counts:
        part = {name: longest.column(name)[:count] for name in longest.domain.names}
        table = pmw.Table(part, longest.domain, private=False)
        support = pmw.Support.from_table(table)
        plan = support.marginals(workload)
        masses, _ = pmw.kernels.to_masses(rescaled(support))
        sums, weights = plan.sums(masses), masses / 2.0**60
        steps: dict[str, tuple[Callable[[], object], float]] = {
            "200 marginals, numpy (2 of them, scaled)": (
                lambda s=support, w=weights: numpy_sums(s.table.columns, workload, few, w),
                len(workload) / len(few),
            ),
            "200 marginals": (lambda p=plan, m=masses, out=sums: p.sums(m, out), 1),
            "distinct rows": (
                lambda t=table: pmw.kernels.distinct_rows(t.columns, t.domain.sizes),
                1,
            ),
        }
        for name, (step, scale) in steps.items():
            taken.setdefault(name, []).append(scale * seconds(step, 3))
            print(f"{count:>9,} rows: {name} {taken[name][-1]:.4f} s")
    figure, (axis,) = panels(plt, 1, 1, 3.8)
    for shade, (name, times) in zip(("#7d8590", "#d1495b", "#3b82c4"), taken.items(), strict=True):
        axis.plot(counts, times, marker="o", ms=4, color=shade, label=name)
    axis.set(xscale="log", yscale="log", xlabel="rows x 67 attributes", ylabel="processor seconds")
    axis.xaxis.set_major_formatter(lambda value, _: f"{value:,.0f}")
    axis.legend(frameon=False, fontsize=8)
    figure.tight_layout()
    return figure


FIGURES: dict[str, Callable[[Any, str | None], Any]] = {
    each.__name__: each for each in (adult, survey, marginals64, cost, sweep, accuracy, growth, speed, rows)
}


def save(figure: Any, path: str) -> None:
    """An svg of few bytes, its own colours in light and dark."""
    figure.savefig(path, metadata={"Date": None} if path.endswith(".svg") else None)
    if path.endswith(".svg"):
        dark = "".join(
            f'[style*="{what}: {LIGHT[name]}"]{{{what}:{DARK[name]} !important}}'
            for name in LIGHT
            for what in ("fill", "stroke")
        )
        style = f"<style>@media (prefers-color-scheme: dark){{{dark}}}</style>"
        text = re.sub(r"(<svg[^>]*>)", rf"\1{style}", Path(path).read_text("utf-8"), count=1)
        # In tags a tenth of a point is enough; what stands between them is read.
        text = re.sub(r"<[^>]*>", lambda tag: re.sub(r"(\d\.\d)\d+", r"\1", tag.group()), text)
        Path(path).write_text(re.sub(r"\n\s*", "\n", text), "utf-8")


def main() -> None:
    """Read the command line."""
    names = "\n".join(f"  {name:12} {each.__doc__}" for name, each in FIGURES.items())
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\n{names}", formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("name", nargs="?", choices=list(FIGURES))
    parser.add_argument("results", nargs="?", help="a file of `family run`; else the committed figures")
    parser.add_argument("-o", "--output", help="the picture, svg or png; else NAME.svg")
    given = parser.parse_args()
    if given.name is None:
        print(names)
        return
    try:
        import matplotlib as mpl
    except ImportError:
        sys.exit("pictures need matplotlib: pip install '.[bench]'")
    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams |= STYLE
    save(FIGURES[given.name](plt, given.results), given.output or f"{given.name}.svg")


if __name__ == "__main__":
    main()
