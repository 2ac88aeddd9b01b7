"""The page of a comparison, as text and in a real browser."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from actors.cli import main
from tests.pages.conftest import OpenPage

Compare = Callable[..., Path]

COUNT = 40
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]


@pytest.fixture
def comparison_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Compare:
    """A function that replays a spec with each of some texts of options, and returns the page of the comparison."""
    requests = [
        {"id": f"<r{n}>", "arrival_time_ms": 20.0 * n, "input_tokens": 500, "output_tokens": 5 + n}
        for n in range(COUNT)
    ]
    spec = tmp_path / "spec.json"
    document = {"topology": {"kind": "aggregated", "workers": {"initial_workers": 1}}, "requests": requests}
    spec.write_text(json.dumps(document))

    def compare(*overrides: str, options: tuple[str, ...] = (), code: int = 0) -> Path:
        runs = []
        for number, override in enumerate(overrides):
            runs.append(str(tmp_path / f"run <{number}>"))
            sets = [part for text in override.split() for part in ("--set", text)]
            assert main(["replay", str(spec), "--quiet", "--output-dir", runs[-1], *sets]) == 0
        out = tmp_path / "out"
        assert main(["compare", *runs, "--quiet", "--output-dir", str(out), *options]) == code
        capsys.readouterr()
        return out / "comparison.html"

    return compare


WORKERS = "topology.workers.initial_workers={}".format


def test_texts_are_escaped_and_nothing_is_fetched(comparison_page: Compare) -> None:
    text = comparison_page(WORKERS(1), WORKERS(2)).read_text()
    assert re.search(r"&lt;r\d+&gt;", text)
    assert not re.search(r"<r\d+>", text)
    assert "run &lt;1&gt;" in text
    assert re.findall(r"(?:src|href)=\"(?!#|data:)[^\"]*", text) == []


@pytest.mark.parametrize("dark", [False, True])
def test_two_runs(comparison_page: Compare, browser: OpenPage, dark: bool) -> None:
    path = comparison_page(WORKERS(1), WORKERS(2) + " sla.ttft_ms=5", options=("--fail-if", "gpu_hours>+1%"), code=1)
    opened = browser(path, dark=dark)
    page = opened.page
    assert opened.console == []
    assert opened.fetched == [path.as_uri()]
    assert page.title() == "Comparison of 2 runs"
    assert [heading.text_content() for heading in page.get_by_role("heading", level=2).all()] == [
        "Broken bounds",
        "Warnings",
        "Runs",
        "Metrics",
        "Spec",
        "Distributions",
        "Requests",
    ]
    row = page.get_by_role("row", name="mean_ttft_ms").first
    assert re.search(r"lower.*✓ -\d+\.\d\d % better", row.text_content() or "")
    assert "A: 1B: 2" in (page.get_by_role("row", name="initial_workers").text_content() or "")
    images = page.get_by_role("img").all()
    assert len(images) == 6
    assert all(image.locator("path.curve, rect.bar").count() for image in images)
    page.get_by_text(re.compile(r"All \d+ metrics")).click()
    assert page.get_by_role("row", name="total_throughput_tok_s").is_visible()


@pytest.mark.parametrize("width", [360, 1280])
def test_eight_runs_fit(comparison_page: Compare, browser: OpenPage, width: int) -> None:
    page = browser(comparison_page(*map(WORKERS, range(1, 9))), width=width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    names = [image.locator("> title").text_content() or "" for image in page.get_by_role("img").all()]
    assert names[3:6] == [
        "Time to first token: change from A",
        "Mean inter-token latency of a request: change from A",
        "End-to-end latency: change from A",
    ]
    assert len(page.locator("#distribution-ttft_ms .curve.s8").all()) == 2
    # The key of a row stays in sight while its values are scrolled.
    before = page.get_by_role("row", name="gpu_hours").first.get_by_role("rowheader").bounding_box()
    page.locator("#metrics .scroll").first.evaluate("element => element.scrollLeft = 200")
    after = page.get_by_role("row", name="gpu_hours").first.get_by_role("rowheader").bounding_box()
    assert before is not None
    assert after is not None
    assert before["x"] == after["x"]


def test_runs_without_records_and_equal_runs(comparison_page: Compare, browser: OpenPage) -> None:
    lean = browser(comparison_page(WORKERS(1), "record_per_request=false")).page
    assert lean.get_by_role("heading", name="Requests").count() == 0
    assert lean.get_by_role("img").count() == 3


def test_equal_runs_have_no_charts_of_changes(comparison_page: Compare, browser: OpenPage) -> None:
    page = browser(comparison_page(WORKERS(1), WORKERS(1))).page
    assert page.get_by_text("The specs are equal.").is_visible()
    assert page.get_by_text("Their latencies are equal.").is_visible()
    assert page.get_by_role("img").count() == 3


def test_latencies_that_no_request_has(comparison_page: Compare, browser: OpenPage) -> None:
    one_token = " ".join(f"requests.{n}.output_tokens=1" for n in range(COUNT))
    opened = browser(comparison_page(f"{WORKERS(1)} {one_token}", f"{WORKERS(2)} {one_token}"))
    assert opened.console == []
    assert opened.page.get_by_text("No data.").count() >= 1


@pytest.mark.parametrize("dark", [False, True])
def test_accessibility_rules_hold(comparison_page: Compare, browser: OpenPage, dark: bool) -> None:
    from axe_playwright_python.sync_playwright import Axe

    # Rules are injected as a script, which the page itself forbids.
    path = comparison_page(WORKERS(1), WORKERS(2) + " sla.ttft_ms=5", "adapters.placement.provider=kv_router")
    opened = browser(path, dark=dark, bypass_csp=True)
    opened.page.evaluate("document.querySelectorAll('details').forEach(e => { e.open = true })")
    found = Axe().run(opened.page, options={"runOnly": TAGS}).response
    broken = [(rule["id"], node["html"][:200]) for rule in found["violations"] for node in rule["nodes"]]
    assert broken == []
    assert len(found["passes"]) > 15
