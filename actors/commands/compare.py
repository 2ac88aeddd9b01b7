"""`compare`: the results of runs side by side."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.cli import FAILED, SUCCESS, say
from actors.commands.options import same_file

if TYPE_CHECKING:
    from actors.comparison.inputs import RunInput
    from messages.comparison import Comparison

JSON_FILE, PAGE_FILE = _FILES = ("comparison.json", "comparison.html")


def compare_runs(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="A B...", help="Output directories of replay, or reports alone; up to 8."),
    ],
    fail_if: Annotated[
        list[str] | None,
        typer.Option(
            metavar="BOUND",
            help="Exit with 1 where a run breaks the bound: p99_ttft_ms>+5% (change from A), gpu_hours>+0.5 "
            "(difference to A), p99_itl_ms>50 (the value itself), or with <. May be repeated.",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Print this metric instead of the chief ones; repeatable.")
    ] = None,
    all_metrics: Annotated[bool, typer.Option("--all", help="Print all metrics.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print the comparison as JSON instead.")] = False,
    output_dir: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Write comparison.json and comparison.html.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace these files in a directory that is not empty.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no table or warnings.")] = False,
) -> int:
    """Compare the results of runs with those of the first: metrics, specs and requests."""
    from actors.comparison.bounds import parse_bounds
    from actors.comparison.build import compare, comparison_bytes
    from actors.comparison.inputs import load_runs
    from actors.comparison.metrics import chosen_metrics

    given = load_runs(runs)
    figures = [run.figures for run in given]
    bounds = parse_bounds(fail_if or (), figures)
    shown = chosen_metrics(metric or (), figures, everything=all_metrics)
    comparison = compare(given, bounds)
    written = _write(comparison, given, output_dir, overwrite=overwrite) if output_dir is not None else []
    if not quiet:
        for warning in comparison.warnings:
            say("warning", warning)
    if json_output:
        sys.stdout.buffer.write(comparison_bytes(comparison))
        sys.stdout.flush()
    elif not quiet:
        from actors.comparison.table import print_comparison

        print_comparison(comparison, sys.stdout, shown)
        for path in written:
            print(f"Saved: {path}")
    return _judge(comparison)


def _write(comparison: Comparison, runs: Sequence[RunInput], folder: Path, *, overwrite: bool) -> list[Path]:
    from actors.comparison.build import comparison_bytes
    from actors.comparison.page import comparison_page
    from actors.reporting.writers import OutputDirectory
    from messages.errors import InputError

    for run in runs:
        if any(same_file(run.path, folder / name) for name in _FILES):
            raise InputError(f"{run.path}: --output-dir would replace an input of the comparison")
    contents = {
        JSON_FILE: comparison_bytes(comparison),
        PAGE_FILE: comparison_page(comparison, runs).encode(),
    }
    output = OutputDirectory(folder, overwrite=overwrite, known_files=_FILES)
    with contextlib.ExitStack() as stack:
        stack.callback(output.abandon)
        return output.fill(contents)


def _judge(comparison: Comparison) -> int:
    """Say which bounds are broken; return the exit code."""
    broken = [check for check in comparison.bounds if check.finding is not None]
    for check in broken:
        say("error", f"--fail-if {check.bound}: {check.finding}")
    return FAILED if broken else SUCCESS
