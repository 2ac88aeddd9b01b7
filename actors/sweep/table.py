"""The table and the lines below it that `sweep` prints."""

from __future__ import annotations

from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from actors.sweep.points import axes_text, value_text
from actors.sweep.results import Ranking, figure
from messages.report import Number
from messages.sweep import PointResult, SweepSpec

NO_OBJECTIVE_KEYS = ("output_throughput_tok_s", "p99_ttft_ms", "p99_itl_ms", "gpu_hours")
"""The figures to show of a sweep that asks for none."""

_WIDEST = 1000  # columns
_ERROR_LENGTH = 80


def shown_keys(sweep: SweepSpec, ranking: Ranking) -> list[str]:
    """Return the keys of the figures to show: those that the sweep names, and what its objective is weighed against."""
    named = [objective.key for objective in ranking.objectives] + [bound.key for bound in sweep.constraints]
    return list(dict.fromkeys(named)) or list(NO_OBJECTIVE_KEYS)


def short_paths(paths: list[str]) -> list[str]:
    """Return each path without the leading parts that are not needed to tell it from the others."""
    short = []
    for path in paths:
        keys = path.split(".")
        ends = [".".join(keys[-count:]) for count in range(1, len(keys) + 1)]
        others = [other for other in paths if other != path]
        short.append(next(end for end in ends if end == path or not any(f".{o}".endswith(f".{end}") for o in others)))
    return short


def standing(result: PointResult, ranking: Ranking) -> str:
    """Say in a few words how a point stands."""
    if result.status == "failed":
        return f"failed: {' '.join((result.error or '').split())}"
    if result.violated:
        return f"violates {', '.join(result.violated)}"
    if result.point == ranking.best:
        return "best"
    return "Pareto front" if result.point in ranking.front else ""


def print_table(sweep: SweepSpec, results: list[PointResult], ranking: Ranking, file: TextIO) -> None:
    """Print a row per point, and which is best; a figure without a value is `N/A`."""
    console = Console(file=file, highlight=False)
    keys, paths = shown_keys(sweep, ranking), list(sweep.axes)
    table = Table(title="Sweep", box=box.HEAVY_HEAD)
    for column in ("point", *short_paths(paths), *keys):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    for result in results:
        text = standing(result, ranking)
        table.add_row(
            str(result.point),
            *(Text(value_text(result.axes[path])) for path in paths),
            *(number_text(figure(result, key)) for key in keys),
            Text(text if len(text) <= _ERROR_LENGTH else f"{text[: _ERROR_LENGTH - 3]}..."),
            style="bold" if result.point == ranking.best else "" if result.feasible else "dim",
        )
    # A narrow terminal shall wrap lines rather than lose digits.
    natural = console.measure(table, options=console.options.update(max_width=_WIDEST)).maximum
    console.width = max(console.width, natural)
    console.print(table)
    console.print(Text(verdict(results, ranking)), soft_wrap=True)


def verdict(results: list[PointResult], ranking: Ranking) -> str:
    """Say in a line which point is best, or why none is."""
    feasible = sum(result.feasible for result in results)
    counted = f"{feasible} of {len(results)} points feasible"
    if ranking.best is None:
        return f"Best: none; {counted}" if ranking.objectives else counted
    best = next(result for result in results if result.point == ranking.best)
    figures = ", ".join(f"{goal.key} {number_text(figure(best, goal.key))}" for goal in ranking.objectives)
    return f"Best: point {best.point} ({axes_text(best.axes)}): {figures}; {counted}"


def number_text(value: Number | None) -> str:
    """Write a figure for a reader, or `N/A`."""
    if value is None:
        return "N/A"
    return f"{value:,}" if isinstance(value, int) else f"{value:,.4g}" if abs(value) < 1.0 else f"{value:,.2f}"
