"""The requests of two runs beside each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from operator import attrgetter

import numpy as np
from numpy.typing import NDArray

from actors.reporting.statistics import distribution
from messages.comparison import ChangedRequest, Join, RequestDifferences
from messages.report import RequestRecord

REQUEST_LATENCIES = ("ttft_ms", "itl_ms", "e2e_latency_ms")
"""Latencies of a record; less is better for all."""

EQUAL_MS = 1e-6
"""Differences up to this are rounding: equal waits that begin at other times of the clock."""

_MOST_CHANGED = 5

Pair = tuple[RequestRecord, RequestRecord]


def join_requests(
    run: str, first: Sequence[RequestRecord], other: Sequence[RequestRecord], *, fixed_arrivals: bool
) -> Join:
    """Compare the requests of both runs. fixed_arrivals: whether the workload alone decides when requests arrive."""
    pairs = matching(first, other)
    return Join(
        run=run,
        matched=len(pairs),
        only_first=len(first) - len(pairs),
        only_other=len(other) - len(pairs),
        other_arrivals=sum(fixed_arrivals and _arrives_elsewhen(*pair) for pair in pairs),
        other_lengths=sum(_lengths(one) != _lengths(two) for one, two in pairs),
        other_endings=sum(one.terminal_status != two.terminal_status for one, two in pairs),
        differences=[_differences(key, pairs) for key in REQUEST_LATENCIES],
    )


def matching(first: Sequence[RequestRecord], other: Sequence[RequestRecord]) -> list[Pair]:
    """Pair the requests with the same id, in the order of the first run.

    Where an id occurs several times in a run, session and turn tell the requests apart, and after that their order.
    """
    ones, twos = _by_id(first), _by_id(other)
    partners: dict[int, RequestRecord] = {}
    for name, group in ones.items():
        opposite = twos.get(name, [])
        if len(group) == len(opposite) == 1:
            partners[id(group[0])] = opposite[0]
        else:
            turns, other_turns = _by_turn(group), _by_turn(opposite)
            for turn, records in turns.items():
                # The longer of two groups keeps the rest for itself.
                for one, two in zip(records, other_turns.get(turn, []), strict=False):
                    partners[id(one)] = two
    return [(record, partners[id(record)]) for record in first if id(record) in partners]


def _by_id(records: Iterable[RequestRecord]) -> dict[str, list[RequestRecord]]:
    groups: dict[str, list[RequestRecord]] = defaultdict(list)
    for record in records:
        groups[record.request_id].append(record)
    return groups


def _by_turn(records: Iterable[RequestRecord]) -> dict[tuple[str | None, int | None], list[RequestRecord]]:
    groups: dict[tuple[str | None, int | None], list[RequestRecord]] = defaultdict(list)
    for record in records:
        groups[record.session_id, record.turn_index].append(record)
    return groups


def _arrives_elsewhen(one: RequestRecord, two: RequestRecord) -> bool:
    """Later turns of a session arrive when the one before them has ended."""
    return not one.turn_index and abs(one.arrival_time_ms - two.arrival_time_ms) > EQUAL_MS


def _lengths(record: RequestRecord) -> tuple[int, int]:
    return record.input_length, record.requested_output_length


def changes_ms(key: str, pairs: Sequence[Pair]) -> NDArray[np.float64]:
    """Return other - first of a latency, of the pairs that have it in both; 0 for those that are equal."""
    _, first, other = _latencies(key, pairs)
    change = other - first
    change[np.abs(change) <= EQUAL_MS] = 0.0
    return change


def _latencies(key: str, pairs: Sequence[Pair]) -> tuple[list[Pair], NDArray[np.float64], NDArray[np.float64]]:
    """The pairs that have a latency in both, and its values."""
    value = attrgetter(key)
    rows = [pair for pair in pairs if value(pair[0]) is not None and value(pair[1]) is not None]
    first = np.array([value(one) for one, _ in rows], np.float64)
    return rows, first, np.array([value(two) for _, two in rows], np.float64)


def _differences(key: str, pairs: Sequence[Pair]) -> RequestDifferences:
    rows, first, other = _latencies(key, pairs)
    change = changes_ms(key, pairs)
    spread = distribution(change)
    largest = np.argsort(-np.abs(change), kind="stable")[:_MOST_CHANGED].tolist()
    return RequestDifferences(
        key=key,
        requests=len(rows),
        mean=spread.mean,
        min=spread.min,
        p50=spread.median,
        p90=spread.p90,
        p99=spread.p99,
        max=spread.max,
        better=int(np.count_nonzero(change < 0.0)),
        worse=int(np.count_nonzero(change > 0.0)),
        equal=int(np.count_nonzero(change == 0.0)),
        most_changed=[
            ChangedRequest(
                request_id=rows[index][0].request_id,
                session_id=rows[index][0].session_id,
                turn_index=rows[index][0].turn_index,
                first=float(first[index]),
                other=float(other[index]),
                difference=float(change[index]),
            )
            for index in largest
            if change[index]
        ],
    )
