"""The folder of a sweep: its journal, and the files that are made of it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from actors.reporting.writers import partial_file
from actors.sweep.journal import JOURNAL_FILE, Journal
from actors.sweep.keys import HOST_KEYS
from actors.sweep.points import Sweep
from messages.errors import InputError
from messages.sweep import PointOutcome, PointResult

RESULTS_FILE = "results.jsonl"
TIMINGS_FILE = "timings.jsonl"
PAGE_FILE = "sweep.html"
SWEEP_FILES = (RESULTS_FILE, TIMINGS_FILE, PAGE_FILE, JOURNAL_FILE)


def default_folder(path: Path) -> Path:
    """Return where the results of a sweep file go if nothing else is said: `sweep-results` beside `sweep.json`."""
    return path.with_name(f"{path.stem}-results")


@contextlib.contextmanager
def open_folder(folder: Path, sweep: Sweep, *, fresh: bool) -> Iterator[Journal]:
    """Make the folder ready and open its journal; a folder made for nothing is removed where the body raises.

    fresh: forget what is finished. Raises InputError where the folder holds anything that is not of a sweep, or one of
    its files would replace a file that the sweep reads.
    """
    _check(folder, sweep)
    created = [path for path in (folder, *folder.parents) if not path.exists()]
    journal: Journal | None = None
    try:
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InputError(f"{folder}: cannot be used as output directory: {error.strerror or error}") from None
        with Journal(folder, fresh=fresh) as journal:
            yield journal
    except BaseException:
        if created:
            _abandon(created, journal)
        raise


def write_files(
    folder: Path, results: list[PointResult], sweep: Sweep, outcomes: Mapping[str, PointOutcome], page: str
) -> list[Path]:
    """Write what is made of the journal, each file in place of an earlier one; return their paths."""
    encoder = msgspec.json.Encoder()
    timings = (
        {"point": point.index, **(outcomes[point.digest].timings or dict.fromkeys(HOST_KEYS))} for point in sweep.points
    )
    contents = {
        RESULTS_FILE: encoder.encode_lines(results).decode(),
        TIMINGS_FILE: encoder.encode_lines(timings).decode(),
        PAGE_FILE: page,
    }
    for name, content in contents.items():
        with partial_file(folder / name) as file:
            file.write(content)
    return [folder / name for name in contents]


def _check(folder: Path, sweep: Sweep) -> None:
    try:
        entries = sorted(entry.name for entry in folder.iterdir()) if folder.is_dir() else []
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: cannot be used as output directory: {error}") from None
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; expected a directory for the results")
    if entries and JOURNAL_FILE not in entries:
        raise InputError(
            f"{folder}: the output directory is not empty (it holds {entries[0]}) and of no sweep; choose another"
        )
    inputs = {os.path.realpath(path) for path in _inputs(sweep)}
    findings = [
        f"{folder / name}: --output-dir would replace an input of the sweep"
        for name in SWEEP_FILES
        if os.path.realpath(folder / name) in inputs
    ]
    if findings:
        raise InputError(*findings)


def _inputs(sweep: Sweep) -> Iterable[Path | str]:
    yield from sweep.documents
    for point in sweep.points:
        yield from point.inputs


def _abandon(created: list[Path], journal: Journal | None) -> None:
    with contextlib.suppress(OSError):
        if journal is not None and not journal.outcomes:
            journal.path.unlink()
        for path in created:
            path.rmdir()
