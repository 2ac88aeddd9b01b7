"""Charts in a real browser: nothing fetched, nothing wrong, and every chart has a size and a name."""

from __future__ import annotations

from pathlib import Path

import pytest
from markupsafe import Markup

from actors.pages.charts import Axis, Bars, Chart, Mark, Part, Series, bars, cdf_chart, columns, line_chart, scatter
from actors.pages.page import _environment
from tests.pages.conftest import OpenPage

TIME = Axis("Time (s)")


def all_charts() -> Markup:
    lines = Chart(
        key="lines",
        title="Lines",
        x=TIME,
        y=Axis("Requests"),
        series=[Series(f"line {n}", range(50), [n + (x % 7) / 7 for x in range(50)], "step") for n in range(8)],
        marks=[Mark(30, "now")],
    )
    points = Chart(
        key="points",
        title="Points",
        x=Axis("Cost", log=True),
        y=Axis("Latency (ms)"),
        series=[Series(f"set {n}", [1 + n, 10 + n], [5, 3 - n / 2], labels=[f"a{n}", f"b{n}"]) for n in range(4)],
    )
    front = Series("front", [1, 2, 10], [5, 4, 3])
    parts = [Part(f"part {n}", [n + 1, 2 * n, 3]) for n in range(8)]
    lying = Bars("lying", "Lying bars", "Request", ["<b>", "request with a very long name", "c"], Axis("ms"), parts)
    standing = Bars("standing", "Columns", "Worker", ["0", "1", "2"], Axis("Tokens"), parts, [Mark(20, "mean", "y")])
    cdf = cdf_chart("cdf", "Distribution", Axis("ms", log=True), {"a": [1, 2, 3, 1000], "b": [5] * 10})
    return Markup("").join([line_chart(lines), scatter(points, front), bars(lying), columns(standing), cdf])


TEMPLATE = """{% extends "layout.html" %}
{% block content %}<h2>Charts</h2><div class="charts">{{ charts }}</div>{% endblock %}"""


@pytest.fixture
def page_of_charts(tmp_path: Path) -> Path:
    path = tmp_path / "charts.html"
    path.write_text(_environment().from_string(TEMPLATE).render(title="Charts", charts=all_charts()))
    return path


def test_every_kind_of_chart(page_of_charts: Path, browser: OpenPage) -> None:
    opened = browser(page_of_charts)
    assert opened.console == []
    assert opened.fetched == [page_of_charts.as_uri()]
    images = opened.page.get_by_role("img").all()
    boxes = [image.bounding_box() for image in images]
    assert all(box is not None and box["width"] > 300 and box["height"] > 80 for box in boxes)
    names = ["Lines", "Points", "Lying bars", "Columns", "Distribution"]
    assert [image.locator("> title").text_content() for image in images] == names
    assert all(opened.page.get_by_role("img", name=name).count() == 1 for name in names)
