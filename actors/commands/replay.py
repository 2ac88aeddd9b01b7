"""`replay`: run a spec and present what came of it."""

from __future__ import annotations

import contextlib
import gc
import itertools
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from actors.cli import SUCCESS, say
from actors.commands.examples import example_names, example_path
from actors.commands.options import Overrides, check_overwrite, same_file

if TYPE_CHECKING:
    from actors.spec.loading import LoadedSpec
    from actors.system import Progress
    from messages.report import ReplayReport
    from messages.spec import ReplaySpec


class Runtime(StrEnum):
    """How the actors run."""

    COOPERATIVE = "cooperative"
    THREADS = "threads"


SpecPath = Annotated[Path | None, typer.Argument(metavar="SPEC", help="JSON file that describes the replay.")]


def replay_spec(
    spec: SpecPath = None,
    example: Annotated[
        str | None,
        typer.Option(metavar="NAME", help=f"Replay a built-in example instead of SPEC: {', '.join(example_names())}."),
    ] = None,
    overrides: Overrides = None,
    output_dir: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write report.json, requests.jsonl, resolved_spec.json and, if any, planner.jsonl, telemetry.jsonl.",
        ),
    ] = None,
    parquet: Annotated[
        bool, typer.Option("--parquet", help="Write requests.parquet too (needs the extra parquet: pyarrow).")
    ] = False,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace these files in a directory that is not empty.")
    ] = False,
    html: Annotated[bool, typer.Option("--html", help="Also write DIR/report.html, a page about the run.")] = False,
    json_output: Annotated[bool, typer.Option("--json", help="Print report.json instead of the table.")] = False,
    trace: Annotated[Path | None, typer.Option(metavar="FILE", help="Write every message as a JSON line.")] = None,
    timeline: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write a timeline for Perfetto (ui.perfetto.dev): .json or .json.gz."),
    ] = None,
    timeline_from: Annotated[
        float | None, typer.Option(metavar="MS", help="Leave out of the timeline what was before, in simulated ms.")
    ] = None,
    timeline_to: Annotated[
        float | None, typer.Option(metavar="MS", help="Leave out of the timeline what came after, in simulated ms.")
    ] = None,
    step: Annotated[bool, typer.Option("--step", help="Simulate pass by pass, without jumping ahead.")] = False,
    runtime: Annotated[
        Runtime, typer.Option(help="Run the actors in one thread or in one each.")
    ] = Runtime.COOPERATIVE,
    progress: Annotated[bool, typer.Option(help="Show progress on a terminal.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no table, progress or warnings.")] = False,
) -> int:
    """Replay a workload and report when every token came out."""
    from actors.reporting.writers import KNOWN_FILES, OutputDirectory, partial_file, spec_bytes
    from actors.spec.loading import load_spec
    from actors.spec.paths import input_files
    from actors.timeline.files import check_timeline, timeline_file
    from messages.errors import InputError

    check_timeline(timeline, timeline_from, timeline_to, ("--timeline", "--timeline-from", "--timeline-to"))
    if (spec is None) == (example is None):
        raise InputError("give either SPEC or --example NAME")
    if html and output_dir is None:
        raise InputError("--html writes a page into the output directory: give --output-dir DIR too")
    check_overwrite(overwrite, output_dir)
    document = spec if spec is not None else example_path(example or "")
    loaded = load_spec(document, overrides or ())
    if parquet:
        _check_parquet(loaded.spec, output_dir)
    outputs = [output_dir / name for name in KNOWN_FILES] if output_dir is not None else []
    files = {option: path for option, path in (("--trace", trace), ("--timeline", timeline)) if path is not None}
    _protect_inputs([document, *input_files(loaded.spec, loaded.base_dir)], outputs, files)

    if output_dir is not None:
        spec_bytes(loaded, output_dir)  # what cannot be written shall be known before the run
    if not quiet:
        _tell_capacities(loaded)

    from actors.system import run

    with contextlib.ExitStack() as stack:
        stack.enter_context(_no_search_for_cycles())
        output = OutputDirectory(output_dir, overwrite=overwrite) if output_dir is not None else None
        if output is not None:
            stack.callback(output.abandon)
        observe = None
        if trace is not None:
            from actors.tracing import MessageLog

            observe = MessageLog(stack.enter_context(partial_file(trace)))
        drawn = None
        if timeline is not None:
            drawn = stack.enter_context(timeline_file(timeline, loaded.spec, from_ms=timeline_from, to_ms=timeline_to))
        with _progress_bar(progress and not quiet) as report_progress:
            report = run(
                loaded.spec,
                loaded.base_dir,
                runtime=runtime.value,
                step=step,
                observe=observe,
                timeline=drawn,
                progress=report_progress,
            )
        page = _page(report, loaded, output.path) if output is not None and html else None
        written = output.write(report, loaded, parquet=parquet, page=page) if output is not None else []
    written += files.values()
    return _present(report, written, json_output=json_output, quiet=quiet)


def _check_parquet(spec: ReplaySpec, output_dir: Path | None) -> None:
    """Refuse `--parquet` where there would be no place or nothing to write, or no library."""
    from actors.reporting.parquet import require_parquet
    from messages.errors import InputError

    if output_dir is None:
        raise InputError("--parquet writes into the output directory: give --output-dir DIR too")
    if not spec.record_per_request:
        raise InputError("--parquet: the spec says record_per_request: false, so that there are no records to write")
    require_parquet()


def _page(report: ReplayReport, replayed: LoadedSpec, folder: Path) -> str:
    """The HTML page about a run whose files go to a folder."""
    import msgspec

    from actors.pages.report.page import report_page
    from actors.reporting.results import path_text, results_of
    from actors.reporting.writers import spec_bytes

    return report_page(results_of(report, msgspec.json.decode(spec_bytes(replayed, folder)), path_text(folder)))


def _tell_capacities(loaded: LoadedSpec) -> None:
    """Say on standard error where numbers of KV blocks come from that the spec may have left to the timing model."""
    from messages.spec import DEPLOYED

    if any(isinstance(rank.timing_model, DEPLOYED) for rank in loaded.spec.ranks):
        from actors.spec.deployments import capacity_notes

        for note in capacity_notes(*loaded):
            say("note", note)


def _present(report: ReplayReport, written: list[Path], *, json_output: bool, quiet: bool) -> int:
    """Print what the options ask for. Raises ReplayError where no request completed."""
    if not quiet:
        for warning in report.warnings:
            say("warning", warning)
    if json_output:
        from actors.reporting.writers import report_bytes

        sys.stdout.buffer.write(report_bytes(report))
        sys.stdout.flush()
    elif not quiet:
        from actors.reporting.table import print_table

        print_table(report, sys.stdout)
        for path in written:
            print(f"Saved: {path}")
    if report.summary["num_requests"] and not report.summary["completed_requests"]:
        from actors.reporting.table import shortfall_text
        from messages.errors import ReplayError

        causes = ", ".join(shortfall_text(shortfall) for shortfall in report.shortfalls)
        raise ReplayError(f"no request completed: {causes}")
    return SUCCESS


@contextlib.contextmanager
def _no_search_for_cycles() -> Iterator[None]:
    """Have the garbage collector rest: a run makes no cycles, and it would go through all requests time and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@contextlib.contextmanager
def _progress_bar(wanted: bool) -> Iterator[Callable[[Progress], None] | None]:
    """Show requests done, simulated time and requests per second on standard error while the body runs."""
    if not wanted or not sys.stderr.isatty():
        yield None
        return
    import time

    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
    from rich.progress import Progress as Bar

    columns = (
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("requests, {task.fields[simulated_s]:,.1f} s simulated, {task.fields[rate]:,.0f} requests/s"),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("replay", total=None, simulated_s=0.0, rate=0.0)
        start = time.perf_counter()

        def show(state: Progress) -> None:
            rate = state.done / max(time.perf_counter() - start, 1e-9)
            bar.update(task, completed=state.done, total=state.total, simulated_s=state.now_ms / 1000.0, rate=rate)

        yield show


def _protect_inputs(inputs: list[Path], outputs: list[Path], files: dict[str, Path]) -> None:
    """Refuse options by which one file of a replay would take the place of another.

    outputs: the files of --output-dir. files: by the option that names it, every other file that is written.
    """
    from messages.errors import InputError

    findings = [
        f"{path}: --output-dir would replace an input of the replay"
        for path in outputs
        if any(same_file(path, given) for given in inputs)
    ]
    for option, file in files.items():
        if any(same_file(file, given) for given in inputs):
            findings.append(f"{file}: {option} would replace an input of the replay")
        if any(same_file(file, path) for path in outputs):
            findings.append(f"{file}: {option} would replace a file of --output-dir")
    findings += [
        f"{file}: {option} would replace the file of {other}"
        for (other, earlier), (option, file) in itertools.combinations(files.items(), 2)
        if same_file(file, earlier)
    ]
    if findings:
        raise InputError(*findings)
