"""The page of a sweep, as text and in a real browser."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.sweep.page import sweep_page
from actors.sweep.points import Sweep, load_sweep
from actors.sweep.results import point_results, rank
from messages.sweep import PointOutcome
from tests.pages.conftest import OpenPage
from tests.sweep.documents import BLOCKS, ONE_REQUEST, WORKERS, write_sweep

OBJECTIVE = {"key": "gpu_hours", "goal": "min"}


def sweep_of(folder: Path, **document: object) -> Sweep:
    axes = {WORKERS: [1, 2, 3, 4], BLOCKS: [140, 280, 560]}
    return load_sweep(write_sweep(folder, {"base": ONE_REQUEST, "axes": axes, **document}))


def page_of(sweep: Sweep) -> str:
    outcomes = {}
    for point in sweep.points:
        workers, blocks = point.axes[WORKERS], point.axes[BLOCKS]
        figures = {"gpu_hours": 0.03 * workers + 3.0 / blocks, "p99_ttft_ms": 2e6 / (workers * blocks) ** 1.2}
        outcomes[point.digest] = PointOutcome(None, figures)
    outcomes[sweep.points[0].digest] = PointOutcome("the <run> met a dead end")
    results = point_results(sweep, outcomes)
    return sweep_page("sweep.json", sweep.spec, results, rank(sweep, results))


def test_the_page_is_the_same_every_time_and_escapes_texts(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, objective=OBJECTIVE, constraints=[{"key": "p99_ttft_ms", "op": "<=", "value": 1200}])
    page = page_of(sweep)
    assert page == page_of(sweep)
    assert "the &lt;run&gt; met a dead end" in page
    assert "<run>" not in page
    assert "violates p99_ttft_ms &lt;= 1200" in page
    assert len(page) < 100_000


def test_a_sweep_without_an_objective_has_a_page_without_a_plot(tmp_path: Path) -> None:
    page = page_of(sweep_of(tmp_path))
    assert "Trade-off" not in page
    assert "Best" not in page
    assert "num_gpu_blocks" in page


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [1280, 400])
def test_the_page_in_a_browser(width: int, dark: bool, browser: OpenPage, tmp_path: Path) -> None:
    path = tmp_path / "sweep.html"
    bounds = [{"key": "p99_ttft_ms", "op": "<=", "value": 1200}]
    path.write_text(page_of(sweep_of(tmp_path, objective=OBJECTIVE, constraints=bounds)))
    opened = browser(path, width=width, dark=dark)
    assert opened.console == []
    assert opened.fetched == [path.resolve().as_uri()]
    (plot,) = opened.page.locator("svg.plot").all()
    box = plot.bounding_box()
    assert box is not None
    assert box["width"] > 250
    assert opened.page.locator("h2").all_inner_texts()[:2] == ["Failed", "Best: point 2"]
    # Wide tables scroll in regions of their own.
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    opened.page.screenshot(path=tmp_path / "page.png", full_page=True)
