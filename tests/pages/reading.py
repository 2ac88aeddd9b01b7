"""What a page consists of, read without a browser."""

from __future__ import annotations

import itertools
from html.parser import HTMLParser

VOID = {"meta", "link", "br", "img", "input", "hr"}
SVG_LEAVES = {"path", "rect", "circle", "polygon"}


class PageReader(HTMLParser):
    """Reads a page. Raises AssertionError where tags do not match.

    ids, headings (level and text), texts of captions and chart titles, links, addresses in attributes.
    """

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.headings: list[tuple[int, str]] = []
        self.captions: list[str] = []
        self.figures: list[str] = []
        self.links: list[str] = []
        self.addresses: list[str] = []
        self.tags: dict[str, int] = {}
        self._open: list[str] = []
        self._text: list[str] = []
        self.feed(page)
        self.close()
        assert self._open == [], f"left open: {self._open}"

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags[tag] = self.tags.get(tag, 0) + 1
        for name, value in attributes:
            if name == "id":
                self.ids.append(value or "")
            elif name in ("href", "src", "xlink:href"):
                (self.links if tag == "a" else self.addresses).append(value or "")
        if tag not in VOID:
            self._open.append(tag)
        self._text = []

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        assert tag in SVG_LEAVES, tag
        self.handle_starttag(tag, attributes)
        self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self._open, tag
        assert self._open.pop() == tag
        text = "".join(self._text).strip()
        if tag in ("h1", "h2", "h3"):
            self.headings.append((int(tag[1]), text))
        elif tag == "caption":
            self.captions.append(text)
        elif tag == "figcaption":
            self.figures.append(text)

    def handle_data(self, data: str) -> None:
        self._text.append(data)

    def check(self) -> PageReader:
        """Check what holds for every page: ids are unique, links lead somewhere, no level of headings is skipped."""
        assert len(self.ids) == len(set(self.ids))
        assert all(link[1:] in self.ids for link in self.links)
        assert all(address == "data:," for address in self.addresses)
        levels = [level for level, _ in self.headings]
        assert levels[0] == 1
        assert levels.count(1) == 1
        assert all(level <= before + 1 for before, level in itertools.pairwise(levels))
        return self
