"""Parts of charts: the frame with its axes, the figure around a picture, and short forms of SVG."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape
from msgspec import Struct
from numpy.typing import NDArray

from actors.pages.scales import Scale, tick_texts
from actors.pages.tables import Table, data_table

STYLES = 8
"""Series look different up to this number; see the classes s1 to s8 of the style sheet."""

WIDTH, HEIGHT = 400.0, 250.0
LEFT, RIGHT, TOP, BOTTOM = 60.0, 14.0, 14.0, 46.0
_TICK_CHARACTER = 4.5  # half the width of a character of a tick label, on a narrow screen


class Axis(Struct, frozen=True):
    """label: what it shows, with the unit. percent: the values are shares of 1, written as percentages.

    low, high: numbers that the axis spans at least. A logarithmic axis of values without a positive one is linear.
    """

    label: str
    log: bool = False
    percent: bool = False
    low: float | None = None
    high: float | None = None

    def texts(self, ticks: list[float]) -> list[str]:
        """Write ticks of this axis."""
        if self.percent:
            return [f"{text} %" for text in tick_texts([100.0 * tick for tick in ticks])]
        return tick_texts(ticks, short=self.log)

    def bounds(self) -> list[float]:
        """The numbers that the axis has to span."""
        return [bound for bound in (self.low, self.high) if bound is not None]


class Mark(Struct, frozen=True):
    """A line across the chart with a label, at a value of one of the axes."""

    at: float
    label: str
    axis: str = "x"


class Key(Struct, frozen=True):
    """An entry of a legend: the look of series number `style` (from 1), drawn as line, point, area or front."""

    name: str
    style: int
    shape: str = "line"


def style_class(style: int) -> str:
    """Return the CSS class of series number `style`, from 1."""
    return f"s{(style - 1) % STYLES + 1}"


def coordinate(value: float) -> str:
    """Write a position in the picture, to a tenth of a unit."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def path(xs: NDArray[np.float64], ys: NDArray[np.float64], *, step: bool) -> str:
    """Return path data through points; stepwise, a value holds until the next point."""
    parts: list[str] = []
    last_x = last_y = ""
    for x, y in zip(map(coordinate, xs.tolist()), map(coordinate, ys.tolist()), strict=True):
        if not parts:
            parts.append(f"M{x} {y}")
        elif step:
            parts += ([f"H{x}"] if x != last_x else []) + ([f"V{y}"] if y != last_y else [])
        elif (x, y) != (last_x, last_y):
            parts.append(f"L{x} {y}")
        last_x, last_y = x, y
    return "".join(parts)


def frame(x: Scale, y: Scale, x_axis: Axis, y_axis: Axis, height: float = HEIGHT) -> Markup:
    """Return grid lines, tick labels and titles of both axes."""
    bottom = height - BOTTOM
    parts = []
    x_ticks, y_ticks = x.ticks(), y.ticks()
    for position, text in zip(y(y_ticks).tolist(), y_axis.texts(y_ticks), strict=True):
        at = coordinate(position)
        parts.append(f'<path class="grid" d="M{coordinate(LEFT)} {at}H{coordinate(WIDTH - RIGHT)}"/>')
        parts.append(
            f'<text class="tick" x="{coordinate(LEFT - 6)}" y="{at}" dy=".35em" text-anchor="end">{text}</text>'
        )
    for position, text in zip(x(x_ticks).tolist(), x_axis.texts(x_ticks), strict=True):
        at = coordinate(position)
        parts.append(f'<path class="grid" d="M{at} {coordinate(TOP)}V{coordinate(bottom)}"/>')
        parts.append(tick_below(position, bottom, text))
    parts.append(f'<path class="axis" d="M{coordinate(LEFT)} {coordinate(bottom)}H{coordinate(WIDTH - RIGHT)}"/>')
    parts.append(
        f'<text class="label" x="{coordinate((LEFT + WIDTH - RIGHT) / 2)}" y="{coordinate(height - 8)}" '
        f'text-anchor="middle">{escape(x_axis.label)}</text>'
    )
    middle = (TOP + bottom) / 2
    parts.append(
        f'<text class="label" transform="translate(12.5 {coordinate(middle)}) rotate(-90)" '
        f'text-anchor="middle">{escape(y_axis.label)}</text>'
    )
    return Markup("".join(parts))


def tick_below(position: float, bottom: float, text: str, width: float = WIDTH) -> str:
    """Return a label of the x axis: centred, or moved so far to the left that it stays in the picture."""
    moved = min(position, width - _TICK_CHARACTER * len(text))
    return (
        f'<text class="tick" x="{coordinate(moved)}" y="{coordinate(bottom + 16)}" text-anchor="middle">{text}</text>'
    )


def mark_lines(marks: Sequence[Mark], x: Scale, y: Scale, height: float = HEIGHT) -> Markup:
    """Return the lines of marks that lie on the chart, with their labels."""
    parts = []
    bottom = height - BOTTOM
    for index, mark in enumerate(mark for mark in marks if _inside(mark, x, y)):
        if mark.axis == "x":
            at = float(x([mark.at])[0])
            left = at > (LEFT + WIDTH - RIGHT) / 2
            parts.append(f'<path class="mark" d="M{coordinate(at)} {coordinate(TOP)}V{coordinate(bottom)}"/>')
            position = f'x="{coordinate(at - 5 if left else at + 5)}" y="{coordinate(bottom - 8 - 16 * index)}"'
            anchor = "end" if left else "start"
        else:
            at = float(y([mark.at])[0])
            parts.append(f'<path class="mark" d="M{coordinate(LEFT)} {coordinate(at)}H{coordinate(WIDTH - RIGHT)}"/>')
            position = f'x="{coordinate(WIDTH - RIGHT - 4)}" y="{coordinate(at - 5 if at > TOP + 18 else at + 14)}"'
            anchor = "end"
        parts.append(f'<text class="mark-label" {position} text-anchor="{anchor}">{escape(mark.label)}</text>')
    return Markup("".join(parts))


def figure(
    key: str,
    title: str,
    description: str,
    picture: Markup,
    *,
    width: float = WIDTH,
    height: float = HEIGHT,
    legend: Sequence[Key] = (),
    table: Table | None = None,
    note: str = "",
) -> Markup:
    """Return a figure: caption, legend, the picture as an image with a name and a description, and its data."""
    entries = Markup("").join(
        Markup(
            '<li><svg class="swatch {shape}" viewBox="0 0 28 12" aria-hidden="true">{drawing}</svg>{name}</li>'
        ).format(shape=entry.shape, drawing=_swatch(entry), name=entry.name)
        for entry in legend
    )
    return Markup(
        '<figure class="chart" id="{key}">\n<figcaption>{title}</figcaption>\n{note}{legend}'
        '<svg class="plot" role="img" aria-labelledby="{key}-title {key}-desc" viewBox="0 0 {width} {height}">'
        '<title id="{key}-title">{title}</title><desc id="{key}-desc">{description}</desc>{picture}</svg>\n'
        "{table}</figure>"
    ).format(
        key=key,
        title=title,
        description=description,
        note=Markup('<p class="note">{}</p>\n').format(note) if note else "",
        legend=Markup('<ul class="legend">{}</ul>\n').format(entries) if legend else "",
        width=coordinate(width),
        height=coordinate(height),
        picture=picture,
        table=Markup(
            '<details class="data"><summary>Data<span class="hidden"> of the chart: {}</span></summary>{}</details>\n'
        ).format(title, data_table(table))
        if table is not None
        else "",
    )


def empty_figure(key: str, title: str, note: str = "") -> Markup:
    """Return a figure that says that there is nothing to draw."""
    return Markup(
        '<figure class="chart" id="{key}">\n<figcaption>{title}</figcaption>\n{note}'
        '<p class="none">No data.</p></figure>'
    ).format(key=key, title=title, note=Markup('<p class="note">{}</p>\n').format(note) if note else "")


def shortened(text: str, most: int) -> str:
    """Cut a text in the middle, where it is too long."""
    if len(text) <= most:
        return text
    head = (most - 1 + 1) // 2
    return f"{text[:head]}…{text[len(text) - (most - 1 - head) :]}"


def hatch(style: int) -> str:
    """Return the value of `fill` for areas of series number `style`; the patterns are in the layout of pages."""
    return f"url(#hatch-{(style - 1) % STYLES + 1})"


def point(style: int, x: float, y: float) -> str:
    """Return the marker of series number `style`: circle, square, triangle or diamond."""
    look = f'class="point {style_class(style)}"'
    shape = (style - 1) % 4
    if shape == 0:
        return f'<circle {look} cx="{coordinate(x)}" cy="{coordinate(y)}" r="4.5"/>'
    outline = {
        1: ((-4, -4), (4, -4), (4, 4), (-4, 4)),
        2: ((0, -5), (5, 4), (-5, 4)),
        3: ((0, -5.5), (5.5, 0), (0, 5.5), (-5.5, 0)),
    }[shape]
    corners = " ".join(f"{coordinate(x + right)},{coordinate(y + down)}" for right, down in outline)
    return f'<polygon {look} points="{corners}"/>'


def _swatch(entry: Key) -> Markup:
    if entry.shape == "area":
        return Markup(f'<rect x="1" y="1" width="26" height="10" fill="{hatch(entry.style)}"/>')
    if entry.shape == "point":
        return Markup(point(entry.style, 14, 6))
    look = "front" if entry.shape == "front" else f"curve {style_class(entry.style)}"
    return Markup(f'<path class="{look}" d="M0 6H28"/>')


def _inside(mark: Mark, x: Scale, y: Scale) -> bool:
    scale = x if mark.axis == "x" else y
    return scale.low <= mark.at <= scale.high


def listed(texts: Sequence[str]) -> str:
    """Join texts to a description of moderate length."""
    return textwrap.shorten("; ".join(texts), 600, placeholder=" …")
