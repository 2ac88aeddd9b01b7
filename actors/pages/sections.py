"""Sections of a page, and what they are put together from."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup
from msgspec import Struct


class Section(Struct, frozen=True):
    """A part of a page with a heading. key: its id, unique in the page. blocks: HTML, one beneath the other."""

    key: str
    title: str
    blocks: Sequence[Markup]


class Figure(Struct, frozen=True):
    """A figure that stands out: what it is, its value, and in smaller letters what belongs to it."""

    name: str
    value: str
    note: str = ""


def paragraph(text: str) -> Markup:
    """Return a paragraph of text."""
    return Markup("<p>{}</p>").format(text)


def note(text: str) -> Markup:
    """Return a paragraph that explains."""
    return Markup('<p class="note">{}</p>').format(text)


def heading(text: str) -> Markup:
    """Return a heading within a section."""
    return Markup("<h3>{}</h3>").format(text)


def side_by_side(charts: Sequence[Markup]) -> Markup:
    """Return charts next to each other, as far as there is room."""
    return Markup('<div class="charts">\n{}\n</div>').format(Markup("\n").join(charts))


def figure_cards(figures: Sequence[Figure]) -> Markup:
    """Return figures as a list of terms and values."""
    cards = [
        Markup("<div><dt>{}</dt><dd>{}</dd>{}</div>").format(
            figure.name, figure.value, Markup("<dd>{}</dd>").format(figure.note) if figure.note else ""
        )
        for figure in figures
    ]
    return Markup('<dl class="figures">\n{}\n</dl>').format(Markup("\n").join(cards))


def folded(summary: str, content: Markup) -> Markup:
    """Return content that a reader has to open."""
    return Markup("<details><summary>{}</summary>{}</details>").format(summary, content)
