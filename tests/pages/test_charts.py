"""Charts as text: what is drawn, how series are told apart, and that nothing gets out of its place."""

from __future__ import annotations

import re

import numpy as np
import pytest
from markupsafe import Markup

from actors.pages.charts import Axis, Bars, Chart, Mark, Part, Series, bars, cdf_chart, columns, line_chart, scatter
from tests.pages.reading import PageReader
from tests.pages.runs import NASTY_ID

X, Y = Axis("Time (s)"), Axis("Requests")


def chart(*series: Series, **parts: object) -> Chart:
    return Chart(**{"key": "c", "title": "Title", "x": X, "y": Y, "series": series, **parts})  # type: ignore[arg-type]


def curves(markup: Markup) -> list[tuple[str, str]]:
    return re.findall(r'<path class="curve (s\d)" d="([^"]*)"', re.sub(r"<ul.*?</ul>", "", markup, flags=re.DOTALL))


def cells(markup: Markup) -> list[list[str]]:
    rows = re.findall(r"<tr>(.*?)</tr>", markup)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in rows]


def test_lines_and_steps() -> None:
    drawn = line_chart(chart(Series("a", [0, 1, 2], [0, 2, 1]), Series("b", [0, 1, 2], [0, 2, 1], "step")))
    (first, line), (second, steps) = curves(drawn)
    assert (first, second) == ("s1", "s2")
    assert line == "M60 204L223 14L386 109"
    assert steps == "M60 204H223V14H386V109"
    assert cells(drawn) == [["Time (s)", "a", "b"], ["0", "0", "0"], ["1", "2", "2"], ["2", "1", "1"]]
    assert "Requests over Time (s): a from 0 to 2; b from 0 to 2." in drawn
    PageReader(str(drawn))


def test_a_table_tells_what_no_curve_is_there_for() -> None:
    drawn = line_chart(chart(Series("a", [0, 1], [1, 2]), Series("b", [3, 4], [5, 6], "step")))
    assert cells(drawn)[1:] == [["0", "1", "\u2013"], ["1", "2", "\u2013"], ["3", "\u2013", "5"], ["4", "\u2013", "6"]]


def test_long_curves_make_no_long_chart() -> None:
    xs = np.linspace(0, 100, 200_000)
    drawn = line_chart(chart(Series("a", xs, np.sin(xs)), Series("b", xs, np.cos(xs), "step")))
    assert len(drawn) < 40_000
    assert len(cells(drawn)) == 25


@pytest.mark.parametrize("draw", [line_chart, scatter])
def test_nothing_to_draw_is_said(draw: object) -> None:
    for series in ((), (Series("a", [], []),), (Series("a", [1.0], [float("nan")]),)):
        assert "No data." in draw(chart(*series))  # type: ignore[operator]
    assert "No data." in bars(Bars("b", "Title", "Worker", [], Y, [Part("a", [])]))
    assert "No data." in columns(Bars("b", "Title", "Worker", [], Y, [Part("a", [])]))


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("values", [[0.0], [5.0], [0.0, 0.0], [1e-30, 1e30], [-5.0, 5.0]])
def test_odd_values_are_drawn_somewhere(values: list[float], log: bool) -> None:
    axis = Axis("ms", log=log)
    one = chart(Series("a", values, values), Series("b", values, values, "step"), x=axis, y=axis)
    for drawn in (line_chart(one), scatter(one), cdf_chart("d", "Distribution", axis, {"a": values})):
        assert not re.search(r"\b(nan|inf)\b", drawn)
        PageReader(str(drawn))


def test_marks_lie_inside_and_are_labelled() -> None:
    drawn = line_chart(chart(Series("a", [0, 1], [0, 1]), marks=[Mark(3.0, "bound <x>"), Mark(0.5, "half", "y")]))
    assert drawn.count('class="mark"') == 2
    assert "bound &lt;x&gt;" in drawn


def test_texts_are_escaped() -> None:
    nasty = [NASTY_ID] * 2
    axis = Axis(NASTY_ID)
    one = chart(Series(NASTY_ID, [1, 2], [3, 4], labels=nasty), title=NASTY_ID, x=axis, y=axis, note=NASTY_ID)
    pile = Bars("b", NASTY_ID, NASTY_ID, nasty, axis, [Part(NASTY_ID, [1, 2]), Part("b", [1, 2])])
    for drawn in (line_chart(one), scatter(one), bars(pile), columns(pile)):
        assert "<script" not in drawn
        assert "&lt;script&gt;" in drawn
        PageReader(str(drawn))


def test_distribution_has_a_table_of_shares() -> None:
    drawn = cdf_chart("d", "Distribution", Axis("ms"), {"a": range(1, 101), "b": []})
    assert cells(drawn)[0] == ["Share of the sample", "a"]
    assert ["50.0 %", "51"] in cells(drawn)
    assert ["100.0 %", "100"] in cells(drawn)
    assert "half are at most 51" in drawn


def test_points_have_shapes_labels_and_a_front() -> None:
    first = Series("a", [1, 2], [1, 2], labels=["p", "q"])
    drawn = scatter(chart(first, Series("b", [3], [1], labels=["r"])), Series("best", [1, 3], [1, 1]))
    assert '<circle class="point s1"' in drawn
    assert '<polygon class="point s2"' in drawn
    assert drawn.count('class="front"') == 2  # and in the legend
    assert [label for label in "pqr" if f">{label}</text>" in drawn] == ["p", "q", "r"]
    assert ["r", "b", "3", "1"] in cells(drawn)


def test_many_points_at_one_place_have_one_label() -> None:
    drawn = scatter(chart(Series("a", [1] * 9, [1] * 9, labels=["label"] * 9)))
    assert 1 <= drawn.count('class="point-label"') <= 4
    assert drawn.count("<title>label: ") == 9


def test_bars_are_stacked_and_summed() -> None:
    drawn = bars(Bars("b", "Title", "Request", ["x", "y"], Axis("ms"), [Part("a", [1, 0]), Part("b", [2, 4])]))
    assert re.findall(r'fill="url\(#hatch-(\d)\)"><title>', drawn) == ["1", "2", "2"]
    assert cells(drawn) == [["Request", "a", "b"], ["x", "1", "2"], ["y", "0", "4"]]
    assert ">3</text>" in drawn


def test_columns_label_some_of_many() -> None:
    names = [str(index) for index in range(100)]
    drawn = columns(Bars("b", "Title", "Worker", names, Y, [Part("a", range(100))]))
    assert drawn.count('class="bar"') == 99
    assert len(cells(drawn)) == 101
    picture = drawn.partition("<svg")[2].partition("</svg>")[0]
    assert picture.count('text-anchor="middle"') == 10 + 2
