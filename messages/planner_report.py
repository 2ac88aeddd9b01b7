"""What the planner reports: every tick with its input, its decision and the reasons, and what it was configured to.

Field names are those of the reference's records. Times ending in `_s` are simulated seconds, `_ms` milliseconds; counts
are workers.
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import Struct, field


class ScheduledWork(Struct, frozen=True):
    """What a pass computes: requests and tokens. `sum_*_kv_tokens` are tokens whose KV is read."""

    num_prefill_requests: int = 0
    sum_prefill_tokens: int = 0
    var_prefill_length: float = 0.0
    sum_prefill_kv_tokens: int = 0
    num_decode_requests: int = 0
    sum_decode_kv_tokens: int = 0
    var_decode_kv_tokens: float = 0.0


class QueuedWork(Struct, frozen=True):
    """What waits while a pass runs."""

    num_prefill_requests: int = 0
    sum_prefill_tokens: int = 0
    var_prefill_length: float = 0.0
    num_decode_requests: int = 0
    sum_decode_kv_tokens: int = 0
    var_decode_kv_tokens: float = 0.0


class PassMetrics(Struct, frozen=True):
    """A finished forward pass of one rank. `wall_time`: its seconds, 0 for a rank that has been idle."""

    wall_time: float
    scheduled_requests: ScheduledWork
    queued_requests: QueuedWork = QueuedWork()
    version: int = 1
    worker_id: str = ""
    dp_rank: int = 0
    counter_id: int = 0


class Observation(Struct, frozen=True):
    """The latest pass of one rank."""

    worker_id: str
    dp_rank: int
    metrics: PassMetrics


class Observations(Struct, frozen=True):
    """The latest passes per pool, sorted; null where the tick does not look at them or there is none."""

    prefill: list[Observation] | None = None
    decode: list[Observation] | None = None


class Traffic(Struct, frozen=True):
    """A window of traffic: arrivals, and means over what completed in it. `isl`, `osl`: tokens."""

    duration_s: float
    num_req: float
    isl: float
    osl: float
    kv_hit_rate: float | None = None
    accept_length: float | None = None


class WorkerCounts(Struct, frozen=True):
    """Sizes of the pools. ready: active workers; expected: where the pool is heading; null for a pool there is not."""

    ready_num_prefill: int | None
    ready_num_decode: int
    expected_num_prefill: int | None
    expected_num_decode: int
    prefill_scaling_in_progress: bool = False
    decode_scaling_in_progress: bool = False
    pending_num_prefill: int = 0
    pending_num_decode: int = 0

    @property
    def prefill_is_busy(self) -> bool:
        """Whether the prefill pool is on its way to another size."""
        return self.prefill_scaling_in_progress or self.expected_num_prefill != self.ready_num_prefill

    @property
    def decode_is_busy(self) -> bool:
        """Whether the decode pool is on its way to another size."""
        return self.decode_scaling_in_progress or self.expected_num_decode != self.ready_num_decode

    @property
    def are_busy(self) -> bool:
        """Whether any pool is on its way to another size."""
        return self.prefill_is_busy or self.decode_is_busy


class ScheduledTick(Struct, frozen=True):
    """What is due at a tick and what it needs to know."""

    at_s: float
    run_load_scaling: bool
    run_throughput_scaling: bool
    need_traffic_metrics: bool
    use_full_traffic_metrics: bool
    traffic_metrics_duration_s: float
    need_worker_states: bool
    need_worker_fpm: bool
    at_monotonic_s: float


class TickInput(Struct, frozen=True):
    """What a tick knows."""

    now_s: float
    traffic: Traffic | None
    worker_counts: WorkerCounts
    fpm_observations: Observations


class PoolTopology(Struct, frozen=True):
    """Workers of a pool at a tick, by state."""

    active: list[int]
    active_count: int
    starting: list[int]
    starting_count: int
    draining: list[int]
    draining_count: int


class Topology(Struct, frozen=True):
    """Workers of both pools; an aggregated cluster has its workers under decode."""

    prefill: PoolTopology
    decode: PoolTopology


class ScaleTo(Struct, frozen=True):
    """Pool sizes that the pipeline asks for; null for a pool that it says nothing about."""

    num_prefill: int | None
    num_decode: int | None


class Diagnostics(Struct):
    """Why a tick decided as it did; filled in while it runs."""

    estimated_ttft_ms: float | None = None
    estimated_itl_ms: float | None = None
    predicted_num_req: float | None = None
    predicted_isl: float | None = None
    predicted_osl: float | None = None
    predicted_kv_hit_rate: float | None = None
    engine_rps_prefill: float | None = None
    engine_rps_decode: float | None = None
    throughput_lower_bound_prefill: int = 1
    throughput_lower_bound_decode: int = 1
    load_decision_reason: str | None = None
    throughput_decision_reason: str | None = None
    load_decision_reason_prefill: str | None = None
    load_decision_reason_decode: str | None = None
    throughput_decision_reason_prefill: str | None = None
    throughput_decision_reason_decode: str | None = None
    plugin_overrides: list[str] = field(default_factory=list)
    reconcile_reasons: dict[str, str] = field(default_factory=dict)
    held_over_plugins: list[str] = field(default_factory=list)
    execute_action: Literal["apply", "skip_short_circuit"] = "apply"
    short_circuit_reason: str = ""
    audit_events: list[str] = field(default_factory=list)


class Effects(Struct, frozen=True):
    """What a tick decided, and why."""

    scale_to: ScaleTo | None
    next_tick: ScheduledTick
    diagnostics: Diagnostics


class RuntimeDecision(Struct, frozen=True):
    """What was sent to the cluster: pool sizes in active and starting workers, null for unchanged."""

    target_prefill: int | None
    target_decode: int | None
    next_tick_ms: float


class PlannerTick(Struct, frozen=True):
    """One tick, a line of planner.jsonl."""

    ordinal: int
    at_ms: float
    scheduled_tick: ScheduledTick
    input: TickInput
    topology: Topology
    effects: Effects
    runtime_decision: RuntimeDecision


class ScalingEvent(Struct, frozen=True):
    """A change of the size of a pool, counted in active and starting workers."""

    at_s: float
    component: Literal["agg", "prefill", "decode"]
    from_count: int
    to_count: int
    reason: Literal["scale_up", "scale_down"]


class PlannerDetails(Struct, frozen=True):
    """All that the planner has to tell about a run."""

    metadata: dict[str, Any]
    ticks: list[PlannerTick]
    scaling_events: list[ScalingEvent]
    total_ticks: int
