"""What a worker process does: run one point after the other, and end with the process that started it."""

from __future__ import annotations

import gc
import os
import threading
from multiprocessing.connection import Connection
from pathlib import Path

import msgspec

from actors.sweep.identity import file_digest, program_digest
from actors.sweep.keys import HOST_KEYS
from messages.errors import InputError, ReplayError
from messages.report import ReplayReport
from messages.spec import ReplaySpec
from messages.sweep import PointOutcome

_ORPHANED = 1  # exit code


class Task(msgspec.Struct, frozen=True):
    """A run to make.

    base_dir: absolute; relative paths in the spec start from it.
    inputs: path -> digest of the content that each file must have. program: digest of the program that must run it.
    """

    spec: ReplaySpec
    base_dir: str
    inputs: dict[str, str]
    program: str


class TaskReply(msgspec.Struct, frozen=True):
    """What came of a task. final: it would end the same way again; if not, it failed for a reason outside of it."""

    outcome: PointOutcome
    final: bool


class _UnfitError(Exception):
    """The worker cannot run the task as it is meant."""


def start_worker(lifeline: Connection) -> None:
    """Prepare a worker process. It ends as soon as the other end of `lifeline` is closed, even by a kill."""
    threading.Thread(target=_end_with, args=(lifeline,), daemon=True).start()
    # The rest of this process's imports, before the first point is timed.
    import actors.system  # noqa: F401

    gc.freeze()


def run_task(task: Task) -> bytes:
    """Run a task; return its TaskReply as JSON. Whatever goes wrong in the run is part of the reply."""
    try:
        _check_fitness(task)
        reply = TaskReply(_run(task), final=True)
        _check_fitness(task)
    except (_UnfitError, InputError) as error:
        reply = TaskReply(PointOutcome("; ".join(str(error).splitlines())), final=False)
    except Exception as error:
        reply = TaskReply(PointOutcome(f"{type(error).__name__}: {' '.join(str(error).split())}"), final=False)
    return msgspec.json.encode(reply)


def _run(task: Task) -> PointOutcome:
    from actors.system import run

    enabled = gc.isenabled()
    # A run makes no cycles, and a search for them would go through all requests time and again.
    gc.disable()
    try:
        return _outcome(run(task.spec, Path(task.base_dir)))
    except ReplayError as error:
        return PointOutcome(str(error))
    finally:
        gc.collect()
        if enabled:
            gc.enable()


def _outcome(report: ReplayReport) -> PointOutcome:
    timings = {key: value for key in HOST_KEYS if isinstance(value := report.summary[key], int | float)}
    summary = {key: value for key, value in report.summary.items() if key not in HOST_KEYS}
    error = None
    if summary["num_requests"] and not summary["completed_requests"]:
        from actors.reporting.table import shortfall_text

        error = f"no request completed: {', '.join(map(shortfall_text, report.shortfalls))}"
    return PointOutcome(error, summary, timings, report.warnings)


def _check_fitness(task: Task) -> None:
    """Raise _UnfitError where the program or a file is another than the task tells of."""
    if program_digest() != task.program:
        raise _UnfitError("the worker has another version of this program; install the same")
    for path, digest in task.inputs.items():
        try:
            same = file_digest(Path(path)) == digest
        except OSError as error:
            raise _UnfitError(f"{path}: cannot be read by the worker: {error.strerror or error}") from None
        if not same:
            raise _UnfitError(f"{path}: is not what it was when the sweep began")


def _end_with(lifeline: Connection) -> None:
    try:
        lifeline.recv_bytes()
    except (EOFError, OSError):
        os._exit(_ORPHANED)
