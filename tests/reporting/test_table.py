"""What `replay` prints for a reader."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

from actors.reporting.report import build_report
from actors.reporting.table import print_table
from messages.report import ReplayReport
from messages.requests import Status
from messages.spec import Sla

Make = Callable[..., Any]


def printed(report: ReplayReport) -> list[str]:
    file = io.StringIO()
    print_table(report, file)
    return [line.strip() for line in file.getvalue().splitlines()]


def cells(lines: list[str], title: str) -> list[str]:
    (line,) = [line for line in lines if title in line]
    return [cell.strip() for cell in line.strip("│┃").split("┃" if "┃" in line else "│")][1:]


def test_figures_by_row_and_column(request_timeline: Make, timelines: Make, figures: Make) -> None:
    run = timelines((request_timeline(0, terminal_ms=31_250.0), [1250.0, 31_250.0]))
    lines = printed(build_report(run, figures(sla=Sla(ttft_ms=1.0))))
    assert cells(lines, "Metric ┃") == ["avg", "min", "max", "p99", "p90", "p75", "std"]
    assert cells(lines, "Time to First Token") == ["1,250.00"] * 6 + ["0.00"]
    assert cells(lines, "Request Latency") == ["31,250.00"] * 6 + ["0.00"]
    assert cells(lines, "Completed Requests") == ["1.00"] + ["N/A"] * 6
    assert cells(lines, "Goodput") == ["0.00"] + ["N/A"] * 6
    assert "Wall Time (ms): 2.00" in lines
    assert "Prefix Cache Reused Ratio: 0.0000" in lines
    assert "First Admission Prefix Cache Reused Ratio: 0.0000" in lines


def test_figures_without_a_sample_are_not_available(timelines: Make, figures: Make) -> None:
    lines = printed(build_report(timelines(), figures()))
    assert cells(lines, "Inter Token Latency") == ["N/A"] * 7
    assert not any("Goodput" in line for line in lines)


def test_requests_that_did_not_complete_are_told_with_their_reasons(
    request_timeline: Make, timelines: Make, figures: Make
) -> None:
    rejected = {"status": Status.REJECTED, "terminal_ms": 1.0, "reused": ()}
    run = timelines(
        (request_timeline(0, **rejected, reason="prompt [9] is too long"), []),
        (request_timeline(1, **rejected, reason="x\n" * 200), []),
        (request_timeline(2, status=None), []),
    )
    (line,) = [line for line in printed(build_report(run, figures())) if line.startswith("Not Completed")]
    assert line.startswith("Not Completed: 3 of 3 requests: 2 rejected (prompt [9] is too long; x x")
    assert line.endswith("; 1 unfinished")
    assert len(line) < 260
