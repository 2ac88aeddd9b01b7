"""The table of errors that `calibrate` prints, and the lines around it."""

from __future__ import annotations

from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.calibration.measured import skipped_text
from messages.calibration import CalibrationReport, Comparison

_TITLES = {"ttft_ms": "TTFT (ms)", "tpot_ms": "TPOT (ms)", "e2e_latency_ms": "E2E (ms)"}


def print_calibration(report: CalibrationReport, file: TextIO) -> None:
    """Print what was fitted, why, and the errors before and after."""
    console = Console(file=file, highlight=False)
    for line in _introduction(report):
        console.print(Text(line), soft_wrap=True)
    table = _table(report)
    # A narrow terminal shall wrap lines rather than lose digits.
    console.width = max(console.width, console.measure(table, options=console.options.update(max_width=1000)).maximum)
    console.print(table)


def _introduction(report: CalibrationReport) -> list[str]:
    used = f"Measured: {report.rows} of {report.requests} requests ({report.format}, joined by {report.joined_by})"
    if report.skipped:
        used += f"; skipped: {skipped_text(report.skipped)}"
    adjust = report.adjust
    return [
        used,
        f"Arrivals: {'as measured' if report.arrivals == 'measured' else 'as the spec says'}",
        f"Adjustment: prefill_scale {adjust.prefill_scale:g}, decode_scale {adjust.decode_scale:g}, "
        f"pass_overhead_ms {adjust.pass_overhead_ms:g}, request_overhead_ms {adjust.request_overhead_ms:g}",
        f"Why: {report.reason} ({report.replays} replays)",
    ]


def _table(report: CalibrationReport) -> Table:
    before, after = report.before.held_out, report.after.held_out
    if before is None or after is None:
        before, after = report.before.fitted, report.after.fitted
        title = f"Errors on the {after.rows} fitted rows (none held out)"
    else:
        title = f"Errors on {after.rows} rows held out (--fit {report.fit})"
    table = Table(title=title, box=box.HEAVY_HEAD)
    table.add_column("Metric", justify="right", no_wrap=True)
    for column in ("measured", "before", "error", "after", "error"):
        table.add_column(column, justify="right", no_wrap=True)
    for field, name in _TITLES.items():
        first: dict[str, Comparison] = getattr(before, field)
        second: dict[str, Comparison] = getattr(after, field)
        for statistic in first:
            table.add_row(f"{name} {statistic}", *_cells(first[statistic], second[statistic]))
        table.add_section()
    table.add_row("Makespan (ms), all rows", *_cells(report.before.makespan_ms, report.after.makespan_ms))
    return table


def _cells(before: Comparison, after: Comparison) -> list[str]:
    return [
        _number(before.measured),
        _number(before.simulated),
        _percent(before.error_percent),
        _number(after.simulated),
        _percent(after.error_percent),
    ]


def _number(value: float | None) -> str:
    return f"{value:,.2f}" if value is not None else "N/A"


def _percent(value: float | None) -> str:
    return f"{value:+.1f} %" if value is not None else "N/A"
