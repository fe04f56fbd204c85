"""The history as one static page: a small plot for every figure, light and dark, nothing fetched."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import Any

WIDTH, HEIGHT, EDGE = 300, 90, 6
LEAST_SPAN = 0.1  # of the largest value: a change of one percent shows, rounding does not

STYLE = """
:root { --page:#ffffff; --text:#1c2330; --quiet:#5d6778; --line:#dde2ea; --card:#f6f8fb; --plot:#2563a8;
        --worse:#b3261e; --better:#1b7a3d; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --page:#12161d; --text:#e6eaf1; --quiet:#98a3b5; --line:#2b3341; --card:#1a202a; --plot:#6cb0f5;
          --worse:#ff8a80; --better:#7bd88f; } }
body { background:var(--page); color:var(--text); font:15px/1.45 system-ui, sans-serif; margin:2rem auto;
       max-width:75rem; padding:0 1rem; }
h1 { font-size:1.5rem; margin-bottom:.2rem; } h2 { font-size:1.1rem; margin:2rem 0 .6rem; }
p, td, th, small { color:var(--quiet); } p { max-width:60rem; }
.plots { display:grid; grid-template-columns:repeat(auto-fill, minmax(17rem, 1fr)); gap:.8rem; }
figure { background:var(--card); border:1px solid var(--line); border-radius:6px; margin:0;
         padding:.6rem .7rem; }
figcaption { font-size:.85rem; display:flex; justify-content:space-between; gap:.5rem; }
.last { font-variant-numeric:tabular-nums; white-space:nowrap; }
.worse { color:var(--worse); } .better { color:var(--better); }
svg { width:100%; height:auto; display:block; margin-top:.3rem; overflow:visible; }
polyline { fill:none; stroke:var(--plot); stroke-width:2; } circle { fill:var(--plot); }
.zero { stroke:var(--line); } text { fill:var(--quiet); font-size:10px; }
.scroll { overflow-x:auto; } table { border-collapse:collapse; font-size:.85rem; width:100%; }
td, th { text-align:left; padding:.2rem .8rem .2rem 0; border-bottom:1px solid var(--line); }
code { color:var(--text); }
"""


def render(entries: Sequence[dict[str, Any]]) -> str:
    """The page of these entries of the history."""
    parts = [
        "<!doctype html><html lang='en'><meta charset='utf-8'><title>privmw: what commits cost</title>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<style>{STYLE}</style><h1>What commits cost</h1>",
        f"<p>{len(entries)} commits, the oldest first; lower is better. A plot spans its values, a tenth of "
        "the largest at least, and says where it begins. A figure on the right is the last value, with its "
        "change since the entry before. Counts are exact for a compiler; "
        "errors are of fixed seeds, and move by chance wherever a release has other bits.</p>",
    ]
    for title, series in sections(entries):
        plots = "".join(plot(name, values, entries) for name, values in series.items())
        parts.append(f"<h2>{html.escape(title)}</h2><div class='plots'>{plots}</div>")
    parts.append(f"<h2>Commits</h2><div class='scroll'><table>{commits(entries)}</table></div></html>")
    return "\n".join(parts)


def sections(entries: Sequence[dict[str, Any]]) -> list[tuple[str, dict[str, list[float | None]]]]:
    """Titles, and for each figure its values, None where a commit has none."""
    flat = [flatten(entry) for entry in entries]
    found: dict[str, dict[str, list[float | None]]] = {}
    for title, name in dict.fromkeys(key for each in flat for key in each):
        found.setdefault(title, {})[name] = [each.get((title, name)) for each in flat]
    return list(found.items())


def flatten(entry: dict[str, Any]) -> dict[tuple[str, str], float]:
    figures: dict[tuple[str, str], float] = {}
    for kind, title in (
        ("instructions", "Instructions of the kernels"),
        ("instructions from Python", "Instructions of a release, Python included"),
        ("errors", "Errors, as ratios"),
    ):
        figures |= {(title, name): value for name, value in entry.get(kind, {}).items()}
    for run, counts in entry.get("work", {}).items():
        figures |= {(f"Work: {what}", run): number for what, number in counts.items()}
    return figures


def plot(name: str, values: Sequence[float | None], entries: Sequence[dict[str, Any]]) -> str:
    known = [(i, value) for i, value in enumerate(values) if value is not None]
    top = max((value for _, value in known), default=0) or 1
    bottom = min([(1 - LEAST_SPAN) * top, *(value for _, value in known)])
    step = (WIDTH - 2 * EDGE) / max(1, len(values) - 1)
    scale = (HEIGHT - 3 * EDGE) / (top - bottom)
    points = [(EDGE + step * i, HEIGHT - EDGE - scale * (value - bottom), i, value) for i, value in known]
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _, _ in points)
    dots = "".join(
        f"<circle cx='{x:.1f}' cy='{y:.1f}' r='2.5'><title>{html.escape(entries[i]['commit'])} "
        f"{html.escape(entries[i]['subject'])}: {figure(value)}</title></circle>"
        for x, y, i, value in points
    )
    return (
        f"<figure><figcaption><span>{html.escape(name)}</span>"
        f"<span class='last'>{latest(known)}</span></figcaption>"
        f"<svg viewBox='0 0 {WIDTH} {HEIGHT}' role='img' aria-label='{html.escape(name, quote=True)}'>"
        f"<line class='zero' x1='{EDGE}' x2='{WIDTH - EDGE}' y1='{HEIGHT - EDGE}' y2='{HEIGHT - EDGE}'/>"
        f"<text x='{EDGE}' y='{HEIGHT - EDGE - 3}'>{figure(bottom)}</text>"
        f"<polyline points='{line}'/>{dots}</svg></figure>"
    )


def latest(known: Sequence[tuple[int, float]]) -> str:
    if not known:
        return ""
    last = known[-1][1]
    if len(known) == 1 or not known[-2][1] or known[-2][1] == last:
        return figure(last)
    share = last / known[-2][1] - 1
    return f"{figure(last)} <span class='{'worse' if share > 0 else 'better'}'>{100 * share:+.1f} %</span>"


def figure(value: float) -> str:
    """A value in few digits.

    >>> figure(12_345_678), figure(950), figure(0.9876)
    ('12.3 M', '950', '0.988')
    """
    if value < 100 and not float(value).is_integer():
        return f"{value:.3f}"
    for size, unit in ((10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value:.0f}"


def commits(entries: Sequence[dict[str, Any]]) -> str:
    rows = [
        f"<tr><td><code>{html.escape(entry['commit'])}</code><td>{html.escape(entry['date'][:16])}"
        f"<td>{html.escape(entry['subject'])}"
        f"<td>{html.escape(entry.get('toolchain', {}).get('compiler', ''))}"
        f"<td>{html.escape('; '.join(str(why) for what, why in entry.items() if what.startswith('no ')))}"
        for entry in reversed(entries)
    ]
    return "<tr><th>commit<th>date<th>what<th>compiler<th>left out" + "".join(rows)
