"""What `compare` prints for a reader."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TextIO

from rich import box
from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from actors.comparison.texts import (
    change_texts,
    join_text,
    metric_texts,
    ms_text,
    request_text,
    spec_values,
    statistic_rows,
    value_text,
)
from messages.comparison import Comparison, Join, Metric, RequestDifferences

_WIDEST = 1000  # columns
_WIDTH_OF_FILES = 120
_SHOWN_CHANGED = 3


def print_comparison(comparison: Comparison, file: TextIO, shown: Collection[str]) -> None:
    """Print a comparison. shown: keys of the metrics to print.

    Metrics have a row each, runs their columns side by side. Where that is too wide for the terminal, runs have a row
    each below every metric. If that is too wide too, the terminal wraps lines, so that no digit is lost.
    """
    console = Console(file=file, highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, _WIDTH_OF_FILES)
    for run in comparison.runs:
        _line(
            console, f"{run.label}: {run.path} ({run.completed_requests:,} of {run.num_requests:,} requests completed)"
        )
    metrics = [metric for metric in comparison.metrics if metric.key in shown]
    table = _side_by_side(comparison, metrics)
    _print(
        console, table if _natural_width(console, table) <= console.width else _below_each_other(comparison, metrics)
    )
    for line in _spec_lines(comparison):
        _line(console, line)
    for join in comparison.joins:
        _print_join(console, join, comparison.runs[0].label)
    broken = sum(check.finding is not None for check in comparison.bounds)
    if comparison.bounds:
        _line(console, f"Bounds: {len(comparison.bounds) - broken} of {len(comparison.bounds)} checks kept")


def _line(console: Console, text: str) -> None:
    console.print(Text(text), soft_wrap=True)


def _print(console: Console, table: RenderableType) -> None:
    width = console.width
    console.width = max(width, _natural_width(console, table))
    console.print(table)
    console.width = width


def _natural_width(console: Console, table: RenderableType) -> int:
    return console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum


def _side_by_side(comparison: Comparison, metrics: Sequence[Metric]) -> Table:
    first, *others = (run.label for run in comparison.runs)
    table = Table(title="Metrics", box=box.HEAVY_HEAD)
    table.add_column("Metric", no_wrap=True)
    table.add_column("Better", no_wrap=True)
    table.add_column(first, justify="right", no_wrap=True)
    for other in others:
        for title in (other, f"{other} - {first}", f"% of {first}"):
            table.add_column(title, justify="right", no_wrap=True)
    for metric in metrics:
        value, *values = metric_texts(metric)
        cells = [metric.key, metric.better or "", value]
        for text, change in zip(values, metric.changes, strict=True):
            cells += [text, *change_texts(metric, change)]
        table.add_row(*map(Text, cells))
    return table


def _below_each_other(comparison: Comparison, metrics: Sequence[Metric]) -> Table:
    labels = [run.label for run in comparison.runs]
    table = Table(title="Metrics", box=box.HEAVY_HEAD, pad_edge=False)  # fits into 80 columns
    table.add_column("Metric", no_wrap=True)
    table.add_column("", no_wrap=True)
    for title in ("Value", f"From {labels[0]}", f"% of {labels[0]}"):
        table.add_column(title, justify="right", no_wrap=True)
    for metric in metrics:
        names = [metric.key, *([f"  {metric.better} is better"] if metric.better else []), *([""] * len(labels))]
        changes = [("", ""), *(change_texts(metric, change) for change in metric.changes)]
        for name, label, value, change in zip(names, labels, metric_texts(metric), changes, strict=False):
            table.add_row(*map(Text, [name, label, value, *change]))
        table.add_section()
    return table


def _spec_lines(comparison: Comparison) -> list[str]:
    with_spec = [run.label for run in comparison.runs if run.has_spec]
    if comparison.spec_differences is None:
        return ["Spec: fewer than two runs have one to compare"]
    if not comparison.spec_differences:
        return [f"Spec: equal in {', '.join(with_spec)}"]
    lines = ["Spec fields that differ:"]
    for difference in comparison.spec_differences:
        texts = [
            f"{', '.join(runs)} {value_text(value, missing=missing)}"
            for runs, value, missing in spec_values(difference, comparison.runs)
        ]
        lines.append(f"  {difference.path}: {'; '.join(texts)}")
    return lines


def _print_join(console: Console, join: Join, first: str) -> None:
    _line(console, f"Requests of {join.run} and {first}: {join_text(join, first)}")
    if all(one.requests == one.equal for one in join.differences):
        if join.matched:
            _line(console, "Their latencies are equal.")
        return
    table = Table(title=f"Differences per request, {join.run} - {first} (ms)", box=box.HEAVY_HEAD)
    table.add_column("")
    for one in join.differences:
        table.add_column(one.key, justify="right", no_wrap=True)
    for row in statistic_rows(join):
        table.add_row(*row)
    _print(console, table)
    for one in join.differences:
        if one.most_changed:
            _line(console, f"Most changed {one.key}: {_most_changed(one)}")


def _most_changed(differences: RequestDifferences) -> str:
    return "; ".join(
        f"{request_text(request)} {ms_text(request.difference)}"
        for request in differences.most_changed[:_SHOWN_CHANGED]
    )
