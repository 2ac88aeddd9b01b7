"""The runs to compare, as they were given: output directories of `replay`, or reports alone."""

from __future__ import annotations

import os
import string
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from actors.comparison.metrics import Value, flat_figures
from actors.comparison.specs import comparable
from actors.reporting.results import load_report, load_results
from messages.comparison import ComparedRun
from messages.errors import InputError
from messages.report import RequestRecord, Shortfall

MOST_RUNS = 8


class RunInput(msgspec.Struct, frozen=True):
    """A run to compare. figures: its flat report. records, spec: None where there are none.

    shortfalls: requests that did not complete, as far as the report tells.
    """

    label: str
    path: Path
    figures: dict[str, Value]
    records: list[RequestRecord] | None
    spec: dict[str, Any] | None
    shortfalls: list[Shortfall] = []

    def described(self) -> ComparedRun:
        """What the comparison says of the run itself."""
        return ComparedRun(
            label=self.label,
            path=str(self.path),
            num_requests=int(self.figures["num_requests"] or 0),
            completed_requests=int(self.figures["completed_requests"] or 0),
            has_spec=self.spec is not None,
            has_records=self.records is not None,
        )


def load_runs(paths: Sequence[Path]) -> list[RunInput]:
    """Load 2 to 8 runs. Raises InputError with the findings about all of them."""
    if not 2 <= len(paths) <= MOST_RUNS:
        raise InputError(f"compare takes 2 to {MOST_RUNS} runs, each an output directory of replay; got {len(paths)}")
    runs: list[RunInput] = []
    findings: list[str] = []
    for label, path in zip(string.ascii_uppercase, paths, strict=False):
        try:
            runs.append(_load(label, path))
        except InputError as error:
            findings += error.findings
    if findings:
        raise InputError(*findings)
    return runs


def same_place(one: RunInput, other: RunInput) -> bool:
    """Whether two runs are the same directory or file."""
    return os.path.samefile(one.path, other.path)


def _load(label: str, path: Path) -> RunInput:
    try:
        results = load_report(path) if path.exists() and not path.is_dir() else load_results(path)
    except ValueError as error:  # a path that no file system can hold
        raise InputError(f"{str(path)!r}: is not a path: {error}") from None
    spec = None if results.spec is None else comparable(results.spec, path)
    return RunInput(label, path, flat_figures(results), results.requests, spec, results.shortfalls)
