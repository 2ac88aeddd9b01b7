"""The page about a run: what it tells of small runs, odd ones included."""

from __future__ import annotations

import re

import msgspec
import pytest

from actors.pages.report.page import report_page
from tests.pages.reading import PageReader
from tests.pages.runs import LONG_ID, SPECS, results

PLACEHOLDERS = re.compile(r"\b(?:nan|inf|None)\b")


def page_of(name: str) -> str:
    return report_page(results(SPECS[name]))


@pytest.mark.parametrize("name", SPECS)
def test_every_kind_of_run_has_a_sound_page(name: str) -> None:
    page = page_of(name)
    read = PageReader(page).check()
    assert read.headings[0] == (1, "Replay report")
    assert {"Figures", "Distributions of latencies", "Over time", "Slowest requests", "Spec"} <= {
        text for _, text in read.headings
    }
    assert not PLACEHOLDERS.search(re.sub(r"<details>\s*<summary>resolved_spec.json.*", "", page, flags=re.DOTALL))
    assert "http" not in page.replace("http-equiv", "")
    assert len(page) < 400_000


def test_the_same_run_gives_the_same_bytes() -> None:
    run = results(SPECS["telemetry"])
    again = results(SPECS["telemetry"])
    host_times = {key: again.report[key] for key in run.report if key.startswith(("wall_time", "processed_"))}
    assert report_page(msgspec.structs.replace(run, report=run.report | host_times)) == report_page(again)


def section(page: str, key: str) -> str:
    """The HTML of a section of a page; empty where there is none."""
    found = re.search(rf'<section id="{key}".*?</section>', page, re.DOTALL)
    return found.group() if found else ""


def rows(html: str) -> list[list[str]]:
    """The cells of all tables."""
    found = re.findall(r"<tr>(.*?)</tr>", html)
    return [re.findall(r"<t[hd][^>]*>(.*?)</t[hd]>", row) for row in found]


def test_headline_and_table_are_those_of_the_report() -> None:
    run = results(SPECS["few requests"])
    figures = section(report_page(run), "figures")
    assert "<dt>Completed requests</dt><dd>3</dd><dd>of 3</dd>" in figures
    mean, median, p99 = (f"{run.report[f'{statistic}_ttft_ms']:.4g}" for statistic in ("mean", "median", "p99"))
    assert f"<dt>TTFT, mean (ms)</dt><dd>{mean}</dd><dd>median\u00a0{median}, p99\u00a0{p99}</dd>" in figures
    (ttft,) = (row for row in rows(figures) if row[0].startswith("Time to first token"))
    keys = [f"{name}_ttft_ms" for name in ("mean", "min", "median", "p75", "p90", "p95", "p99", "max", "std")]
    assert ttft[1:] == [f"{run.report[key]:,.2f}" for key in keys]


def test_names_are_escaped_and_shortened() -> None:
    page = page_of("odd names")
    assert "<script" not in page
    slow = section(page, "slowest")
    assert "&lt;script&gt;alert(&#39;1&#39;)&lt;/script&gt;&amp;&#34;née 请求 🚀" in slow
    assert LONG_ID not in slow
    assert f"{LONG_ID[:20]}" in slow


def test_slowest_requests_are_split_up() -> None:
    (head, *body) = rows(section(page_of("two pools"), "slowest"))
    assert head[:7] == [
        "Request",
        "Arrival (ms)",
        "Latency (ms)",
        "Queue (ms)",
        "Prefill (ms)",
        "Transfer (ms)",
        "Decode (ms)",
    ]
    for row in body[:3]:
        latency, *split = (float(cell) for cell in row[2:7])
        assert sum(split) == pytest.approx(latency, abs=0.05)


def test_requests_that_did_not_complete_are_told_with_reasons() -> None:
    assert rows(section(page_of("some rejected"), "endings"))[1] == [
        "rejected",
        "1",
        "2000 tokens need 500 KV blocks, the cache has 64",
        "a",
    ]
    assert ["unfinished", "2", "the run ended before them", ""] in rows(section(page_of("cut off"), "endings"))
    assert section(page_of("few requests"), "endings") == ""
    assert rows(section(page_of("no records"), "endings"))[1][:2] == ["rejected", "1"]


def test_what_needs_samples_or_records_is_left_out_with_a_reason() -> None:
    page = page_of("few requests")
    assert "sample_interval_ms" in section(page, "time")
    assert "sample_interval_ms" not in section(page_of("telemetry"), "time")
    assert "Please note" not in page
    page = page_of("no records")
    assert "the spec says record_per_request: false" in page
    missing = msgspec.structs.replace(results(SPECS["few requests"]), requests=None, spec=None)
    assert "the directory holds no requests.jsonl" in report_page(missing)


def test_policies_have_a_section_where_they_ran() -> None:
    page = page_of("scaling")
    assert "Decisions that name a target: 2." in section(page, "planner")
    assert [row[2] for row in rows(section(page, "planner"))] == ["Workers", "3", "1"]
    assert 'id="workers-over-time"' in page
    assert section(page, "router") == ""
    routed = rows(section(page_of("kv router"), "router"))
    assert ["Requests placed", "3"] in routed
    assert section(page_of("kv router"), "planner") == ""


def test_inline_requests_of_the_spec_are_shortened() -> None:
    spec = SPECS["few requests"]
    many = [{**spec["requests"][0], "id": f"request {index}"} for index in range(500)]
    page = report_page(results({**spec, "requests": many}))
    assert "… and 480 more" in section(page, "spec")
    assert len(section(page, "spec")) < 20_000


def test_very_large_clusters_and_specs_make_no_large_page() -> None:
    spec = {**SPECS["kv router"], "topology": {"kind": "aggregated", "workers": {"initial_workers": 5000}}}
    row = {**spec["requests"][0], "metadata": {f"key {index}": "x" * 100 for index in range(5000)}}
    page = report_page(results({**spec, "requests": [row]}))
    assert len(page) < 1_000_000
    assert "The charts show the first 256 of 5000, the table 500." in page
    assert "… cut" in section(page, "spec")
