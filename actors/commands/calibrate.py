"""`calibrate`: fit the timing model of a spec to requests that were measured."""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from actors.cli import SUCCESS, say
from actors.commands.options import Overrides, same_file

if TYPE_CHECKING:
    from actors.spec.loading import LoadedSpec
    from messages.calibration import CalibrationReport


_LARGE_ERROR_PERCENT = 3.0
"""Typical error from which on something else than step times is likely to be wrong."""


class Format(StrEnum):
    """What a file of measured requests holds."""

    AUTO = "auto"
    MEASURED = "measured"
    AIPERF = "aiperf"
    VLLM_BENCH = "vllm-bench"


class Arrivals(StrEnum):
    """When the requests of the replay arrive."""

    AUTO = "auto"
    MEASURED = "measured"
    SPEC = "spec"


def calibrate_timing(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="JSON file that describes the measured cluster.")],
    measured: Annotated[Path, typer.Option(metavar="FILE", help="Measured requests of the workload of SPEC.")],
    form: Annotated[Format, typer.Option("--format", help="Format of FILE; auto looks at it.")] = Format.AUTO,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the timing model, adjusted, for specs to name.")
    ] = None,
    fit: Annotated[
        str,
        typer.Option(
            metavar="ROWS", help="Rows to fit: even, odd, all, or a share such as 0.5; the rest judge the fit."
        ),
    ] = "even",
    arrivals: Annotated[
        Arrivals, typer.Option(help="When requests arrive; auto: as measured, if that is known of all.")
    ] = Arrivals.AUTO,
    overrides: Overrides = None,
    json_output: Annotated[bool, typer.Option("--json", help="Print the report as JSON instead of the table.")] = False,
    progress: Annotated[bool, typer.Option(help="Show progress on a terminal.")] = True,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print no table, progress or warnings.")] = False,
) -> int:
    """Fit the step times of SPEC to measured requests, and tell the errors on requests held out."""
    from actors.calibration.joining import fitting_rows
    from actors.spec.loading import load_spec
    from actors.spec.paths import input_files
    from messages.errors import InputError

    fitting_rows(fit, 0)
    loaded = load_spec(spec, overrides or ())
    inputs = [spec, measured, *input_files(loaded.spec, loaded.base_dir)]
    if output is not None and any(same_file(output, given) for given in inputs):
        raise InputError(f"{output}: --output would replace an input of the calibration")

    from actors.calibration.calibrate import calibrate, timing_document

    with contextlib.ExitStack() as stack:
        file = stack.enter_context(_output_file(output))
        show = stack.enter_context(_progress_bar(progress and not quiet))
        report = calibrate(loaded, measured, form=form.value, fit_rows=fit, arrivals=arrivals.value, progress=show)
        if output is not None and file is not None:
            file.write(timing_document(loaded, report, output.parent).decode())
    if not quiet:
        for warning in _warnings(loaded, report):
            say("warning", warning)
    if json_output:
        import msgspec

        sys.stdout.write(msgspec.json.format(msgspec.json.encode(report), indent=2).decode() + "\n")
    elif not quiet:
        from actors.calibration.table import print_calibration

        print_calibration(report, sys.stdout)
        if output is not None:
            reference = json.dumps({"type": "calibrated", "path": output.name})
            print(f'Saved: {output}; a spec beside it names it with "timing_model": {reference}')
    return SUCCESS


def _warnings(loaded: LoadedSpec, report: CalibrationReport) -> list[str]:
    from actors.workload.loading import load_workload

    warnings = list(load_workload(*loaded).warnings)
    error = next(candidate.fit_error_percent for candidate in report.candidates if candidate.chosen)
    if error > _LARGE_ERROR_PERCENT:
        warnings.append(
            f"the fitted rows still have a typical error of {error:.1f} %: the spec may not describe the engine that "
            "was measured; compare max_num_seqs, max_num_batched_tokens, num_gpu_blocks, prefix caching and arrivals"
        )
    return warnings


@contextlib.contextmanager
def _output_file(path: Path | None) -> Iterator[TextIO | None]:
    """Open the file to write, so that a place that cannot be written to is told before the fit."""
    from actors.reporting.writers import partial_file

    if path is None:
        yield None
        return
    with partial_file(path) as file:
        yield file


@contextlib.contextmanager
def _progress_bar(wanted: bool) -> Iterator[Callable[[int, float], None]]:
    """Show the replays done, and the least error so far, on standard error while the body runs."""
    if not wanted or not sys.stderr.isatty():
        yield lambda replays, error: None
        return
    from rich.console import Console
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (
        SpinnerColumn(),
        TextColumn("{task.completed:.0f} replays, typical error {task.fields[error]:.2f} %"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("fit", total=None, error=float("inf"))
        yield lambda replays, error: bar.update(task, completed=replays, error=error)
