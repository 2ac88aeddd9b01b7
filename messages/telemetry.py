"""Samples of the state of the cluster: what they tell, and how they are gathered.

At its time the sampler asks every pool, router and the collector at once. The pools ask their workers.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from messages.gauges import Gauges
from messages.scaling import PoolState, Traffic


class SchedulerMetrics(msgspec.Struct, frozen=True, gc=False):
    """The state of a rank at its last command or end of a pass; see `Gauges`.

    active_cache_usage: active by total blocks. physical_cache_usage: active and inactive by total blocks.
    """

    worker_id: int
    dp_rank: int
    active_blocks: int
    inactive_blocks: int
    total_blocks: int
    active_cache_usage: float
    physical_cache_usage: float
    running_requests: int
    waiting_requests: int


class IntervalMetrics(msgspec.Struct, frozen=True, gc=False):
    """What the passes of a pool came to that ended in the interval, those of removed workers included.

    cache_hit_tokens, cache_total_tokens: tokens that prefill passes found cached, and all they dealt with; SGLang only.
    preemptions: requests that had to give up their blocks; not of SGLang.
    """

    cache_hit_tokens: int = 0
    cache_total_tokens: int = 0
    preemptions: int = 0


class SampledTraffic(msgspec.Struct, frozen=True, gc=False):
    """Requests that arrived and completed in the interval, and means; 0.0 where there are none.

    Lengths in tokens, times in simulated ms. The counts say over how many each mean goes.
    avg_accept_length: accepted tokens per request and decode pass; None without any.
    """

    duration_s: float = 0.0
    arriving_requests: int = 0
    completed_requests: int = 0
    avg_isl: float = 0.0
    avg_osl: float = 0.0
    avg_ttft_ms: float = 0.0
    avg_itl_ms: float = 0.0
    ttft_count: int = 0
    itl_count: int = 0
    avg_router_kv_hit_rate: float = 0.0
    router_kv_hit_rate_count: int = 0
    avg_accept_length: float | None = None
    accept_length_forward_count: int = 0


class TelemetrySample(msgspec.Struct, frozen=True):
    """The state of the cluster at a simulated time, and what happened since the sample before.

    kind: `baseline` at 0, before anything is counted; `periodic`; `final` at the end of the run.
    router_pending_*: requests that wait in the router of the pool. *_ids: workers by state, ascending.
    Aggregated clusters fill the fields of decode.
    """

    sample_ordinal: int
    kind: Literal["baseline", "periodic", "final"]
    interval_start_ms: float
    sampled_at_ms: float
    traffic: SampledTraffic
    prefill_scheduler_metrics: list[SchedulerMetrics]
    decode_scheduler_metrics: list[SchedulerMetrics]
    prefill_interval_metrics: IntervalMetrics
    decode_interval_metrics: IntervalMetrics
    router_pending_prefill_requests: int
    router_pending_decode_requests: int
    active_prefill_ids: list[int]
    active_decode_ids: list[int]
    starting_prefill_ids: list[int]
    starting_decode_ids: list[int]
    draining_prefill_ids: list[int]
    draining_decode_ids: list[int]


class StartSampling(msgspec.Struct, frozen=True, gc=False):
    """All that is due at the start of the run has been done: take the first sample."""


class SampleTick(msgspec.Struct, frozen=True, gc=False):
    """The sampler's own alarm: time for a sample."""


class FinishSampling(msgspec.Struct, frozen=True, gc=False):
    """The run is over: take the last sample, if there is anything that none has told."""


class ReportSamples(msgspec.Struct, frozen=True, gc=False):
    """Hand out all samples."""


class SamplePool(msgspec.Struct, frozen=True, gc=False):
    """The sampler wants to know the state of a pool."""


class SampleWorker(msgspec.Struct, frozen=True, gc=False):
    """A pool wants to know the state of the ranks of a worker."""


class WorkerSample(msgspec.Struct, frozen=True, gc=False):
    """The answer to `SampleWorker`: by rank, the state at its last command or end of a pass."""

    worker_id: int
    ranks: tuple[Gauges, ...]


class PoolSample(msgspec.Struct, frozen=True, gc=False):
    """The answer to `SamplePool`: all workers that exist, ascending."""

    pool: str
    state: PoolState
    workers: tuple[WorkerSample, ...]


class SampleRouter(msgspec.Struct, frozen=True, gc=False):
    """The sampler wants to know how many requests wait in a router."""


class RouterSample(msgspec.Struct, frozen=True, gc=False):
    """The answer to `SampleRouter`."""

    pool: str
    pending_requests: int


class TakeInterval(msgspec.Struct, frozen=True, gc=False):
    """The sampler wants to know what happened since it asked last."""


class IntervalTaken(msgspec.Struct, frozen=True, gc=False):
    """The answer to `TakeInterval`: the traffic, and by pool what its passes came to."""

    traffic: Traffic
    pools: dict[str, IntervalMetrics]


TelemetryMessage = (
    StartSampling
    | SampleTick
    | FinishSampling
    | ReportSamples
    | SamplePool
    | SampleWorker
    | WorkerSample
    | PoolSample
    | SampleRouter
    | RouterSample
    | TakeInterval
    | IntervalTaken
)
