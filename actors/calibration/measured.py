"""Measured requests from the files that people have: our own rows, AIPerf's records, results of `vllm bench serve`."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from actors.workload.rows import RowError, TraceFile
from messages.calibration import MeasuredRequest
from messages.errors import InputError

Count = Annotated[int, Meta(ge=0)]
Time = Annotated[float, Meta(ge=0.0)]

MEASURED, AIPERF, VLLM_BENCH = "measured", "aiperf", "vllm-bench"

_LONGEST_MS = 1e12
"""What no request takes, some thirty years: such a row mixes clocks or units."""

_TO_MS = {"ns": 1e-6, "us": 1e-3, "ms": 1.0, "s": 1e3, "sec": 1e3}


def read_measured(path: Path, form: str = "auto") -> tuple[list[MeasuredRequest], str]:
    """Read a file of measured requests; return them in their order, those that failed included, and the format.

    form: `measured`, `aiperf` or `vllm-bench`; `auto` looks at the file.

    Raises InputError where the file cannot be read, holds no requests, or a row is not what the format says.
    """
    text = _text(path)
    if form == "auto":
        form = _recognised(text)
    rows = {MEASURED: _measured, AIPERF: _aiperf, VLLM_BENCH: _vllm_bench}[form](path, text)
    if not rows:
        raise InputError(f"{path}: holds no measured requests")
    return rows, form


def _text(path: Path) -> bytes:
    try:
        text = path.read_bytes()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give the measured requests") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except ValueError as error:  # a path that no file system can hold
        raise InputError(f"{str(path)!r}: is not a path: {error}") from None
    if not text.strip():
        raise InputError(f"{path}: is empty; expected measured requests")
    return text


def _recognised(text: bytes) -> str:
    first = text.lstrip().partition(b"\n")[0]
    try:
        row = json.loads(first)
    except (ValueError, RecursionError):
        # A single document spread over lines; malformed rows are told by the reader of rows.
        return VLLM_BENCH if b'"ttfts"' in text or b'"mean_ttft_ms"' in text else MEASURED
    if isinstance(row, dict) and "metrics" in row:
        return AIPERF
    # Without --save-detailed the lists are missing, which its reader tells.
    return VLLM_BENCH if isinstance(row, dict) and ("ttfts" in row or "mean_ttft_ms" in row) else MEASURED


# Our own rows, and requests.jsonl of a replay


class _MeasuredRow(msgspec.Struct):
    row: Count | None = None
    request_id: str | None = None
    input_length: Count | None = None
    output_length: Count | None = None
    queued_ms: float | None = None
    arrival_time_ms: float | None = None
    first_token_ms: float | None = None
    last_token_ms: float | None = None
    terminal_status: str | None = None
    error: Any = None


def _measured(path: Path, text: bytes) -> list[MeasuredRequest]:
    return _lines(path, _MeasuredRow, _measured_request)


def _measured_request(place: str, row: _MeasuredRow) -> MeasuredRequest:
    given = MeasuredRequest(
        place=place,
        request_id=row.request_id,
        row=row.row,
        input_length=row.input_length,
        output_length=row.output_length,
        arrival_ms=row.queued_ms if row.queued_ms is not None else row.arrival_time_ms,
    )
    if row.error or row.terminal_status not in (None, "completed"):
        return _skipped(given, "failed" if row.terminal_status in (None, "completed") else row.terminal_status)
    if row.first_token_ms is None or row.last_token_ms is None:
        if row.terminal_status is None and row.error is None:
            missing = "first_token_ms" if row.first_token_ms is None else "last_token_ms"
            raise RowError(f"{missing}: missing; a request that did not complete has an `error`")
        return _skipped(given, "without tokens")
    if given.arrival_ms is None:
        raise RowError("queued_ms: missing; give queued_ms or arrival_time_ms on the clock of first_token_ms")
    return _with_times(given, row.first_token_ms - given.arrival_ms, row.last_token_ms - given.arrival_ms)


# AIPerf


class _Metric(msgspec.Struct):
    value: Any
    unit: str | None = None


class _AiperfMetadata(msgspec.Struct):
    session_num: Count | None = None
    turn_index: Count | None = None
    request_start_ns: float | None = None
    benchmark_phase: str | None = None
    was_cancelled: bool = False


class _AiperfRow(msgspec.Struct):
    metadata: _AiperfMetadata
    metrics: dict[str, _Metric] = {}
    error: Any = None


_TTFT = ("time_to_first_token", "ttft")
_INPUT = ("input_sequence_length", "isl")
_OUTPUT = ("output_sequence_length", "osl", "output_token_count")


def _aiperf(path: Path, text: bytes) -> list[MeasuredRequest]:
    found: list[tuple[_AiperfMetadata, MeasuredRequest]] = []

    def request(place: str, row: _AiperfRow) -> MeasuredRequest:
        made = _aiperf_request(place, row)
        found.append((row.metadata, made))
        return made

    _lines(path, _AiperfRow, request)
    # Records are written as requests end; warm-up requests are no part of the workload.
    found = [entry for entry in found if entry[0].benchmark_phase in (None, "profiling")]
    numbers = [metadata.session_num for metadata, _ in found]
    if None not in numbers and len(set(numbers)) == len(numbers):
        return [msgspec.structs.replace(made, row=metadata.session_num) for metadata, made in _by_start(found)]
    places = [(metadata.session_num, metadata.turn_index) for metadata, _ in found]
    if all(None not in place for place in places):
        # The workload numbers its requests session by session, whichever turns take place first.
        return [made for _, made in sorted(found, key=lambda entry: (entry[0].session_num, entry[0].turn_index))]
    return [made for _, made in _by_start(found)]


def _by_start(found: list[tuple[_AiperfMetadata, MeasuredRequest]]) -> list[tuple[_AiperfMetadata, MeasuredRequest]]:
    return sorted(found, key=lambda entry: entry[0].request_start_ns or 0.0)


def _aiperf_request(place: str, row: _AiperfRow) -> MeasuredRequest:
    start_ns = row.metadata.request_start_ns
    given = MeasuredRequest(
        place=place,
        input_length=_tokens(row.metrics, _INPUT),
        output_length=_tokens(row.metrics, _OUTPUT),
        arrival_ms=start_ns * 1e-6 if start_ns is not None else None,
    )
    if row.error:
        return _skipped(given, "failed")
    if row.metadata.was_cancelled:
        return _skipped(given, "cancelled")
    ttft_ms, e2e_ms = _time_ms(row.metrics, _TTFT), _time_ms(row.metrics, ("request_latency",))
    if ttft_ms is None:
        raise RowError("metrics.time_to_first_token: missing; measure with --streaming")
    if e2e_ms is None:
        raise RowError("metrics.request_latency: missing")
    return _with_times(given, ttft_ms, e2e_ms)


def _tokens(metrics: dict[str, _Metric], names: tuple[str, ...]) -> int | None:
    for name in names:
        if name in metrics:
            value = metrics[name].value
            if not isinstance(value, int | float) or value < 0 or value != int(value):
                raise RowError(f"metrics.{name}.value: expected a number of tokens, got {value!r}")
            return int(value)
    return None


def _time_ms(metrics: dict[str, _Metric], names: tuple[str, ...]) -> float | None:
    for name in names:
        if name in metrics:
            metric = metrics[name]
            unit = metric.unit or "ms"
            if unit not in _TO_MS:
                raise RowError(f"metrics.{name}.unit: expected one of {', '.join(_TO_MS)}, got {unit!r}")
            if isinstance(metric.value, bool) or not isinstance(metric.value, int | float):
                raise RowError(f"metrics.{name}.value: expected a number, got {metric.value!r}")
            return float(metric.value) * _TO_MS[unit]
    return None


# vllm bench serve --save-result --save-detailed


class _VllmBench(msgspec.Struct):
    """Lists of one entry per request, times in seconds."""

    ttfts: list[Time]
    itls: list[list[Time]]
    output_lens: list[Count]
    input_lens: list[Count] | None = None
    start_times: list[float] | None = None
    errors: list[str | None] | None = None


def _vllm_bench(path: Path, text: bytes) -> list[MeasuredRequest]:
    try:
        result = msgspec.json.decode(text, type=_VllmBench)
    except msgspec.ValidationError as error:
        raise InputError(
            f"{path}: {error}; expected the result of vllm bench serve --save-result --save-detailed"
        ) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        several = "; a file of several results (--append-result) has to be split" if text.count(b'"ttfts"') > 1 else ""
        reason = str(error).removeprefix("JSON is malformed: ")
        raise InputError(f"{path}: JSON is malformed: {reason}{several}") from None
    count = len(result.ttfts)
    for name in ("itls", "output_lens", "input_lens", "start_times", "errors"):
        entries = getattr(result, name)
        if entries is not None and len(entries) != count:
            raise InputError(f"{path}: {name}: expected {count} entries, as in ttfts, got {len(entries)}")
    return list(_bench_requests(path, result))


def _bench_requests(path: Path, result: _VllmBench) -> Iterator[MeasuredRequest]:
    for index, ttft in enumerate(result.ttfts):
        given = MeasuredRequest(
            place=f"entry {index + 1}",
            row=index,
            input_length=result.input_lens[index] if result.input_lens is not None else None,
            output_length=result.output_lens[index],
            arrival_ms=result.start_times[index] * 1e3 if result.start_times is not None else None,
        )
        if (result.errors is not None and result.errors[index]) or (not ttft and not result.output_lens[index]):
            yield _skipped(given, "failed")
            continue
        try:
            yield _with_times(given, ttft * 1e3, (ttft + math.fsum(result.itls[index])) * 1e3)
        except RowError as error:
            raise InputError(f"{path}: {given.place}: {error}") from None


# Common to all


def _lines(path: Path, row_type: type[Any], request: Callable[[str, Any], MeasuredRequest]) -> list[MeasuredRequest]:
    file = TraceFile(path)
    requests = []
    for number, row in file.rows(row_type):
        if row is None:
            continue
        try:
            requests.append(request(f"line {number}", row))
        except RowError as error:
            file.reject(number, str(error))
    return requests


def _skipped(request: MeasuredRequest, reason: str) -> MeasuredRequest:
    return msgspec.structs.replace(request, skipped=reason)


def _with_times(request: MeasuredRequest, ttft_ms: float, e2e_ms: float) -> MeasuredRequest:
    if not ttft_ms > 0.0:
        raise RowError(f"the first token came {ttft_ms:g} ms after the arrival; expected a time above 0")
    if e2e_ms > _LONGEST_MS:
        raise RowError(f"the last token came {e2e_ms:g} ms after the arrival; expected at most {_LONGEST_MS:g}")
    if not ttft_ms <= e2e_ms:
        raise RowError(f"the last token came {e2e_ms:g} ms after the arrival, before the first at {ttft_ms:g} ms")
    return msgspec.structs.replace(request, ttft_ms=ttft_ms, e2e_ms=e2e_ms)


def skipped_counts(rows: list[MeasuredRequest]) -> dict[str, int]:
    """How many rows do not count, by reason."""
    reasons = sorted(row.skipped for row in rows if row.skipped is not None)
    return {reason: reasons.count(reason) for reason in dict.fromkeys(reasons)}


def skipped_text(skipped: dict[str, int]) -> str:
    """For example `3 failed, 1 cancelled`."""
    return ", ".join(f"{count} {reason}" for reason, count in skipped.items())
