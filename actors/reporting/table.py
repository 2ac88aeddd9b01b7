"""The table and the lines below it that `replay` prints."""

from __future__ import annotations

from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.reporting.summary import Summary
from messages.report import Number, ReplayReport, Shortfall

COLUMNS = ("avg", "min", "max", "p99", "p90", "p75", "std")
_KEY_OF_COLUMN = {"avg": "mean"}
_DISTRIBUTIONS = {
    "Time to First Token (ms)": "ttft_ms",
    "Time to Second Token (ms)": "ttst_ms",
    "Request Latency (ms)": "e2e_latency_ms",
    "Inter Token Latency (ms)": "itl_ms",
    "Output Throughput Per User (tokens/sec)": "output_token_throughput_per_user",
}
_SINGLE_VALUES = {
    "Output Throughput (tokens/sec)": "output_throughput_tok_s",
    "Request Throughput (requests/sec)": "request_throughput_rps",
    "Goodput (requests/sec)": "goodput_request_throughput_rps",
    "Completed Requests": "completed_requests",
}
_WIDEST = 1000  # columns
_REASON_LENGTH = 120


def print_table(report: ReplayReport, file: TextIO) -> None:
    """Print the figures of a report for a reader; a figure without a sample is `N/A`."""
    console = Console(file=file, highlight=False)
    table = _table(report.summary)
    # A narrow terminal shall wrap lines rather than lose digits.
    natural = console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum
    console.width = max(console.width, natural)
    console.print(table)
    for line in _lines(report):
        console.print(Text(line), soft_wrap=True)


def shortfall_text(shortfall: Shortfall) -> str:
    """Return for example `3 rejected (prompt too long)`, with the first reasons cut short."""
    if not shortfall.reasons:
        return f"{shortfall.count} {shortfall.status}"
    reasons = "; ".join(" ".join(reason.split())[:_REASON_LENGTH] for reason in shortfall.reasons)
    return f"{shortfall.count} {shortfall.status} ({reasons})"


def _table(summary: Summary) -> Table:
    table = Table(title="LLM Metrics", box=box.HEAVY_HEAD)
    table.add_column("Metric", justify="right", no_wrap=True)
    for column in COLUMNS:
        table.add_column(column, justify="right", no_wrap=True)
    for title, suffix in _DISTRIBUTIONS.items():
        keys = [f"{_KEY_OF_COLUMN.get(column, column)}_{suffix}" for column in COLUMNS]
        table.add_row(title, *(_number(summary[key]) for key in keys))
    for title, key in _SINGLE_VALUES.items():
        if key in summary:
            table.add_row(title, _number(summary[key]), *("N/A" for _ in COLUMNS[1:]))
    return table


def _lines(report: ReplayReport) -> list[str]:
    summary = report.summary
    lines = []
    if report.shortfalls:
        total = sum(shortfall.count for shortfall in report.shortfalls)
        texts = "; ".join(shortfall_text(shortfall) for shortfall in report.shortfalls)
        lines.append(f"Not Completed: {total} of {summary['num_requests']} requests: {texts}")
    return [
        *lines,
        f"Simulated Time (ms): {_number(summary['duration_ms'])}",
        f"Wall Time (ms): {_number(summary['wall_time_ms'])}",
        f"Prefix Cache Reused Ratio: {_number(summary['prefix_cache_reused_ratio'], 4)}",
        "First Admission Prefix Cache Reused Ratio: "
        + _number(summary["first_admission_prefix_cache_reused_ratio"], 4),
    ]


def _number(value: Number | str | None, digits: int = 2) -> str:
    return f"{value:,.{digits}f}" if isinstance(value, int | float) else "N/A"
