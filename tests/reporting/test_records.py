"""The per-request records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from actors.reporting.report import build_report
from messages.report import AdmissionEntry
from messages.requests import Status

Make = Callable[..., Any]


def test_terminal_requests_in_order_of_arrival_then_release(
    request_timeline: Make, timelines: Make, figures: Make
) -> None:
    run = timelines(
        (request_timeline(0, arrival_ms=5.0, terminal_ms=9.0), [9.0]),
        (request_timeline(1, arrival_ms=2.0, terminal_ms=9.0), [9.0]),
        (request_timeline(2, arrival_ms=5.0, terminal_ms=9.0), [9.0]),
        (request_timeline(3, arrival_ms=1.0, status=None), [9.0]),
    )
    records = build_report(run, figures()).requests
    assert records is not None
    assert [record.request_id for record in records] == ["request_2", "request_1", "request_3"]
    assert build_report(run, figures(), record_per_request=False).requests is None


def test_completed_request_with_a_readmission(request_timeline: Make, timelines: Make, figures: Make) -> None:
    request = request_timeline(
        0, arrival_ms=3.0, terminal_ms=20.0, reused=(64, 16), session_id="s", turn_index=1, metadata={"priority": 1}
    )
    (record,) = build_report(timelines((request, [10.0, 12.0, 20.0])), figures()).requests or []
    assert (record.first_admit_ms, record.first_token_ms, record.last_token_ms) == (3.0, 10.0, 20.0)
    assert (record.ttft_ms, record.ttst_ms, record.e2e_latency_ms, record.itl_ms) == (7.0, 2.0, 17.0, 5.0)
    assert (record.session_id, record.turn_index, record.metadata) == ("s", 1, {"priority": 1})
    assert record.reused_input_tokens == 64
    assert (record.prefill_worker_idx, record.decode_worker_idx) == (None, 0)
    assert record.admission_history == [
        AdmissionEntry(0, 0, "agg", 3.0, 64, False),
        AdmissionEntry(1, 1, "agg", 4.0, 16, True),
    ]
    assert (record.admission_count, record.readmission_count) == (2, 1)
    assert record.routing_history[0].outcome == "immediate"
    assert record.terminal_status == "completed"
    assert record.terminal_reason is None


def test_rejected_request_has_null_times_and_a_reason(request_timeline: Make, timelines: Make, figures: Make) -> None:
    request = request_timeline(0, terminal_ms=20.0, reused=(), status=Status.REJECTED, reason="prompt too long")
    (record,) = build_report(timelines((request, [])), figures()).requests or []
    row = msgspec.json.decode(msgspec.json.encode(record))
    for key in ("first_admit_ms", "first_token_ms", "last_token_ms", "ttft_ms", "ttst_ms", "e2e_latency_ms", "itl_ms"):
        assert row[key] is None
    assert (row["output_length"], row["reused_input_tokens"], row["admission_history"]) == (0, 0, [])
    assert (row["decode_worker_idx"], row["terminal_status"]) == (0, "rejected")
    assert row["terminal_reason"] == "prompt too long"


def test_record_keys_in_the_documented_order(request_timeline: Make, timelines: Make, figures: Make) -> None:
    (record,) = build_report(timelines((request_timeline(0, terminal_ms=1.0), [1.0])), figures()).requests or []
    assert list(msgspec.json.decode(msgspec.json.encode(record))) == [
        "request_id", "session_id", "turn_index", "metadata", "arrival_time_ms", "dispatched_at_ms", "first_admit_ms",
        "terminal_time_ms", "first_token_ms", "last_token_ms", "ttft_ms", "ttst_ms", "e2e_latency_ms", "itl_ms",
        "input_length", "requested_output_length", "output_length", "reused_input_tokens", "prefill_worker_idx",
        "decode_worker_idx", "prefill_admit_ms", "source_held_ms", "destination_reserved_ms",
        "destination_activated_ms", "decode_admit_ms", "source_released_ms", "decode_reused_input_tokens",
        "prefill_route_overlap_tokens", "decode_route_overlap_tokens", "routing_history", "admission_history",
        "admission_count", "readmission_count", "pressure_record_ordinals", "terminal_status", "terminal_reason",
    ]  # fmt: skip
