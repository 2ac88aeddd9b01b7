"""The page about a run in a real browser: sound, complete, legible in light and dark, usable without a mouse."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from actors.pages.report.page import report_page
from tests.pages.conftest import OpenPage
from tests.pages.runs import SPECS, results

CHARTS = {
    "telemetry of two pools": 3 + 6 + 2,  # distributions, time, slowest; the pools have a worker each
    "telemetry": 3 + 6 + 3 + 2,
    "scaling": 3 + 4 + 2,  # the first worker gets all requests
    "two pools": 3 + 3 + 2 + 3 + 2,
    "no records": 3,
}

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture
def page_file(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    path = tmp_path / "report.html"
    path.write_text(report_page(results(SPECS[request.param])), encoding="utf-8")
    return path


@pytest.mark.parametrize("page_file", SPECS, indirect=True)
def test_nothing_is_fetched_and_nothing_goes_wrong(page_file: Path, browser: OpenPage) -> None:
    opened = browser(page_file)
    assert opened.console == []
    assert opened.fetched == [page_file.as_uri()]
    assert opened.page.evaluate("document.querySelector('script') === null")


@pytest.mark.parametrize(("page_file", "count"), CHARTS.items(), indirect=["page_file"])
def test_charts_have_size_name_and_data(page_file: Path, count: int, browser: OpenPage) -> None:
    opened = browser(page_file)
    figures = opened.page.get_by_role("figure").all()
    assert len(figures) == count
    for figure in figures:
        title = figure.locator("figcaption").inner_text()
        image = figure.get_by_role("img", name=re.compile(f"^{re.escape(title)}"))
        box = image.bounding_box()
        assert box is not None
        assert box["width"] > 250
        assert box["height"] > 60
        assert len(image.locator("desc").text_content() or "") > 20
        drawn = image.evaluate("e => [...e.querySelectorAll('.curve, .bar, .point')].map(e => e.getBBox().width)")
        assert drawn
        assert max(drawn) > 0
        assert figure.get_by_role("table").count() == 0
        figure.locator("summary").click()
        assert figure.get_by_role("table").is_visible()
        assert figure.get_by_role("row").count() > 1


@pytest.mark.parametrize("page_file", ["telemetry"], indirect=True)
def test_light_and_dark_differ_in_colours_alone(page_file: Path, browser: OpenPage) -> None:
    shots, texts, grounds = [], [], []
    for dark in (False, True):
        opened = browser(page_file, dark=dark)
        shots.append(opened.page.screenshot())
        texts.append(opened.page.locator("body").inner_text())
        grounds.append(opened.page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert shots[0] != shots[1]
    assert texts[0] == texts[1]
    assert grounds == ["rgb(255, 255, 255)", "rgb(20, 24, 31)"]


@pytest.mark.parametrize("width", [320, 390, 768, 1280, 2560])
@pytest.mark.parametrize("page_file", ["odd names", "two pools"], indirect=True)
def test_page_never_scrolls_sideways(page_file: Path, width: int, browser: OpenPage) -> None:
    opened = browser(page_file, width=width)
    opened.page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true })")
    assert opened.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    outside = (
        "[...document.querySelectorAll('svg.plot')].filter(e => e.getBoundingClientRect().right > innerWidth).length"
    )
    assert opened.page.evaluate(outside) == 0


@pytest.mark.parametrize("page_file", ["two pools"], indirect=True)
def test_labels_stay_inside_their_pictures(page_file: Path, browser: OpenPage) -> None:
    for width in (390, 1280):
        opened = browser(page_file, width=width)
        cut = opened.page.evaluate(
            """[...document.querySelectorAll('svg.plot')].flatMap(svg => {
                const picture = svg.getBoundingClientRect();
                return [...svg.querySelectorAll('text')].filter(text => {
                    const box = text.getBoundingClientRect();
                    return box.left < picture.left - 1 || box.right > picture.right + 1
                        || box.top < picture.top - 1 || box.bottom > picture.bottom + 1;
                }).map(text => text.textContent);
            })"""
        )
        assert cut == []


@pytest.mark.parametrize("page_file", ["telemetry"], indirect=True)
def test_keyboard_reaches_links_data_and_tables(page_file: Path, browser: OpenPage) -> None:
    page = browser(page_file).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    page.reload()
    reached = []
    for _ in range(80):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("[document.activeElement.localName, document.activeElement.className]"))
    kinds = {tuple(one) for one in reached}
    assert {("a", "skip"), ("a", ""), ("summary", ""), ("div", "scroll")} <= kinds
    page.locator("details.data summary").first.focus()
    page.keyboard.press("Enter")
    assert page.locator("details.data table").first.is_visible()


@pytest.mark.parametrize("page_file", ["telemetry"], indirect=True)
def test_landmarks_and_headings(page_file: Path, browser: OpenPage) -> None:
    page = browser(page_file).page
    for landmark in ("banner", "navigation", "main", "contentinfo"):
        assert page.get_by_role(landmark).count() == 1  # type: ignore[arg-type]
    assert page.get_by_role("heading", level=1).inner_text() == "Replay report"
    for section in page.locator("section").all():
        assert section.get_by_role("heading", level=2).count() == 1
    tree = page.locator("main").aria_snapshot()
    assert 'img "Time to first token (TTFT)' in tree
    assert 'region "Table: Latencies of completed requests"' in tree
    assert "columnheader" in tree
    assert "rowheader" in tree


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("page_file", ["telemetry", "two pools", "no records", "some rejected"], indirect=True)
def test_accessibility_rules_hold(page_file: Path, dark: bool, browser: OpenPage) -> None:
    from axe_playwright_python.sync_playwright import Axe

    # Rules are injected as a script, which the page itself forbids.
    opened = browser(page_file, dark=dark, bypass_csp=True)
    opened.page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true })")
    found: dict[str, Any] = Axe().run(opened.page, options={"runOnly": TAGS}).response
    broken = [
        (rule["id"], node["html"][:200], node["failureSummary"])
        for rule in found["violations"]
        for node in rule["nodes"]
    ]
    assert broken == []
    assert len(found["passes"]) > 15


@pytest.mark.parametrize("page_file", ["telemetry"], indirect=True)
def test_prints_without_what_only_a_screen_can_use(page_file: Path, browser: OpenPage) -> None:
    page = browser(page_file, dark=True).page
    page.emulate_media(media="print")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert not page.get_by_role("navigation").is_visible()
    page.set_viewport_size({"width": 700, "height": 1000})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert len(page.pdf()) > 10_000
