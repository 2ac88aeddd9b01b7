"""Requests that take time to reach the cluster: `adjust.request_overhead_ms` of its timing model."""

from __future__ import annotations

from typing import Any

import pytest

from actors import replay

POOL = {"initial_workers": 1}
TOPOLOGIES = {
    "aggregated": {"kind": "aggregated", "workers": POOL},
    "disaggregated": {"kind": "disaggregated", "prefill": POOL, "decode": POOL},
}


def spec(overhead_ms: float, topology: str, **parts: Any) -> dict[str, Any]:
    timing = {"type": "fixed", "prefill_ms": 8.0, "decode_ms": 2.0, "adjust": {"request_overhead_ms": overhead_ms}}
    rows = [
        {"id": f"r{number}", "arrival_time_ms": 5.0 * number, "input_tokens": 40, "output_tokens": 6 + number % 3}
        for number in range(8)
    ]
    rank = {"block_size": 8, "max_num_seqs": 2, "timing_model": timing}
    return {"topology": TOPOLOGIES[topology], "engine": {"rank": rank}, "requests": rows, **parts}


def times(document: dict[str, Any], **options: Any) -> list[tuple[float, ...]]:
    """Arrival, first admission, first and last token of every request."""
    records = replay(document, **options).requests
    assert records is not None
    return [
        (record.arrival_time_ms, record.first_admit_ms, record.first_token_ms, record.last_token_ms)
        for record in records
    ]


@pytest.mark.parametrize("topology", list(TOPOLOGIES))
def test_requests_enter_later_and_count_from_their_arrival(topology: str) -> None:
    expected = [(arrival, *(time + 16.0 for time in later)) for arrival, *later in times(spec(0.0, topology))]
    assert times(spec(16.0, topology)) == expected


@pytest.mark.parametrize("topology", list(TOPOLOGIES))
def test_steps_and_threads_give_the_same(topology: str) -> None:
    document = spec(3.25, topology)
    assert times(document) == times(document, step=True) == times(document, runtime="threads")


def test_the_next_request_of_a_closed_loop_takes_time_too() -> None:
    entries = [(arrival, admitted) for arrival, admitted, *_ in times(spec(16.0, "aggregated", max_in_flight=1))]
    assert all(admitted - arrival == 16.0 for arrival, admitted in entries)
    assert entries[1][0] > entries[0][1]
