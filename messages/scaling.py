"""Life of worker pools: which workers exist and may take requests, and how a scaling policy changes that.

A tick asks every pool for its state, every pool its workers, and the collector for the traffic. The policy answers with
targets, which the pools apply.
"""

from __future__ import annotations

import msgspec

from messages.passes import ForwardPassMetrics


class StartPool(msgspec.Struct, frozen=True, gc=False):
    """The run begins: announce the workers that exist from the start."""


class WorkerReady(msgspec.Struct, frozen=True, gc=False):
    """A worker may take requests. `scheduler_ids` are those of its ranks, in rank order."""

    worker_id: int
    scheduler_ids: tuple[int, ...]


class WorkerDraining(msgspec.Struct, frozen=True, gc=False):
    """A worker keeps the requests it has and takes no more."""

    worker_id: int


class WorkerRemoved(msgspec.Struct, frozen=True, gc=False):
    """A worker is gone."""

    worker_id: int


class TopologySettled(msgspec.Struct, frozen=True, gc=False):
    """All changes of one decision about the pool have been announced."""


class WorkerStarted(msgspec.Struct, frozen=True, gc=False):
    """A pool's own alarm: the start-up of a worker is over."""

    worker_id: int


class WorkerDrained(msgspec.Struct, frozen=True, gc=False):
    """A draining worker has nothing left."""

    worker_id: int


class RetireWorkers(msgspec.Struct, frozen=True, gc=False):
    """A pool's own message, at the end of a round: remove the workers that have drained."""


class StartScaling(msgspec.Struct, frozen=True, gc=False):
    """All that is due at the start of the run has been done: ask the policy for its first tick."""


class ScalingTick(msgspec.Struct, frozen=True, gc=False):
    """The scaler's own alarm: time to ask the policy."""


class RunUntil(msgspec.Struct, frozen=True, gc=False):
    """Runs of merged passes must end by then, so that all passes before are known; None for no limit."""

    at_ms: float | None


class ReportPool(msgspec.Struct, frozen=True, gc=False):
    """The scaler wants to know the state of a pool."""


class ReportWorker(msgspec.Struct, frozen=True, gc=False):
    """A pool wants to know the state of a worker, which has been active since then; None if it is not active."""

    active_since_ms: float | None


class RankRow(msgspec.Struct, frozen=True, gc=False):
    """The latest pass of a rank since the last report, or a row of zeros if it has been idle for long."""

    worker_id: int
    dp_rank: int
    metrics: ForwardPassMetrics


class WorkerReport(msgspec.Struct, frozen=True, gc=False):
    """The answer to `ReportWorker`. drained: it has no request and no pass in flight."""

    worker_id: int
    drained: bool
    rows: tuple[RankRow, ...] = ()


class PoolReport(msgspec.Struct, frozen=True, gc=False):
    """The answer to `ReportPool`: ids of workers by state, ascending, and the rows of active ones."""

    pool: str
    active: tuple[int, ...]
    starting: tuple[int, ...]
    draining: tuple[int, ...]
    rows: tuple[RankRow, ...]


class TakeTraffic(msgspec.Struct, frozen=True, gc=False):
    """The scaler wants to know the traffic since it asked last."""


class Traffic(msgspec.Struct, frozen=True, gc=False):
    """Requests that arrived, and means over those that completed; 0.0 where there are none.

    Lengths in tokens, times in simulated ms. The counts say over how many each mean goes.
    avg_kv_hit_rate: over placements of KV routers, overlap by prompt blocks. avg_accept_length: accepted tokens per
        request and decode pass; None without any.
    """

    duration_s: float
    num_req: int
    avg_isl: float
    avg_osl: float
    avg_ttft_ms: float
    avg_itl_ms: float
    shape_count: int
    ttft_count: int
    itl_count: int
    avg_accept_length: float | None
    avg_kv_hit_rate: float
    hit_rate_count: int
    accept_length_forward_count: int


class ScaleTo(msgspec.Struct, frozen=True, gc=False):
    """A decision: so many workers are to be active or starting. `tick_ordinal` counts the ticks of the run."""

    target: int
    tick_ordinal: int


class Transition(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A worker changed its state. `origin_operation_ordinal`: the operation that began its start-up or its drain."""

    worker_id: int
    transition: str
    prior_state: str | None = msgspec.field(default=None)
    state: str = "active"
    origin_operation_ordinal: int | None = None
    reason: str | None = None


class PoolState(msgspec.Struct, frozen=True, gc=False):
    """Ids of workers by state, ascending."""

    active: tuple[int, ...]
    starting: tuple[int, ...]
    draining: tuple[int, ...]


class LifecycleOperation(msgspec.Struct, frozen=True, gc=False):
    """What one decision, one end of a start-up or one end of drains did to a pool.

    cause: planner_scale, worker_ready_event or drain_settlement.
    pool_ordinal: counts the operations of the pool; origins are given in it too, until the record is made.
    """

    pool_ordinal: int
    at_ms: float
    pool: str
    cause: str
    planner_tick_ordinal: int | None
    origin_operation_ordinal: int | None
    transitions: tuple[Transition, ...]
    state_after_batch: PoolState


class DecisionMade(msgspec.Struct, frozen=True, gc=False):
    """For the record: what the policy answered at a tick. A target of None leaves the pool as it is."""

    tick_ordinal: int
    at_ms: float
    target_prefill: int | None
    target_decode: int | None
    next_tick_ms: float | None


PoolMessage = (
    StartPool
    | WorkerReady
    | WorkerDraining
    | WorkerRemoved
    | TopologySettled
    | WorkerStarted
    | WorkerDrained
    | RetireWorkers
)
ScalingMessage = (
    StartScaling
    | ScalingTick
    | RunUntil
    | ReportPool
    | ReportWorker
    | WorkerReport
    | PoolReport
    | TakeTraffic
    | Traffic
    | ScaleTo
    | LifecycleOperation
    | DecisionMade
)
