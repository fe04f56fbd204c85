"""A report's page taken apart, and what every page must be: whole, alone, and fit to be read out."""

import itertools
import re
from html.parser import HTMLParser

FILE = re.compile(r"[a-z]+\.(parquet|csv|json|npz)")  # beside the page
VOID = {"meta", "br", "hr", "img", "input", "link"}


class Page(HTMLParser):
    """A page taken apart; it must be well formed: every element is closed, in order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.ids, self.words = [], [], [], []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.ids += [value for name, value in attributes if name == "id"]
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        if tag in ("td", "th", "dt", "dd"):
            self.words.append(" ")

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.words.append(data)

    @property
    def text(self):
        return " ".join("".join(self.words).split())

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def assert_whole(text):
    """Well formed, and nothing is fetched or run."""
    page = Page(text)
    assert text.startswith("<!DOCTYPE html>")
    assert len(page.ids) == len(set(page.ids))
    assert not page.all("script")
    assert not page.all("link")
    for tag, attributes in page.tags:
        assert "src" not in attributes, tag
        for key, value in attributes.items():
            assert not key.startswith("on")
            if key == "href" and not FILE.fullmatch(value):
                assert value[0] == "#"
                assert value[1:] in page.ids
            for target in re.findall(r"url\((.)([^)]*)", value or ""):
                assert target[0] == "#"
                assert target[1] in page.ids
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert not re.search(r"https?:", text)
    assert "nan" not in page.text.lower().split()
    assert "None" not in page.text


def assert_readable(text, expected):
    """Headings, tables and pictures have their words; expected: the sections."""
    page = Page(text)
    assert page.all("html") == [{"lang": "en"}]
    assert {"header", "nav", "main", "footer"} <= {tag for tag, _ in page.tags}
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in itertools.pairwise(levels))
    assert all(cell.get("scope") in ("col", "row") for cell in page.all("th"))
    assert len(page.all("caption")) == len(page.all("table"))
    assert page.all("svg")
    for picture in page.all("svg"):
        assert picture["role"] == "img"
        assert set(picture["aria-labelledby"].split()) <= set(page.ids)
    assert len(page.all("figcaption")) == len(page.all("figure")) == len(page.all("svg"))
    sections = [attributes["id"] for attributes in page.all("section")]
    assert sections == expected
