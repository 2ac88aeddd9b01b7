"""Charts as inline SVG: lines, steps, distributions and points; bars and columns are in `actors.pages.bars`.

Colours come from the style sheet of the page alone, and series differ in dashes or markers too. Every chart has a name,
a description and a table of its data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from markupsafe import Markup, escape
from msgspec import Struct, structs
from numpy.typing import NDArray

from actors.pages.bars import Bars, Part, bars, columns
from actors.pages.scales import MISSING, Scale, percent, scale_for, significant
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
    frame,
    listed,
    mark_lines,
    path,
    point,
    style_class,
)
from actors.pages.tables import Table
from actors.pages.thinning import cdf_points, thin

__all__ = ["Axis", "Bars", "Chart", "Mark", "Part", "Series", "bars", "cdf_chart", "columns", "line_chart", "scatter"]

_Box = tuple[float, float, float, float]  # left, top, right, bottom
Values = Sequence[float] | NDArray[np.float64]

_STRIPS = 48  # places of a line chart that tell their values to the pointer
_MOST_ROWS = 24  # of a table of data
_MOST_LABELLED = 14  # points that have their label beside them
_LABEL_LENGTH = 28
_LABEL_CHARACTER = 7.0  # width of a character of a label
_TABLE_SHARES = (0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 0.999, 1.0)


class Series(Struct, frozen=True):
    """A curve or a set of points; `xs` and `ys` are equally long.

    kind: `line` joins the points, whose xs ascend; `step` holds each value until the next; `points` are apart.
    labels: what each point is called, for `scatter`.
    """

    name: str
    xs: Values
    ys: Values
    kind: Literal["line", "step", "points"] = "line"
    labels: Sequence[str] = ()


class Chart(Struct, frozen=True):
    """What a chart shows.

    key: its id in the page, unique there; letters, digits and hyphens.
    note: a line that readers see above the picture. description: what a screen reader hears; made of the data if empty.
    table: the data beneath, instead of values at some places of the x axis.
    from_zero: a linear y axis begins at 0.
    """

    key: str
    title: str
    x: Axis
    y: Axis
    series: Sequence[Series]
    marks: Sequence[Mark] = ()
    note: str = ""
    description: str = ""
    table: Table | None = None
    from_zero: bool = True


class _Curve(Struct, frozen=True):
    """A series as arrays, without points that are not finite. style: its number, from 1."""

    name: str
    xs: NDArray[np.float64]
    ys: NDArray[np.float64]
    kind: str
    style: int
    labels: Sequence[str]

    def at(self, places: NDArray[np.float64]) -> NDArray[np.float64]:
        """The values there; NaN where the curve is not."""
        if self.kind == "points":
            found = np.searchsorted(self.xs, places)
            exact = self.xs[np.minimum(found, len(self.xs) - 1)] == places
            return np.where(exact, self.ys[np.minimum(found, len(self.xs) - 1)], np.nan)
        if self.kind == "line":
            return np.interp(places, self.xs, self.ys, left=np.nan, right=np.nan)
        index = np.searchsorted(self.xs, places, side="right") - 1
        return np.where(index >= 0, self.ys[np.maximum(index, 0)], np.nan)


def line_chart(chart: Chart) -> Markup:
    """Draw curves over a common x axis. Long ones are thinned in a way that keeps their extremes."""
    curves = _curves(chart)
    if not curves:
        return empty_figure(chart.key, chart.title, chart.note)
    x, y = _scales(chart, curves)
    parts = [frame(x, y, chart.x, chart.y), mark_lines(chart.marks, x, y)]
    for curve in curves:
        xs, ys = thin(curve.xs, curve.ys)
        look = f"curve {style_class(curve.style)}"
        if curve.kind == "points":
            parts += [Markup(point(curve.style, *at)) for at in zip(x(xs).tolist(), y(ys).tolist(), strict=True)]
            continue
        if len(xs) == 1 and curve.kind == "line":
            parts.append(Markup(point(curve.style, float(x(xs)[0]), float(y(ys)[0]))))
            continue
        if curve.kind == "step":
            xs, ys = np.append(xs, max(x.high, float(xs[-1]))), np.append(ys, ys[-1])
        parts.append(Markup(f'<path class="{look}" d="{path(x(xs), y(ys), step=curve.kind == "step")}"/>'))
    parts.append(_strips(chart, curves, x))
    legend = [Key(curve.name, curve.style, "point" if curve.kind == "points" else "line") for curve in curves]
    return figure(
        chart.key,
        chart.title,
        chart.description or _description(chart, curves),
        Markup("").join(parts),
        legend=legend if len(legend) > 1 else (),
        table=chart.table or _table(chart, curves, x),
        note=chart.note,
    )


def cdf_chart(
    key: str,
    title: str,
    x: Axis,
    samples: Mapping[str, Values],
    *,
    marks: Sequence[Mark] = (),
    note: str = "",
    extra: Sequence[Series] = (),
) -> Markup:
    """Draw the distribution of each sample: the share of it that is at most x.

    extra: further curves with shares of 1 as their ys.
    """
    series, named = [], {}
    for name, sample in samples.items():
        values = np.asarray(sample, np.float64)
        values = values[np.isfinite(values)]
        xs, ys = cdf_points(values)
        series.append(Series(name, xs, ys, "step"))
        if len(values):
            named[name] = np.sort(values)
    described = [f"{name}: half are at most {significant(_quantile(values, 0.5))}" for name, values in named.items()]
    described += [f"{name}: 99 % are at most {significant(_quantile(values, 0.99))}" for name, values in named.items()]
    table = Table(
        f"{title}: {x.label} by share",
        ["Share of the sample", *named],
        [
            [percent(share), *(significant(_quantile(values, share)) for values in named.values())]
            for share in _TABLE_SHARES
        ],
    )
    return line_chart(
        Chart(
            key=key,
            title=title,
            x=x,
            y=Axis("Share", percent=True, low=0.0, high=1.0),
            series=[*series, *extra],
            marks=marks,
            note=note,
            description=f"Cumulative distribution over {x.label}. {listed(described)}.",
            table=table,
        )
    )


def scatter(chart: Chart, front: Series | None = None) -> Markup:
    """Draw points with their labels; `front` is a line through some of them that stands out."""
    curves = _curves(structs.replace(chart, series=[structs.replace(one, kind="points") for one in chart.series]))
    if not curves:
        return empty_figure(chart.key, chart.title, chart.note)
    lines = _curves(structs.replace(chart, series=[front] if front is not None else []))
    x, y = _scales(chart, [*curves, *lines], margin=0.05)
    parts = [frame(x, y, chart.x, chart.y), mark_lines(chart.marks, x, y)]
    front_style = len(chart.series) + 1
    for line in lines:
        data = path(x(line.xs), y(line.ys), step=line.kind == "step")
        parts.append(Markup(f'<path class="front" d="{data}"/>'))
    count = sum(len(curve.xs) for curve in curves)
    taken: list[_Box] = []
    for curve in curves:
        labels = list(curve.labels) or [curve.name] * len(curve.xs)
        positions = zip(x(curve.xs).tolist(), y(curve.ys).tolist(), curve.xs.tolist(), curve.ys.tolist(), strict=True)
        for label, (right, down, x_value, y_value) in zip(labels, positions, strict=True):
            hover = f"{label}: {chart.x.label} {significant(x_value)}, {chart.y.label} {significant(y_value)}"
            parts.append(Markup("<g><title>{}</title>{}</g>").format(hover, Markup(point(curve.style, right, down))))
            if curve.labels and count <= _MOST_LABELLED:
                parts.append(_point_label(label, right, down, taken))
    legend = [Key(curve.name, curve.style, "point") for curve in curves]
    legend += [Key(line.name, front_style, "front") for line in lines]
    return figure(
        chart.key,
        chart.title,
        chart.description or _description(chart, curves),
        Markup("").join(parts),
        legend=legend if len(legend) > 1 else (),
        table=chart.table or _point_table(chart, curves),
        note=chart.note,
    )


def _curves(chart: Chart) -> list[_Curve]:
    curves = []
    for style, series in enumerate(chart.series, start=1):
        xs, ys = np.asarray(series.xs, np.float64), np.asarray(series.ys, np.float64)
        usable = np.isfinite(xs) & np.isfinite(ys)
        if chart.x.log and series.kind == "points":
            usable &= xs > 0.0
        if usable.any():
            labels = (
                [label for label, use in zip(series.labels, usable.tolist(), strict=True) if use]
                if series.labels
                else ()
            )
            curves.append(_Curve(series.name, xs[usable], ys[usable], series.kind, style, labels))
    return curves


def _scales(chart: Chart, curves: Sequence[_Curve], *, margin: float = 0.0) -> tuple[Scale, Scale]:
    scales = []
    for axis, name, begin, end in ((chart.x, "x", LEFT, WIDTH - RIGHT), (chart.y, "y", HEIGHT - BOTTOM, TOP)):
        values = [curve.xs if name == "x" else curve.ys for curve in curves]
        values.append(np.array([*axis.bounds(), *(mark.at for mark in chart.marks if mark.axis == name)]))
        from_zero = name == "y" and chart.from_zero
        scale = scale_for(np.concatenate(values), begin, end, log=axis.log, from_zero=from_zero)
        if margin and not scale.log:
            room = margin * (scale.high - scale.low)
            low = scale.low if scale.low == 0.0 else scale.low - room
            scale = Scale(low, scale.high + room, begin, end)
        elif margin:
            factor = (scale.high / scale.low) ** margin
            scale = Scale(scale.low / factor, scale.high * factor, begin, end, log=True)
        scales.append(scale)
    return scales[0], scales[1]


def _text(axis: Axis, value: float) -> str:
    return percent(value) if axis.percent else significant(value)


def _strips(chart: Chart, curves: Sequence[_Curve], x: Scale) -> Markup:
    """Strips over the chart that tell the values of all curves at their middle."""
    edges = x.grid(_STRIPS + 1)
    middles = x.grid(2 * _STRIPS + 1)[1::2]
    drawn = [curve for curve in curves if curve.kind != "points"]
    values = [curve.at(middles).tolist() for curve in drawn]
    positions = [coordinate(position) for position in x(edges).tolist()]
    width = coordinate((WIDTH - RIGHT - LEFT) / _STRIPS)
    strips = []
    for index, middle in enumerate(middles.tolist()):
        texts = [
            f"{curve.name}: {_text(chart.y, row[index])}"
            for curve, row in zip(drawn, values, strict=True)
            if row[index] == row[index]
        ]
        if texts:
            hover = "\n".join([f"{chart.x.label}: {significant(middle)}", *texts])
            strips.append(
                f'<rect class="hit" x="{positions[index]}" y="{coordinate(TOP)}" width="{width}" '
                f'height="{coordinate(HEIGHT - BOTTOM - TOP)}"><title>{escape(hover)}</title></rect>'
            )
    return Markup("".join(strips))


def _table(chart: Chart, curves: Sequence[_Curve], x: Scale) -> Table:
    places = np.unique(np.concatenate([curve.xs for curve in curves]))
    if len(places) > _MOST_ROWS:
        places = x.grid(_MOST_ROWS)
    values = [curve.at(places).tolist() for curve in curves]
    rows = [
        [_text(chart.x, place), *(_text(chart.y, row[index]) for row in values)]
        for index, place in enumerate(places.tolist())
    ]
    names = [curve.name for curve in curves]
    return Table(f"{chart.title}: {chart.y.label}", [chart.x.label, *names], rows)


def _point_table(chart: Chart, curves: Sequence[_Curve]) -> Table:
    rows = [
        [label, curve.name, _text(chart.x, x), _text(chart.y, y)]
        for curve in curves
        for label, x, y in zip(
            curve.labels or [MISSING] * len(curve.xs), curve.xs.tolist(), curve.ys.tolist(), strict=True
        )
    ]
    return Table(chart.title, ["Point", "Series", chart.x.label, chart.y.label], rows, (0, 1))


def _description(chart: Chart, curves: Sequence[_Curve]) -> str:
    ranges = [
        f"{curve.name} from {_text(chart.y, float(curve.ys.min()))} to {_text(chart.y, float(curve.ys.max()))}"
        for curve in curves
    ]
    return f"{chart.y.label} over {chart.x.label}: {listed(ranges)}."


def _quantile(ordered: NDArray[np.float64], share: float) -> float:
    """The element of an ascending sample at a share of it; halves are rounded up, as in the report."""
    return float(ordered[int((len(ordered) - 1) * share + 0.5)])


def _point_label(label: str, right: float, down: float, taken: list[_Box]) -> Markup:
    """The label beside a point where there is room; without room nothing, since pointer and table tell it too."""
    text = label if len(label) <= _LABEL_LENGTH else f"{label[: _LABEL_LENGTH - 1]}…"
    width = _LABEL_CHARACTER * len(text)
    for anchor, across in (("start", 8.0), ("end", -8.0)):
        for drop in (-6.0, 14.0):
            left = right + across - (width if anchor == "end" else 0.0)
            box = (left, down + drop - 11.0, left + width, down + drop + 3.0)
            inside = box[0] >= LEFT and box[2] <= WIDTH and box[1] >= 0.0 and box[3] <= HEIGHT - BOTTOM
            if inside and not any(_overlap(box, other) for other in taken):
                taken.append(box)
                return Markup('<text class="point-label" x="{}" y="{}" text-anchor="{}">{}</text>').format(
                    coordinate(right + across), coordinate(down + drop), anchor, text
                )
    return Markup("")


def _overlap(box: _Box, other: _Box) -> bool:
    return box[0] < other[2] and other[0] < box[2] and box[1] < other[3] and other[1] < box[3]
