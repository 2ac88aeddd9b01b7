"""What a run left in its output directory, or has in memory: the figures, the requests, and what was sampled."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from actors.reporting.writers import PLANNER_FILE, REPORT_FILE, REQUESTS_FILE, SPEC_FILE, TELEMETRY_FILE
from messages.errors import InputError
from messages.planner_report import PlannerTick
from messages.report import Number, PoolRouting, ReplayReport, RequestRecord, ScalingReport, Shortfall
from messages.spec import ReplaySpec
from messages.telemetry import TelemetrySample

Item = TypeVar("Item")

_OBJECTS = ("routing", "planner", "shortfalls", "warnings")
"""Keys of report.json that hold more than a number."""

_EXPECTED = ("num_requests", "completed_requests", "duration_ms", "mean_ttft_ms", "mean_e2e_latency_ms")
"""Some keys that every report has, by which one is told from any other JSON file."""

_WHAT_TO_GIVE = "give the output directory of `aisim-actors replay SPEC --output-dir DIR`"


class Results(msgspec.Struct, frozen=True):
    """The results of one run.

    name: how to call the run, such as its directory. report: the figures of report.json, without its objects.
    requests: None where the run kept no record per request. telemetry, planner_ticks: None where there are none.
    spec: the content of resolved_spec.json; None where the file is missing.
    """

    name: str
    report: dict[str, Number | str | None]
    requests: list[RequestRecord] | None = None
    telemetry: list[TelemetrySample] | None = None
    planner_ticks: list[PlannerTick] | None = None
    spec: dict[str, Any] | None = None
    routing: dict[str, PoolRouting] | None = None
    planner: ScalingReport | None = None
    shortfalls: list[Shortfall] = []
    warnings: list[str] = []

    def figure(self, key: str) -> float | None:
        """A number of the report; None where it is null or not there."""
        value = self.report.get(key)
        return value if isinstance(value, int | float) else None


class _Objects(msgspec.Struct, frozen=True):
    """The part of report.json that is more than numbers."""

    routing: dict[str, PoolRouting] | None = None
    planner: ScalingReport | None = None
    shortfalls: list[Shortfall] = []
    warnings: list[str] = []


def results_of(report: ReplayReport, spec: dict[str, Any], name: str) -> Results:
    """Return the results of a run in memory; `spec` is what resolved_spec.json holds."""
    return Results(
        name=name,
        report=report.summary,
        requests=report.requests,
        telemetry=report.telemetry,
        planner_ticks=report.planner_ticks,
        spec=spec,
        routing=report.routing,
        planner=report.planner,
        shortfalls=report.shortfalls,
        warnings=report.warnings,
    )


def load_results(folder: Path) -> Results:
    """Read an output directory.

    Raises InputError where it is none, or where a file cannot be read or holds something else; it names the file and,
    of JSON Lines, the line.
    """
    if not folder.is_dir():
        what = "is a file" if folder.exists() else "no such directory"
        raise InputError(f"{folder}: {what}; {_WHAT_TO_GIVE}")
    content = _read(folder / REPORT_FILE)
    if content is None:
        raise InputError(f"{folder}: holds no {REPORT_FILE}; {_WHAT_TO_GIVE}")
    figures, objects = _report(content, folder / REPORT_FILE)
    requests = _records(folder / REQUESTS_FILE, RequestRecord)
    count = figures["num_requests"]
    if requests is not None and isinstance(count, int) and len(requests) > count:
        raise InputError(
            f"{folder / REQUESTS_FILE}: holds {len(requests)} requests, but {REPORT_FILE} counts {count}; "
            f"the files are of different runs: replay again with --overwrite"
        )
    return Results(
        name=str(folder),
        report=figures,
        requests=requests,
        telemetry=_records(folder / TELEMETRY_FILE, TelemetrySample),
        planner_ticks=_records(folder / PLANNER_FILE, PlannerTick),
        spec=_spec(folder / SPEC_FILE),
        routing=objects.routing,
        planner=objects.planner,
        shortfalls=objects.shortfalls,
        warnings=objects.warnings,
    )


def load_report(path: Path) -> Results:
    """Read a report alone, such as `replay --json` prints it. Raises InputError as `load_results` does."""
    content = _read(path)
    if content is None:
        raise InputError(f"{path}: no such file; {_WHAT_TO_GIVE}")
    figures, objects = _report(content, path)
    return Results(
        name=str(path),
        report=figures,
        routing=objects.routing,
        planner=objects.planner,
        shortfalls=objects.shortfalls,
        warnings=objects.warnings,
    )


def _report(content: bytes, path: Path) -> tuple[dict[str, Number | str | None], _Objects]:
    document = _decoded(content, dict[str, Any], path)
    missing = [key for key in _EXPECTED if key not in document]
    if missing:
        raise InputError(f"{path}: is not the report of a replay, it has no `{missing[0]}`; {_WHAT_TO_GIVE}")
    figures = {key: value for key, value in document.items() if key not in _OBJECTS}
    for key, value in figures.items():
        if isinstance(value, bool) or not isinstance(value, int | float | str | None):
            raise InputError(f"{path}: {key}: expected a number, text or null; replay again to have it written anew")
    try:
        return figures, msgspec.convert(document, _Objects)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {_lower(error)}; replay again to have it written anew") from None


def _spec(path: Path) -> dict[str, Any] | None:
    content = _read(path)
    if content is None:
        return None
    document = _decoded(content, dict[str, Any], path)
    try:
        msgspec.convert(document, ReplaySpec)
    except msgspec.ValidationError as error:
        raise InputError(f"{path}: {_lower(error)}; replay again to have it written anew") from None
    return document


def _records(path: Path, kind: type[Item]) -> list[Item] | None:
    content = _read(path)
    if content is None:
        return None
    decoder = msgspec.json.Decoder(kind)
    try:
        return decoder.decode_lines(content)
    except msgspec.DecodeError:
        pass
    # Only now line by line, to tell which is at fault.
    records = []
    for number, line in _lines(content):
        try:
            records.append(decoder.decode(line))
        except msgspec.DecodeError as error:
            raise InputError(f"{path}:{number}: {_lower(error)}; replay again to have it written anew") from None
    return records


def _lines(content: bytes) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(content.split(b"\n"), start=1):
        if line.strip():
            yield number, line


def _decoded(content: bytes, kind: type[Item], path: Path) -> Item:
    try:
        return msgspec.json.decode(content, type=kind)
    except msgspec.DecodeError as error:
        raise InputError(f"{path}: {_lower(error)}; {_WHAT_TO_GIVE}") from None


def _read(path: Path) -> bytes | None:
    """The content of a file, None where there is none."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def _lower(error: Exception) -> str:
    text = str(error)
    return text if text.startswith("JSON") else text[:1].lower() + text[1:]
