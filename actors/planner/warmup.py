"""Traffic of the past, from a trace, for the predictors to start with."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from actors.spec.paths import files_meant
from messages.errors import InputError
from messages.planner import PlannerConfig
from messages.planner_report import Traffic

_REQUEST_TRACE = "dynamo.request.trace.v1"


class PastRequest(NamedTuple):
    """A request: time in ms, tokens in and out."""

    at_ms: float
    isl: float
    osl: float


def load_windows(config: PlannerConfig, base_dir: Path) -> list[Traffic]:
    """Windows of the configured warm-up trace, as long as a throughput interval; none without a trace or a use for it.

    Raises InputError with `path:line: what` where a trace cannot be used.
    """
    if config.load_predictor_warmup_trace is None or not config.enable_throughput_scaling:
        return []
    requests: list[PastRequest] = []
    is_mooncake = True
    given = base_dir / config.load_predictor_warmup_trace
    paths = files_meant(given)
    if not paths:
        raise InputError(f"load_predictor_warmup_trace: {given}: no such file; expected a trace, a folder or a pattern")
    for path in paths:
        for request, of_mooncake in _read(path):
            requests.append(request)
            is_mooncake = is_mooncake and of_mooncake
    origin_ms = 0.0 if is_mooncake else min((request.at_ms for request in requests), default=0.0)
    return windows(requests, origin_ms, config.throughput_adjustment_interval_seconds)


def windows(requests: Iterable[PastRequest], origin_ms: float, interval_s: int) -> list[Traffic]:
    """Traffic per interval from the first to the last that has requests; intervals without are windows of nothing."""
    buckets: dict[int, list[PastRequest]] = {}
    for request in requests:
        buckets.setdefault(int((request.at_ms - origin_ms) // (interval_s * 1000)), []).append(request)
    if not buckets:
        return []
    return [_window(buckets.get(index, []), interval_s) for index in range(min(buckets), max(buckets) + 1)]


def _window(requests: list[PastRequest], interval_s: int) -> Traffic:
    count = len(requests)
    isl, osl = sum(request.isl for request in requests), sum(request.osl for request in requests)
    return Traffic(interval_s, float(count), isl / count if count else 0.0, osl / count if count else 0.0)


def _read(path: Path) -> Iterator[tuple[PastRequest, bool]]:
    try:
        text = path.read_bytes()
        lines = (gzip.decompress(text) if path.suffix == ".gz" else text).decode("utf-8-sig").splitlines()
    except (OSError, EOFError, ValueError) as error:
        raise InputError(f"load_predictor_warmup_trace: {path}: cannot be read: {error}") from None
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            request = _request_of(row) if _is_request_trace(row) else _mooncake_row(row)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            what = f"{error} is missing" if isinstance(error, KeyError) else error
            raise InputError(
                f"load_predictor_warmup_trace: {path}:{number}: {what}; expected a Mooncake row with timestamp, "
                f"input_length and output_length, or a record of {_REQUEST_TRACE}"
            ) from None
        if request is not None:
            yield request, not _is_request_trace(row)


def _is_request_trace(row: Any) -> bool:
    record = row.get("event", row)
    return "event_type" in record or record.get("schema") == _REQUEST_TRACE


def _mooncake_row(row: dict[str, Any]) -> PastRequest:
    return PastRequest(_number(row, "timestamp"), _number(row, "input_length"), _number(row, "output_length"))


def _request_of(row: dict[str, Any]) -> PastRequest | None:
    """The request that a record ends; None for records of other things."""
    record = row.get("event", row)
    if record.get("schema", row.get("schema")) != _REQUEST_TRACE:
        raise ValueError(f"schema: expected {_REQUEST_TRACE!r}, got {record.get('schema')!r}")
    if record["event_type"] != "request_end":
        return None
    request = record["request"]
    if request.get("request_received_ms") is not None:
        start_ms = _number(request, "request_received_ms")
    else:
        total_ms = _number(request, "total_time_ms") if request.get("total_time_ms") is not None else 0.0
        start_ms = max(0.0, _number(record, "event_time_unix_ms") - round(total_ms))
    return PastRequest(start_ms, _number(request["replay"], "input_length"), _number(request, "output_tokens"))


def _number(holder: dict[str, Any], name: str) -> float:
    value = holder[name]
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}: expected a number, got {value!r}")
    return value
