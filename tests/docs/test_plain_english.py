"""Words that the package and its documents do without, and constants whose names mean one thing."""

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2]
PATTERNS = ("privmw/**/*.py", "privmw/**/*.pyi", "privmw/**/*.j2", "csrc/**/*.[ch]pp", "csrc/**/*.h")
CODE = [path for pattern in PATTERNS for path in sorted(ROOT.glob(pattern))]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]

# Say instead: a number or a name; "one per cell"; "is not a ..."; or another sentence.
UNCLEAR = re.compile(
    r"so many|one an? (?:cell|row|record|marginal|query|attribute)|(?:that|which) (?:is|are) none(?! of)"
    r"|of which all|nobody|whoever|hardly so|come by|(?:be|is|are) as after".replace(" ", r"[\s/#*]+"),
    re.IGNORECASE,
)
BUILDING = re.compile(
    r"(?:the|one|every|which|this|our|only)\s+(?:room|door|house)\b|room\s+to\s+room", re.IGNORECASE
)


def occurrences(pattern, paths):
    """Every match with its file, the blanks and comment marks within it as one blank."""
    return [
        (re.sub(r"[\s/#*]+", " ", match[0]).lower(), path.relative_to(ROOT).as_posix())
        for path in paths
        for match in re.finditer(pattern, path.read_text("utf-8"))
    ]


def constants(source):
    """The names in upper case that a module assigns."""
    for node in ast.parse(source).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        for target in targets:
            for name in target.elts if isinstance(target, ast.Tuple) else [target]:
                if isinstance(name, ast.Name) and name.id.isupper():
                    yield name.id


def repeated_constants():
    """The names of constants that more than one module assigns."""
    names = Counter(
        name for path in CODE if path.suffix == ".py" for name in {*constants(path.read_text("utf-8"))}
    )
    return {name for name, modules in names.items() if modules > 1}


def test_unclear_words_do_not_occur():
    assert occurrences(UNCLEAR, [*PAGES, *CODE]) == []


def test_packages_and_the_curator_are_no_rooms_and_doors():
    assert occurrences(BUILDING, [*PAGES, *CODE]) == []


def test_a_constant_means_one_thing():
    assert repeated_constants() <= SHARED


def test_the_readers_see_what_they_must():
    page = ROOT / "tests" / "docs" / "test_plain_english.py"
    assert ("so many", "tests/docs/test_plain_english.py") in occurrences(UNCLEAR, [page])
    assert UNCLEAR.search("counts, one\n    // a cell")
    assert not UNCLEAR.search("a name that is none of the options")
    assert BUILDING.search("through the\ndoor")
    assert not BUILDING.search("a flat with two rooms")
    assert list(constants("A, B = 1, 2\nC: int = 3\nd = 4\ndef f():\n    E = 5")) == ["A", "B", "C"]


# Genuinely the same idiom: type variables, and the form and version of a file.
SHARED = {"FORM", "P", "T", "VERSION", "_VERSION"}
