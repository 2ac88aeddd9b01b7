"""`sweep`: run a spec with some of its values varied and tell which are best."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.cli import SUCCESS, say

if TYPE_CHECKING:
    from actors.sweep.executors import Executor
    from actors.sweep.journal import Journal
    from actors.sweep.points import Point, Sweep
    from actors.sweep.results import Ranking
    from messages.sweep import PointOutcome, PointResult


class ExecutorName(StrEnum):
    """Where the points run."""

    LOCAL = "local"
    RAY = "ray"


def sweep_spec(
    sweep: Annotated[Path, typer.Argument(metavar="SWEEP", help="JSON file that describes the sweep.")],
    output_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Keep results.jsonl, timings.jsonl, sweep.html and the journal here, instead of in NAME-results "
            "beside NAME.json. Points that are finished there are not run again.",
        ),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Points to run at a time; by default one per CPU.")
    ] = None,
    executor: Annotated[
        ExecutorName, typer.Option(help="Run the points in processes of this machine, or on Ray.")
    ] = ExecutorName.LOCAL,
    fresh: Annotated[bool, typer.Option("--fresh", help="Run every point again.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print a JSON document instead of the table.")] = False,
    progress: Annotated[bool, typer.Option(help="Show progress on a terminal.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no table, progress, notes or warnings.")] = False,
) -> int:
    """Replay a spec over many combinations of values, and rank them.

    SWEEP: {"base": a spec or its path, "axes": {"engine.rank.num_gpu_blocks": [...], ...}, "mode": "grid" or "list",
    "objective": {"key", "goal": "min" or "max"}, "constraints": [{"key", "op", "value"}]}. The exit code is 1 where a
    point failed or none keeps all constraints.
    """
    from actors.sweep.folder import default_folder, open_folder, write_files
    from actors.sweep.page import sweep_page
    from actors.sweep.points import load_sweep
    from actors.sweep.results import point_results, rank

    loaded = load_sweep(sweep)
    folder = output_dir or default_folder(sweep)
    with open_folder(folder, loaded, fresh=fresh) as journal:
        failures = _run_pending(loaded, journal, executor, workers, show=progress and not quiet, quiet=quiet)
        outcomes = journal.outcomes | failures
        results = point_results(loaded, outcomes)
        ranking = rank(loaded, results)
        page = sweep_page(sweep.name, loaded.spec, results, ranking)
        written = write_files(folder, results, loaded, outcomes, page)
    if not quiet:
        _warn(loaded, outcomes)
    return _present(loaded, results, ranking, written, json_output=json_output, quiet=quiet)


def _run_pending(
    sweep: Sweep, journal: Journal, executor: ExecutorName, workers: int | None, *, show: bool, quiet: bool
) -> dict[str, PointOutcome]:
    """Run what is not finished; return the outcomes that the journal does not keep."""
    from actors.sweep.execution import Execution, pending_points
    from actors.sweep.points import check_files

    points = pending_points(sweep, journal)
    total = len(sweep.points)
    finished = sum(point.digest in journal.outcomes for point in sweep.points)
    if finished and not quiet:
        say("note", f"{finished} of {total} points are finished already, in {journal.path.parent}")
    if not points:
        return {}
    check_files(sweep, points)
    try:
        with _progress_bar(show, len(points)) as report, contextlib.closing(_executor(executor, workers, points)) as on:
            execution = Execution(sweep, journal, on, report)
            execution.run(points)
    except KeyboardInterrupt:
        kept = sum(point.digest in journal.outcomes for point in sweep.points)
        if kept:
            say(
                "note",
                f"{kept} of {total} points are kept in {journal.path.parent}; the same command goes on from there",
            )
        raise
    return execution.failures


def _executor(name: ExecutorName, workers: int | None, points: list[Point]) -> Executor:
    from actors.sweep.executors import LocalProcesses, RayCluster, cpu_count

    if name is ExecutorName.RAY:
        return RayCluster(workers)
    return LocalProcesses(min(workers or cpu_count(), len(points)))


def _warn(sweep: Sweep, outcomes: dict[str, PointOutcome]) -> None:
    """Tell each warning of the runs once."""
    places: dict[str, list[int]] = {}
    for point in sweep.points:
        for warning in outcomes[point.digest].warnings:
            places.setdefault(warning, []).append(point.index)
    for warning, indices in places.items():
        others = f" and {len(indices) - 1} more" if len(indices) > 1 else ""
        say("warning", f"point {indices[0]}{others}: {warning}")


def _present(
    sweep: Sweep,
    results: list[PointResult],
    ranking: Ranking,
    written: list[Path],
    *,
    json_output: bool,
    quiet: bool,
) -> int:
    """Print what the options ask for. Raises ReplayError where a point failed or none is feasible."""
    from messages.errors import ReplayError

    if json_output:
        from actors.sweep.results import sweep_document

        sys.stdout.buffer.write(sweep_document(results, ranking))
        sys.stdout.flush()
    elif not quiet:
        from actors.sweep.table import print_table

        print_table(sweep.spec, results, ranking, sys.stdout)
        for path in written:
            print(f"Saved: {path}")
    failed = [result for result in results if result.status == "failed"]
    if failed:
        raise ReplayError(f"{len(failed)} of {len(results)} points failed; point {failed[0].point}: {failed[0].error}")
    if not any(result.feasible for result in results):
        raise ReplayError("no point keeps all constraints")
    return SUCCESS


@contextlib.contextmanager
def _progress_bar(wanted: bool, total: int) -> Iterator[Callable[[PointOutcome], None]]:
    """Show points done and the time left on standard error while the body runs."""
    if not wanted or not sys.stderr.isatty():
        yield lambda outcome: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("points{task.fields[failed]},"),
        TimeElapsedColumn(),
        TextColumn("elapsed,"),
        TimeRemainingColumn(),
        TextColumn("left"),
    )
    failed = 0
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("sweep", total=total, failed="")

        def show(outcome: PointOutcome) -> None:
            nonlocal failed
            failed += outcome.error is not None
            bar.update(task, advance=1, failed=f" ({failed} failed)" if failed else "")

        yield show
