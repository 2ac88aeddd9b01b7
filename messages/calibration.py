"""Calibration: requests as they were measured, and what fitting a timing model to them gave. Times in ms."""

from __future__ import annotations

import msgspec

from messages.spec import Adjustment


class MeasuredRequest(msgspec.Struct, frozen=True, kw_only=True):
    """One row of a measurement.

    place: where the row stands, for messages (`line 3`, `entry 2`).
    request_id, row: which request of the workload it was, by id or by number from 0; both None: by order.
    arrival_ms: on a clock of the measurement's own. ttft_ms, e2e_ms: from the arrival to the first and to the last
        token.
    skipped: why the row does not count (it failed, say), None if it does; then both latencies are given.
    """

    place: str
    request_id: str | None = None
    row: int | None = None
    input_length: int | None = None
    output_length: int | None = None
    arrival_ms: float | None = None
    ttft_ms: float = 0.0
    e2e_ms: float = 0.0
    skipped: str | None = None


class Comparison(msgspec.Struct, frozen=True):
    """A statistic as it was measured and as the replay gives it; None where the part has no sample.

    error_percent: of the replay, relative to the measurement.
    """

    measured: float | None
    simulated: float | None
    error_percent: float | None


class PartErrors(msgspec.Struct, frozen=True):
    """One part of the rows: comparisons by statistic (`mean`, `p50`, `p90`, `p99`)."""

    rows: int
    ttft_ms: dict[str, Comparison]
    tpot_ms: dict[str, Comparison]
    e2e_latency_ms: dict[str, Comparison]


class ReplayErrors(msgspec.Struct, frozen=True):
    """One replay against the measurement. held_out: None where all rows were fitted.

    makespan_ms: from the first arrival to the last token of all rows that count.
    """

    fitted: PartErrors
    held_out: PartErrors | None
    makespan_ms: Comparison


class Candidate(msgspec.Struct, frozen=True):
    """The best adjustment with some parameters free: the typical error in percent on the fitted rows."""

    parameters: tuple[str, ...]
    adjust: Adjustment
    fit_error_percent: float
    chosen: bool


class CalibrationReport(msgspec.Struct, frozen=True, kw_only=True):
    """What a calibration did and found.

    requests: of the workload, all of which are replayed. rows: those of the measurement that count.
    skipped: rows that do not, by reason. joined_by: `request_id`, `row` or `order`.
    arrivals: whether requests arrive as `measured` or as the `spec` says.
    fit: which rows were fitted, as the option says it. replays: how many the fit took.
    parameters: those that the data supports; `reason` says why these.
    """

    measured: str
    format: str
    requests: int
    rows: int
    skipped: dict[str, int]
    joined_by: str
    arrivals: str
    fit: str
    adjust: Adjustment
    parameters: tuple[str, ...]
    reason: str
    candidates: tuple[Candidate, ...]
    replays: int
    before: ReplayErrors
    after: ReplayErrors
