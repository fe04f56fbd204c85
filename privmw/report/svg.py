"""A matplotlib figure becomes a picture inside a page: inline SVG, described in words for screen readers.

Text stays text: the browser shows it in the page's fonts, whatever its script, and it can be selected and
read out. Every id is prefixed by the picture's name, so that two pictures on one page never share an id.
Colours are variables of the page, so that a dark page has other ones; without a page's style they are the
light ones. Nothing depends on the time, on the user's matplotlib settings or on chance. This file knows no
data.
"""

from __future__ import annotations

import io
import math
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple
from xml.etree import ElementTree

import numpy as np

from privmw.io.whole_file import whole_file
from privmw.kernels.arrays import Float64s, Int64s

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, NARROW = 4.0, 3.4  # inches: letters are then readable at the width of a phone
INK, MUTED, GRID, BAND = "#1a1a1a", "#595959", "#d9d9d9", "#d5dde3"
BLUE, ORANGE = "#0072b2", "#c24e00"  # the colour-blind can tell them apart, and so can a grey print
LIGHT_ORANGE, GREY, PAPER = "#f2c9a6", "#bbbbbb", "#ffffff"
VARIABLES = {  # of style.css
    INK: "ink",
    MUTED: "muted",
    GRID: "grid",
    BAND: "band",
    BLUE: "blue",
    ORANGE: "orange",
    LIGHT_ORANGE: "light-orange",
    GREY: "grey",
    PAPER: "paper",
}
MOST_POINTS = 1_200  # of a scatter plot
LEAST_DISTANCE = 0.15  # between two ticks, as a share of the axis

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a label may contain dollars
    "font.family": "DejaVu Sans",  # comes with matplotlib, and is wider than what pages use
    "font.size": 9.5,
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.labelsize": 9.5,
    "axes.edgecolor": MUTED,
    "axes.linewidth": 0.8,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.unicode_minus": True,
    "grid.color": GRID,
    "grid.linewidth": 0.6,
    "xtick.color": MUTED,
    "ytick.color": MUTED,
    "xtick.labelcolor": INK,
    "ytick.labelcolor": INK,
    "xtick.labelsize": 9,
    "ytick.labelsize": 9,
    "legend.frameon": False,
    "legend.fontsize": 9,
    "legend.borderaxespad": 0,
    "hatch.linewidth": 0.8,
    "figure.constrained_layout.h_pad": 0.03,
    "figure.constrained_layout.w_pad": 0.03,
}


def colour(light: str) -> str:
    """A colour of a page, by its light one.

    >>> colour(BLUE)
    'var(--blue, #0072b2)'
    """
    return f"var(--{VARIABLES[light]}, {light})" if light in VARIABLES else light


class Words(NamedTuple):
    """The words of a picture. name: its id; alt: what it shows, for a reader who cannot see it."""

    name: str
    title: str
    alt: str
    caption: str


@dataclass(frozen=True)
class Picture:
    """A picture of a page, with its `Words`; true: it shows private data."""

    name: str
    title: str
    alt: str
    caption: str
    svg: str
    true: bool = False

    def write(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the picture to an .svg file, whole or not at all; an existing file is refused."""
        root = ElementTree.fromstring(self.svg)
        root.set("xmlns", "http://www.w3.org/2000/svg")
        root.set("font-family", "sans-serif")
        with whole_file(path, overwrite=overwrite) as file:
            file.write(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True))

    def _repr_html_(self) -> str | None:
        from privmw.report import panel  # here: only a notebook needs it

        return panel(self)


def draw(
    words: Words,
    paint: Callable[[Any, Any], None],
    *,
    height: float,
    width: float = WIDTH,
    true: bool = False,
) -> Picture:
    """Let `paint(figure, axes)` fill a figure with one pair of axes, and return it as a picture of a page."""
    import matplotlib.style
    from matplotlib.figure import Figure

    with (
        matplotlib.style.context(["default", {**_STYLE, "svg.hashsalt": words.name}]),
        warnings.catch_warnings(),
    ):
        # matplotlib's font only measures the text: the reader's browser has the glyphs.
        warnings.filterwarnings("ignore", message=r"(?s)Glyph .* missing")
        figure = Figure(figsize=(width, height), layout="constrained")
        paint(figure, figure.subplots())
        return Picture(*words, _inline(figure, words), true)


def legend(figure: Any, axes: Any) -> None:
    """Put the legend above the axes."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=2, columnspacing=1.2, handletextpad=0.5)


def square_root_axes(axes: Any, x: Float64s, y: Float64s) -> Float64s:
    """Give both axes the same square-root scale; returns numbers along it, dense where the root is steep."""
    both = np.concatenate([x, y])
    square_root_axis(axes.xaxis, axes.set_xscale, axes.set_xlim, both)
    low, top = square_root_axis(axes.yaxis, axes.set_yscale, axes.set_ylim, both)
    line: Float64s = _square(np.linspace(_root(low), _root(top), 160))
    return line


def square_root_axis(axis: Any, set_scale: Any, set_limits: Any, values: Float64s) -> tuple[float, float]:
    """Scale one axis by the square root, so that small values show beside large ones; returns its ends."""
    top = 1.08 * max(float(values.max()), 1e-4)
    low = 1.08 * min(float(values.min()), 0.0)
    step = 10.0 ** math.floor(math.log10(top))
    parts = [0, 0.05, 0.2, 0.5, 1, 2, 5] if top / step >= 2 else [0, 0.02, 0.1, 0.25, 0.5, 1]
    ticks = _apart([step * part for part in parts if step * part <= top], low, top)
    set_scale("function", functions=(_root, _square))
    axis.set_ticks(ticks, [f"{tick / 1e6:g} m" if tick >= 1e6 else f"{tick:,.6g}" for tick in ticks])
    axis.set_ticks([], minor=True)
    set_limits(low, top)
    return low, top


def _apart(ticks: list[float], low: float, top: float) -> list[float]:
    """The ticks whose labels do not touch those of larger ones; 0 always stays.

    >>> _apart([0, 50, 200, 500, 1000, 2000, 5000], 0, 8000)
    [0, 500, 2000, 5000]
    """
    kept: list[float] = []
    least = LEAST_DISTANCE * (_root(top) - _root(low))
    for tick in reversed(ticks[1:]):
        if _root(tick) >= least and (not kept or _root(kept[-1]) - _root(tick) >= least):
            kept.append(tick)
    return [*ticks[:1], *reversed(kept)]


def _root(values: Any) -> Any:
    return np.sign(values) * np.sqrt(np.abs(values))


def _square(values: Any) -> Any:
    return np.sign(values) * np.square(values)


def thin_out(values: Float64s, distances: Float64s) -> Int64s:
    """The indices of at most MOST_POINTS points: the outliers, and even steps through the values."""
    if len(values) <= MOST_POINTS:
        return np.arange(len(values))
    third = MOST_POINTS // 3
    farthest = np.argpartition(distances, len(distances) - third // 2)[-third // 2 :]
    order = np.argsort(values, kind="stable")
    # Steps by rank show the many cells that are alike; steps by size also show the few large ones.
    by_rank = np.linspace(0, len(values) - 1, third).astype(np.int64)
    sizes = _square(np.linspace(0, _root(max(float(values.max()), 0.0)), third))
    by_size = np.minimum(np.searchsorted(values, sizes, sorter=order), len(values) - 1)
    return np.unique(np.concatenate([farthest, order[by_rank], order[by_size]]))


def with_words(root: ElementTree.Element, words: Words) -> str:
    """The text of a picture, with its title and description first, for screen readers."""
    root.attrib |= {"role": "img", "aria-labelledby": f"{words.name}-title {words.name}-desc"}
    for place, (tag, text) in enumerate((("title", words.title), ("desc", words.alt))):
        element = ElementTree.Element(tag, {"id": f"{words.name}-{tag}"})
        element.text = text
        root.insert(place, element)
    return ElementTree.tostring(root, encoding="unicode")


def _inline(figure: Figure, words: Words) -> str:
    """The figure as SVG text to be put into a page."""
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    references = {
        reference
        for element in root.iter()
        for value in element.attrib.values()
        for reference in re.findall(r"^#(\S+)$|url\(#([^)]+)\)", value)
    }
    used_ids = {href or url for href, url in references}
    for parent in root.iter():
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):  # a style would apply to the whole page
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        _tidy(element, words.name, used_ids)
    root.attrib = {"viewBox": root.attrib["viewBox"]}
    return with_words(root, words)


def _tidy(element: ElementTree.Element, name: str, used_ids: set[str]) -> None:
    """Prefix ids that are used and drop the others, drop fonts, shorten coordinates."""
    if element.text is not None and not element.text.strip():
        element.text = None
    element.tail = None
    attributes = {}
    for key, value in element.attrib.items():
        key = key.rpartition("}")[2]
        if key == "id":
            if value not in used_ids:
                continue
            value = f"{name}-{value}"
        elif key == "href":
            value = f"#{name}-{value[1:]}"
        elif key == "transform" and value.startswith("rotate(-0 "):
            continue
        else:
            value = value.replace("url(#", f"url(#{name}-")
            value = re.sub(r"font: ([\d.]+px)[^;]*", r"font-size: \1", value)
            value = re.sub(r"font-family:[^;]*;?", "", value)
            value = re.sub(r"(\d\.\d\d)\d+", r"\1", " ".join(value.split()))
            value = (
                re.sub(r"#[0-9a-f]{6}\b", lambda found: colour(found[0]), value) if key == "style" else value
            )
        attributes[key] = value
    for key in ("fill", "stroke"):  # a variable must stand in a style
        if attributes.get(key) in VARIABLES:
            ink = f"{key}: {colour(attributes.pop(key))}"
            attributes["style"] = f"{attributes['style']}; {ink}" if "style" in attributes else ink
    element.attrib = attributes
