"""What a replay returns: the summary and one record per terminal request."""

from __future__ import annotations

from typing import Any

import msgspec

from messages.planner_report import PlannerTick, ScalingEvent
from messages.telemetry import TelemetrySample

Number = int | float


class RoutingEntry(msgspec.Struct, frozen=True, omit_defaults=False):
    """One placement of a request. Times in ms; `*_tokens` in tokens, `*_blocks` in blocks."""

    pool: str
    outcome: str
    queue_entered_at_ms: float | None
    released_at_ms: float | None
    queue_wait_ms: float
    logical_worker_id: int
    scheduler_id: int
    dp_rank: int
    reported_overlap_tokens: int = 0
    selected_overlap_blocks: int | None = None
    best_available_overlap_blocks: int | None = None
    overlap_regret_blocks: int | None = None
    placement_replica_id: int | None = None


class AdmissionEntry(msgspec.Struct, frozen=True):
    """One admission of a request to a scheduler's running set."""

    admission_ordinal: int
    pool_admission_ordinal: int
    pool: str
    at_ms: float
    reused_input_tokens: int
    is_readmission: bool


class RequestRecord(msgspec.Struct, frozen=True):
    """The timeline of one terminal request. Times and latencies in simulated ms, lengths in tokens."""

    request_id: str
    session_id: str | None
    turn_index: int | None
    metadata: Any
    arrival_time_ms: float
    dispatched_at_ms: float | None
    first_admit_ms: float | None
    terminal_time_ms: float
    first_token_ms: float | None
    last_token_ms: float | None
    ttft_ms: float | None
    ttst_ms: float | None
    e2e_latency_ms: float | None
    itl_ms: float | None
    input_length: int
    requested_output_length: int
    output_length: int
    reused_input_tokens: int
    prefill_worker_idx: int | None
    decode_worker_idx: int | None
    prefill_admit_ms: float | None
    source_held_ms: float | None
    destination_reserved_ms: float | None
    destination_activated_ms: float | None
    decode_admit_ms: float | None
    source_released_ms: float | None
    decode_reused_input_tokens: int | None
    prefill_route_overlap_tokens: int | None
    decode_route_overlap_tokens: int | None
    routing_history: list[RoutingEntry]
    admission_history: list[AdmissionEntry]
    admission_count: int
    readmission_count: int
    pressure_record_ordinals: list[int]
    terminal_status: str
    terminal_reason: str | None


class RankRouting(msgspec.Struct, frozen=True):
    """What a router sent to one rank: requests, prompt tokens, and how many of those it took for cached there."""

    worker_id: int
    dp_rank: int
    requests: int
    input_tokens: int
    overlap_tokens: int


class PoolRouting(msgspec.Struct, frozen=True):
    """What a KV router did in one pool.

    placements: requests it placed. queued_placements: those that had waited in it before; mean, p99 and max of their
        waits in simulated ms, None without any.
    overlap_tokens: prompt tokens it took for cached on the rank it chose.
    kv_hit_rate: mean over placements of overlap blocks over blocks of the prompt.
    regret_blocks: blocks that some other rank had cached beyond the chosen one. max_regret_blocks: of one placement.
        regretted_placements: how many had any.
    ranks: those that were given a request, ascending.
    """

    placements: int
    queued_placements: int
    mean_queue_wait_ms: float | None
    p99_queue_wait_ms: float | None
    max_queue_wait_ms: float | None
    overlap_tokens: int
    kv_hit_rate: float
    regret_blocks: int
    max_regret_blocks: int
    regretted_placements: int
    ranks: list[RankRouting]


class ScalingDecision(msgspec.Struct, frozen=True):
    """What a scaling policy answered at a tick. A target of None leaves the pool as it is. Times in simulated ms.

    load_decision_reason, throughput_decision_reason: why, where the planner decided.
    """

    tick_ordinal: int
    at_ms: float
    target_prefill: int | None
    target_decode: int | None
    next_tick_ms: float | None
    load_decision_reason: str | None = None
    throughput_decision_reason: str | None = None


class WorkerTransition(msgspec.Struct, frozen=True):
    """A worker changed its state: `starting`, `active`, `draining`, `removed`; None before it existed.

    origin_operation_ordinal: the operation that began its start-up or its drain.
    reason: startup_cancelled where a worker was given up before it was ready.
    """

    worker_id: int
    transition: str
    prior_state: str | None
    state: str
    origin_operation_ordinal: int | None
    reason: str | None = None


class LifecycleEntry(msgspec.Struct, frozen=True):
    """What one decision, one end of a start-up or one end of drains did.

    cause: planner_scale, worker_ready_event or drain_settlement.
    state_after_batch: ids of workers that are active, starting and draining afterwards.
    """

    operation_ordinal: int
    at_ms: float
    pool: str
    cause: str
    planner_tick_ordinal: int | None
    origin_operation_ordinal: int | None
    transitions: list[WorkerTransition]
    state_after_batch: dict[str, list[int]]


class WorkerCount(msgspec.Struct, frozen=True):
    """Workers of a pool from a time on, by state."""

    at_ms: float
    pool: str
    active: int
    starting: int
    draining: int


class ScalingReport(msgspec.Struct, frozen=True):
    """What a scaling policy did. decisions: those that name a target. worker_counts: one entry per change.

    scaling_events, metadata: what the planner tells of itself.
    """

    total_ticks: int
    decisions: list[ScalingDecision]
    lifecycle_operations: list[LifecycleEntry]
    worker_counts: list[WorkerCount]
    scaling_events: list[ScalingEvent] = []
    metadata: dict[str, Any] | None = None


class Shortfall(msgspec.Struct, frozen=True):
    """Requests that did not complete, for one way of ending.

    status: `rejected`, `failed`, or `unfinished` for those that the end of the run cut off.
    reasons: the first few distinct reasons, in release order.
    """

    status: str
    count: int
    reasons: list[str]


class ReplayReport(msgspec.Struct, frozen=True):
    """summary: the flat object of report.json, keys in their documented order.

    requests: a record per terminal request, by arrival time and then release order; None where
    the spec says `record_per_request: false`.
    routing: what the KV routers did, by pool; None under another placement.
    planner: what the scaling policy did; None without one.
    planner_ticks: what the planner saw and decided at every tick; None under another policy.
    telemetry: samples in the order of time; None where the spec asks for none.
    shortfalls: one entry per way of not completing that occurred.
    warnings: oddities of the input that did not stop the run, a line each.
    """

    summary: dict[str, Number | str | None]
    requests: list[RequestRecord] | None
    shortfalls: list[Shortfall] = []
    warnings: list[str] = []
    routing: dict[str, PoolRouting] | None = None
    planner: ScalingReport | None = None
    planner_ticks: list[PlannerTick] | None = None
    telemetry: list[TelemetrySample] | None = None


class ConcludeRun(msgspec.Struct, frozen=True):
    """The run is over: derive the report. Worker-seconds of simulated time, `wall_time_ms` of host time."""

    worker_seconds: float
    prefill_worker_seconds: float
    wall_time_ms: float
    warnings: tuple[str, ...] = ()
