"""Bars that lie, stacked of parts, and columns that stand."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from markupsafe import Markup, escape
from msgspec import Struct
from numpy.typing import NDArray

from actors.pages.scales import scale_for, significant
from actors.pages.svg import (
    BOTTOM,
    HEIGHT,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Axis,
    Key,
    Mark,
    coordinate,
    empty_figure,
    figure,
    hatch,
    listed,
    mark_lines,
    shortened,
    tick_below,
)
from actors.pages.tables import Table

_WIDTH = 480.0  # of a picture with lying bars
_BAR, _PITCH = 15.0, 22.0
_LABELS = 124.0  # width of the labels of lying bars
_LABEL_LENGTH = 14
_TOTALS = 48.0  # room for the total behind a bar
_MOST_LABELS = 10
_ROOM_ABOVE = 1.1
_THINNEST = 0.05  # of a part that is drawn


class Part(Struct, frozen=True):
    """What one part of every bar comes to, in the order of the categories; not negative."""

    name: str
    values: Sequence[float] | NDArray[np.float64]


class Bars(Struct, frozen=True):
    """What a chart of bars shows; see `actors.pages.charts.Chart` for the fields of the same name.

    category: what the categories are. value: the axis of the values.
    """

    key: str
    title: str
    category: str
    categories: Sequence[str]
    value: Axis
    parts: Sequence[Part]
    marks: Sequence[Mark] = ()
    note: str = ""
    description: str = ""
    table: Table | None = None


def bars(chart: Bars) -> Markup:
    """Draw a lying bar per category, its parts one behind the other, and the sum behind it."""
    count = len(chart.categories)
    if count == 0 or not chart.parts:
        return empty_figure(chart.key, chart.title, chart.note)
    values = _values(chart)
    begins = np.concatenate([np.zeros((1, count)), np.cumsum(values, axis=0)])
    height = TOP + _PITCH * count + BOTTOM
    scale = scale_for(
        np.append(begins[-1], chart.value.bounds()), _LABELS, _WIDTH - RIGHT - _TOTALS, log=False, from_zero=True
    )
    bottom = height - BOTTOM
    ticks = scale.ticks()
    drawn = []
    for position, text in zip(scale(ticks).tolist(), chart.value.texts(ticks), strict=True):
        at = coordinate(position)
        drawn.append(f'<path class="grid" d="M{at} {coordinate(TOP)}V{coordinate(bottom)}"/>')
        drawn.append(tick_below(position, bottom, text, _WIDTH))
    middle = (_LABELS + _WIDTH - RIGHT - _TOTALS) / 2
    drawn.append(
        f'<text class="label" x="{coordinate(middle)}" y="{coordinate(height - 8)}" text-anchor="middle">'
        f"{escape(chart.value.label)}</text>"
    )
    for row, category in enumerate(chart.categories):
        top = TOP + _PITCH * row + (_PITCH - _BAR) / 2
        line = f'y="{coordinate(top + _BAR / 2)}" dy=".35em"'
        shown = escape(shortened(category, _LABEL_LENGTH))
        drawn.append(f'<text class="tick" x="{coordinate(_LABELS - 6)}" {line} text-anchor="end">{shown}</text>')
        for index, part in enumerate(chart.parts):
            left, right = scale([begins[index, row], begins[index + 1, row]]).tolist()
            if right - left >= _THINNEST:
                hover = f"{category}\n{part.name}: {significant(float(values[index, row]))}"
                drawn.append(_rectangle(index + 1, left, top, right - left, _BAR, hover))
        total = float(begins[-1, row])
        end = coordinate(float(scale([total])[0]) + 5)
        drawn.append(f'<text class="tick" x="{end}" {line}>{significant(total)}</text>')
    legend = [Key(part.name, index, "area") for index, part in enumerate(chart.parts, start=1)]
    return figure(
        chart.key,
        chart.title,
        chart.description or _description(chart, values),
        Markup("".join(drawn)),
        width=_WIDTH,
        height=height,
        legend=legend if len(legend) > 1 else (),
        table=chart.table or _table(chart, values),
        note=chart.note,
    )


def columns(chart: Bars) -> Markup:
    """Draw a standing column per category, its parts upon each other; of many categories only some are labelled."""
    count = len(chart.categories)
    if count == 0 or not chart.parts:
        return empty_figure(chart.key, chart.title, chart.note)
    values = _values(chart)
    begins = np.concatenate([np.zeros((1, count)), np.cumsum(values, axis=0)])
    bottom = HEIGHT - BOTTOM
    # Some room above, for the label of a mark.
    marked = [_ROOM_ABOVE * mark.at for mark in chart.marks]
    scale = scale_for(
        np.concatenate([begins[-1], chart.value.bounds(), marked]), bottom, TOP, log=False, from_zero=True
    )
    ticks = scale.ticks()
    drawn = []
    for position, text in zip(scale(ticks).tolist(), chart.value.texts(ticks), strict=True):
        at = coordinate(position)
        drawn.append(f'<path class="grid" d="M{coordinate(LEFT)} {at}H{coordinate(WIDTH - RIGHT)}"/>')
        drawn.append(
            f'<text class="tick" x="{coordinate(LEFT - 6)}" y="{at}" dy=".35em" text-anchor="end">{text}</text>'
        )
    pitch = (WIDTH - RIGHT - LEFT) / count
    broad = min(pitch * 0.8, 48.0)
    stride = -(-count // _MOST_LABELS)
    for column, category in enumerate(chart.categories):
        middle = LEFT + pitch * (column + 0.5)
        for index, part in enumerate(chart.parts):
            lower, upper = scale([begins[index, column], begins[index + 1, column]]).tolist()
            if lower - upper >= _THINNEST:
                hover = f"{chart.category} {category}\n{part.name}: {significant(float(values[index, column]))}"
                drawn.append(_rectangle(index + 1, middle - broad / 2, upper, broad, lower - upper, hover))
        if column % stride == 0:
            drawn.append(
                f'<text class="tick" x="{coordinate(middle)}" y="{coordinate(bottom + 16)}" text-anchor="middle">'
                f"{escape(shortened(category, 8))}</text>"
            )
    drawn.append(f'<path class="axis" d="M{coordinate(LEFT)} {coordinate(bottom)}H{coordinate(WIDTH - RIGHT)}"/>')
    drawn.append(
        f'<text class="label" x="{coordinate((LEFT + WIDTH - RIGHT) / 2)}" y="{coordinate(HEIGHT - 8)}" '
        f'text-anchor="middle">{escape(chart.category)}</text>'
        f'<text class="label" transform="translate(12.5 {coordinate((TOP + bottom) / 2)}) rotate(-90)" '
        f'text-anchor="middle">{escape(chart.value.label)}</text>'
    )
    drawn.append(mark_lines(chart.marks, scale, scale))
    legend = [Key(part.name, index, "area") for index, part in enumerate(chart.parts, start=1)]
    return figure(
        chart.key,
        chart.title,
        chart.description or _description(chart, values),
        Markup("".join(drawn)),
        legend=legend if len(legend) > 1 else (),
        table=chart.table or _table(chart, values),
        note=chart.note,
    )


def _rectangle(style: int, left: float, top: float, width: float, height: float, hover: str) -> str:
    return (
        f'<rect class="bar" x="{coordinate(left)}" y="{coordinate(top)}" width="{width:.2f}" '
        f'height="{coordinate(height)}" fill="{hatch(style)}"><title>{escape(hover)}</title></rect>'
    )


def _values(chart: Bars) -> NDArray[np.float64]:
    """Rows are parts, columns categories; what is not a number counts as 0."""
    values: NDArray[np.float64] = np.nan_to_num(np.array([np.asarray(part.values, np.float64) for part in chart.parts]))
    return values


def _table(chart: Bars, values: NDArray[np.float64]) -> Table:
    rows = [
        [category, *(significant(value) for value in values[:, index].tolist())]
        for index, category in enumerate(chart.categories)
    ]
    return Table(f"{chart.title}: {chart.value.label}", [chart.category, *(part.name for part in chart.parts)], rows)


def _description(chart: Bars, values: NDArray[np.float64]) -> str:
    ranges = [
        f"{part.name} from {significant(float(row.min()))} to {significant(float(row.max()))}"
        for part, row in zip(chart.parts, values, strict=True)
    ]
    return f"{chart.value.label} of {len(chart.categories)} ({chart.category}): {listed(ranges)}."
