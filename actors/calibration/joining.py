"""Which measured row is which request of the workload, and what of the measurement goes into the replay."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np

from actors.calibration.statistics import Flags
from actors.workload.source import Turn, Workload
from messages.calibration import MeasuredRequest
from messages.errors import InputError
from messages.report import RequestRecord

FEWEST_ROWS = 20
"""Rows that have to count, in every part."""


class Joined(msgspec.Struct, frozen=True):
    """requests: the row of every request of the workload, by number; None where the measurement has none.

    joined_by: `request_id`, `row` or `order`.
    """

    requests: list[MeasuredRequest | None]
    joined_by: str

    @property
    def counts(self) -> Flags:
        """Whether a request has a row that counts."""
        return np.array([row is not None and row.skipped is None for row in self.requests])


def turns_of(workload: Workload) -> list[Turn]:
    """The requests of a workload by number: sessions in order of appearance, their turns in order."""
    return [turn for session in workload.sessions for turn in session.turns]


def join(path: Path, rows: list[MeasuredRequest], turns: list[Turn]) -> Joined:
    """Assign measured rows to requests: by id where the ids are those of the workload, else by row, else by order.

    Raises InputError where rows have no request, two have the same, or there are not as many as requests.
    """
    by_id = {turn.request_id: number for number, turn in enumerate(turns)}
    if all(row.request_id is not None for row in rows) and any(row.request_id in by_id for row in rows):
        joined_by, numbers = "request_id", [by_id.get(row.request_id or "") for row in rows]
        found = [f"request_id {row.request_id!r}" for row in rows]
    elif all(row.row is not None for row in rows):
        joined_by, numbers = "row", [row.row if row.row is not None and row.row < len(turns) else None for row in rows]
        found = [f"row {row.row}" for row in rows]
    else:
        if len(rows) != len(turns):
            raise InputError(
                f"{path}: holds {len(rows)} requests, the workload of the spec {len(turns)}; rows without `request_id` "
                "or `row` are joined by their order, for which there must be one per request"
            )
        joined_by, numbers, found = "order", list(range(len(turns))), []
    requests: list[MeasuredRequest | None] = [None] * len(turns)
    for index, (row, number) in enumerate(zip(rows, numbers, strict=True)):
        if number is None:
            raise InputError(
                f"{path}: {row.place}: {found[index]} is no request of the spec's workload, which has {len(turns)}"
            )
        other = requests[number]
        if other is not None:
            raise InputError(f"{path}: {row.place}: {found[index]} occurs before, on {other.place}")
        requests[number] = row
    return Joined(requests, joined_by)


def check_lengths(path: Path, joined: Joined, turns: list[Turn], records: dict[str, RequestRecord]) -> None:
    """Refuse rows whose lengths are not those of their requests, or whose requests the replay does not complete."""
    findings: list[str] = []
    for row, turn in zip(joined.requests, turns, strict=True):
        if row is None or row.skipped is not None:
            continue
        record = records.get(turn.request_id)
        if record is None or record.terminal_status != "completed" or record.first_token_ms is None:
            reason = (record.terminal_reason or record.terminal_status) if record is not None else "not simulated"
            findings.append(
                f"{path}: {row.place}: completed when measured, but request {turn.request_id!r} does not "
                f"complete in the replay: {reason}"
            )
            continue
        for name, measured, replayed in (
            ("input_length", row.input_length, record.input_length),
            ("output_length", row.output_length, record.output_length),
        ):
            if measured is not None and measured != replayed:
                findings.append(
                    f"{path}: {row.place}: {name} is {measured}, that of request {turn.request_id!r} in the replay "
                    f"{replayed}; give the workload the lengths that were measured"
                )
    if findings:
        raise InputError(*findings)


def measured_arrivals(joined: Joined, workload: Workload) -> list[float] | None:
    """When the requests of a workload arrived as measured, in ms from the first; None where that is not known of all.

    It counts for open loop without sessions only: later turns arrive when those before them have ended.
    """
    if workload.max_in_flight is not None or any(len(session.turns) > 1 for session in workload.sessions):
        return None
    arrivals = [row.arrival_ms for row in joined.requests if row is not None and row.arrival_ms is not None]
    if len(arrivals) < len(workload.sessions):
        return None
    first = min(arrivals)
    return [arrival - first for arrival in arrivals]


def with_arrivals(workload: Workload, arrivals_ms: list[float]) -> Workload:
    """The same sessions, each arriving at the time given for it."""
    sessions = [
        msgspec.structs.replace(session, first_arrival_ms=arrival)
        for session, arrival in zip(workload.sessions, arrivals_ms, strict=True)
    ]
    return msgspec.structs.replace(workload, sessions=sessions)


def fitting_rows(fit: str, count: int) -> Flags:
    """Which of `count` requests are fitted: `even`, `odd` or `all` numbers, or a share of them, evenly spread.

    Raises InputError for other texts.
    """
    numbers = np.arange(count)
    if fit in ("even", "odd"):
        return np.array(numbers % 2 == (fit == "odd"))
    if fit == "all":
        return np.ones(count, bool)
    try:
        share = float(fit)
    except ValueError:
        share = 0.0
    if not 0.0 < share < 1.0:
        raise InputError(f"--fit: expected even, odd, all or a share such as 0.5, between 0 and 1, got {fit!r}")
    return np.array(np.diff(np.floor(np.arange(count + 1) * share)) > 0.0)


def check_counts(path: Path, fitted: int, held_out: int | None, fit: str) -> None:
    """Refuse to judge by a handful of requests."""
    for name, rows in (("fitted", fitted), ("held out", held_out)):
        if rows is not None and rows < FEWEST_ROWS:
            raise InputError(
                f"{path}: {rows} rows that count are {name} with --fit {fit}; at least {FEWEST_ROWS} are needed"
                + ("" if held_out is None else " on either side")
            )
