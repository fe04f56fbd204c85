"""Docstrings as Markdown: examples become code; sections, parameters and headings are marked."""

import re

import griffe

HEADINGS = re.compile(r"^(Requires|Ensures|Privacy|Numerics|Checked by): ")
SECTION = re.compile(r"^(\w[\w ]*)\n-{3,}\n", re.M)
PARAMETER = re.compile(r"^([\w, ]+) : (.+)\n((?: {4}.*\n?)+)", re.M)
RETURNED = re.compile(r"^(\*\*Returns\*\*\n\n)(\w.*)\n((?: {4}.*\n?)+)", re.M)


def to_markdown(text: str) -> str:
    """The same docstring with fences around its examples, and numpy's sections as lists."""
    text = SECTION.sub(r"**\1**\n\n", text)
    text = PARAMETER.sub(r"- `\1` : \2\n\3", text)
    text = RETURNED.sub(r"\1- \2\n\3", text)
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
