"""From a matplotlib figure to a picture inside a page: inline SVG, with words for those who do not see it.

Text stays text: the page's fonts show it, whatever its script, and it can be selected and read out. Ids are
prefixed by the picture's name, so that pictures on one page never mix; nothing depends on the time, on the
user's matplotlib settings or on chance. This room knows no data.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

WIDTH, NARROW = 4.0, 3.4  # inches: the letters then are readable at the width of a phone
INK, MUTED, GRID, BAND = "#1a1a1a", "#595959", "#d9d9d9", "#d5dde3"
BLUE, ORANGE = "#0072b2", "#c24e00"  # told apart by the colour-blind, and in grey

_STYLE: dict[str, Any] = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a label may hold dollars
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


@dataclass(frozen=True)
class Picture:
    """A picture on the page: its name is its id; alt says in words what it shows; true: from private data."""

    name: str
    title: str
    alt: str
    caption: str
    svg: str
    true: bool = False


@contextmanager
def _quietly(name: str) -> Iterator[None]:
    import matplotlib.style

    with matplotlib.style.context(["default", {**_STYLE, "svg.hashsalt": name}]), warnings.catch_warnings():
        # The font only measures; the reader's browser has the letters.
        warnings.filterwarnings("ignore", message=r"(?s)Glyph .* missing")
        yield


def draw(
    name: str,
    paint: Callable[[Any, Any], None],
    *,
    height: float,
    width: float = WIDTH,
    title: str,
    alt: str,
    caption: str,
    true: bool = False,
) -> Picture:
    """Let `paint` fill the figure and its one pair of axes; the picture is ready to be put into a page."""
    with _quietly(name):
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), layout="constrained")
        paint(figure, figure.subplots())
        return Picture(name, title, alt, caption, _inline(figure, name, title, alt), true)


def legend(figure: Any, axes: Any) -> None:
    """What the marks mean, above the axes."""
    handles, labels = axes.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper left", ncols=2, columnspacing=1.2, handletextpad=0.5)


def _inline(figure: Figure, name: str, title: str, alt: str) -> str:
    buffer = io.BytesIO()
    figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    root = ElementTree.fromstring(buffer.getvalue())
    used = {
        found
        for element in root.iter()
        for value in element.attrib.values()
        for found in re.findall(r"^#(\S+)$|url\(#([^)]+)\)", value)
    }
    kept = {one or other for one, other in used}
    for parent in root.iter():
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):  # a style here would be one of the whole page
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        _tidy(element, name, kept)
    root.attrib = {
        "viewBox": root.attrib["viewBox"],
        "role": "img",
        "aria-labelledby": f"{name}-title {name}-desc",
    }
    for place, (tag, text) in enumerate((("title", title), ("desc", alt))):
        words = ElementTree.Element(tag, {"id": f"{name}-{tag}"})
        words.text = text
        root.insert(place, words)
    return ElementTree.tostring(root, encoding="unicode")


def _tidy(element: ElementTree.Element, name: str, kept: set[str]) -> None:
    """Prefixed ids where they are used, no fonts, short coordinates."""
    if element.text is not None and not element.text.strip():
        element.text = None
    element.tail = None
    attributes = {}
    for key, value in element.attrib.items():
        key = key.rpartition("}")[2]
        if key == "id":
            if value not in kept:
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
        attributes[key] = value
    element.attrib = attributes
