"""Docstrings as Markdown: their examples become code, and the five headings of a mechanism a list."""

import re

import griffe

HEADINGS = re.compile(r"^(Requires|Ensures|Privacy|Numerics|Checked by): ")


def to_markdown(text: str) -> str:
    """The same docstring with fences around its examples."""
    lines: list[str] = []
    inside = False
    for line in text.splitlines():
        if line.startswith(">>> ") and not inside:
            lines += ["", "```pycon"]
            inside = True
        elif inside and not line.strip():
            lines.append("```")
            inside = False
        heading = None if inside else HEADINGS.match(line)
        if heading and not (lines and lines[-1].startswith(("- **", "    "))):
            lines.append("")
        lines.append(f"- **{heading[1]}**: {line[heading.end() :]}" if heading else line)
    return "\n".join([*lines, "```"] if inside else lines)


class MarkedDocstrings(griffe.Extension):
    """Marks every docstring as it is loaded."""

    def on_object(self, *, obj: griffe.Object, **_: object) -> None:
        """Mark the docstring of a module, class, function or attribute."""
        if obj.docstring:
            obj.docstring.value = to_markdown(obj.docstring.value)
