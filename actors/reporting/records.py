"""The per-request records of `requests.jsonl`."""

from __future__ import annotations

from actors.names import AGGREGATED, DECODE, PREFILL
from actors.reporting.latencies import Floats, Latencies
from actors.reporting.timeline import RequestTimeline, Timelines
from messages.handoff import Milestone
from messages.passes import Admission
from messages.report import AdmissionEntry, RequestRecord, RoutingEntry
from messages.requests import Overlap, RequestRouted


def request_records(timelines: Timelines, latencies: Latencies) -> list[RequestRecord]:
    """Return a record per terminal request, by arrival time and then release order."""
    columns = zip(
        timelines.requests,
        latencies.tokens.tolist(),
        _optional(latencies.first_ms),
        _optional(latencies.last_ms),
        _optional(latencies.ttft_ms),
        _optional(latencies.ttst_ms),
        _optional(latencies.e2e_ms),
        _optional(latencies.tpot_ms),
        strict=True,
    )
    records = [_record(*row) for row in columns if row[0].status is not None]
    records.sort(key=lambda record: record.arrival_time_ms)
    return records


def _optional(values: Floats) -> list[float | None]:
    """NaN becomes None."""
    return [value if value == value else None for value in values.tolist()]


def _record(
    request: RequestTimeline,
    tokens: int,
    first_ms: float | None,
    last_ms: float | None,
    ttft_ms: float | None,
    ttst_ms: float | None,
    e2e_ms: float | None,
    tpot_ms: float | None,
) -> RequestRecord:
    assert request.status is not None
    assert request.terminal_time_ms is not None
    arrived, admissions = request.arrived, request.admissions
    pools = request.admission_pools
    prefill = [admission for admission, pool in zip(admissions, pools, strict=True) if pool != DECODE.label]
    decode = [admission for admission, pool in zip(admissions, pools, strict=True) if pool == DECODE.label]
    ranks = {routed.pool: routed.scheduler_id for routed in reversed(request.routing)}
    two_pools = PREFILL.label in ranks
    return RequestRecord(
        request_id=arrived.request_id,
        session_id=arrived.session_id,
        turn_index=arrived.turn_index,
        metadata=arrived.metadata,
        arrival_time_ms=arrived.arrival_time_ms,
        dispatched_at_ms=None,
        first_admit_ms=admissions[0].at_ms if admissions else None,
        terminal_time_ms=request.terminal_time_ms,
        first_token_ms=first_ms,
        last_token_ms=last_ms,
        ttft_ms=ttft_ms,
        ttst_ms=ttst_ms,
        e2e_latency_ms=e2e_ms,
        itl_ms=tpot_ms,
        input_length=arrived.input_length,
        requested_output_length=arrived.requested_output_length,
        output_length=tokens,
        reused_input_tokens=_most_reused(prefill),
        prefill_worker_idx=ranks.get(PREFILL.label),
        decode_worker_idx=_decode_worker_idx(request, ranks),
        prefill_admit_ms=prefill[0].at_ms if two_pools and prefill else None,
        source_held_ms=request.milestones.get(Milestone.SOURCE_HELD),
        destination_reserved_ms=request.milestones.get(Milestone.DESTINATION_RESERVED),
        destination_activated_ms=request.milestones.get(Milestone.DESTINATION_ACTIVATED),
        decode_admit_ms=decode[0].at_ms if decode else None,
        source_released_ms=request.milestones.get(Milestone.SOURCE_RELEASED),
        decode_reused_input_tokens=_most_reused(decode) if decode else None,
        prefill_route_overlap_tokens=_route_overlap_tokens(request) if two_pools else None,
        decode_route_overlap_tokens=0 if DECODE.label in ranks else None,
        routing_history=_routing_history(request),
        admission_history=_admission_history(request),
        admission_count=len(admissions),
        readmission_count=max(len(prefill) - 1, 0) + max(len(decode) - 1, 0),
        pressure_record_ordinals=[],
        terminal_status=request.status.value,
        terminal_reason=request.reason,
    )


def _most_reused(admissions: list[Admission]) -> int:
    return max([admission.reused_tokens for admission in admissions], default=0)


def _route_overlap_tokens(request: RequestTimeline) -> int:
    """Prompt tokens that the router of the prefill pool took for cached."""
    overlaps = (routed.overlap for routed in request.routing if routed.pool == PREFILL.label)
    return next((overlap.tokens for overlap in overlaps if overlap is not None), 0)


def _decode_worker_idx(request: RequestTimeline, ranks: dict[str, int]) -> int | None:
    """The decode rank that took the request over; with one pool, the rank it was dispatched to."""
    if PREFILL.label not in ranks:
        return ranks.get(AGGREGATED.label)
    return ranks.get(DECODE.label) if Milestone.DESTINATION_RESERVED in request.milestones else None


def _admission_history(request: RequestTimeline) -> list[AdmissionEntry]:
    entries = []
    counts: dict[str, int] = {}
    for ordinal, (admission, pool) in enumerate(zip(request.admissions, request.admission_pools, strict=True)):
        count = counts.get(pool, 0)
        counts[pool] = count + 1
        entries.append(AdmissionEntry(ordinal, count, pool, admission.at_ms, admission.reused_tokens, count > 0))
    return entries


def _routing_history(request: RequestTimeline) -> list[RoutingEntry]:
    return [
        RoutingEntry(
            pool=routed.pool,
            outcome="immediate" if routed.queue_entered_at_ms is None else "queued",
            queue_entered_at_ms=routed.queue_entered_at_ms,
            released_at_ms=routed.released_at_ms,
            queue_wait_ms=_queue_wait_ms(routed),
            logical_worker_id=routed.worker_id,
            scheduler_id=routed.scheduler_id,
            dp_rank=routed.dp_rank,
            **_overlap(routed.overlap),
        )
        for routed in request.routing
    ]


def _overlap(overlap: Overlap | None) -> dict[str, int]:
    if overlap is None:
        return {}
    return {
        "reported_overlap_tokens": overlap.tokens,
        "selected_overlap_blocks": overlap.selected_blocks,
        "best_available_overlap_blocks": overlap.best_blocks,
        "overlap_regret_blocks": overlap.best_blocks - overlap.selected_blocks,
    }


def _queue_wait_ms(routed: RequestRouted) -> float:
    if routed.queue_entered_at_ms is None or routed.released_at_ms is None:
        return 0.0
    return max(routed.released_at_ms - routed.queue_entered_at_ms, 0.0)
