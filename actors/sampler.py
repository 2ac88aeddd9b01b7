"""The sampler actor: notes the state of the cluster at regular times, without any influence on it."""

from __future__ import annotations

import math
from typing import Literal

from actors.names import COLLECTOR, SAMPLER, PoolNames
from actors.runtime import SimActor, handles
from messages.envelope import NOTHING, Envelope, Outgoing, Phase, Reply
from messages.gauges import Gauges
from messages.scaling import PoolState, RunUntil, Traffic
from messages.telemetry import (
    FinishSampling,
    IntervalMetrics,
    IntervalTaken,
    PoolSample,
    ReportSamples,
    RouterSample,
    SampledTraffic,
    SamplePool,
    SampleRouter,
    SampleTick,
    SchedulerMetrics,
    StartSampling,
    TakeInterval,
    TelemetrySample,
)

Kind = Literal["baseline", "periodic", "final"]
_NO_STATE = PoolState((), (), ())


class Sampler(SimActor):
    """`pools`: prefill and decode, or the only one, which is reported as decode. `interval_ms`: simulated ms."""

    def __init__(self, interval_ms: float, pools: tuple[PoolNames, ...]) -> None:
        super().__init__()
        self._interval_ms = interval_ms
        self._pools = pools
        self._origin_ms = 0.0
        self._kind: Kind = "baseline"
        self._samples: list[TelemetrySample] = []
        self._states: dict[str, PoolSample] = {}
        self._pending: dict[str, int] = {}

    @handles(StartSampling)
    def begin(self, message: StartSampling, envelope: Envelope) -> Reply:
        self._origin_ms = envelope.at_ms
        return self._gather("baseline")

    @handles(SampleTick)
    def tick(self, message: SampleTick, envelope: Envelope) -> Reply:
        return self._gather("periodic")

    @handles(FinishSampling)
    def finish(self, message: FinishSampling, envelope: Envelope) -> Reply:
        return self._gather("final")

    @handles(PoolSample)
    def collect(self, message: PoolSample, envelope: Envelope) -> Reply:
        self._states[message.pool] = message
        return self._complete()

    @handles(RouterSample)
    def count(self, message: RouterSample, envelope: Envelope) -> Reply:
        self._pending[message.pool] = message.pending_requests
        return self._complete()

    @handles(IntervalTaken)
    def sample(self, message: IntervalTaken, envelope: Envelope) -> Reply:
        last_ms = self._samples[-1].sampled_at_ms
        traffic = _traffic(message.traffic)
        if self._kind == "final" and envelope.at_ms == last_ms and not _tells(traffic, message.pools):
            return NOTHING
        self._note(last_ms, envelope.at_ms, traffic, message.pools)
        return self._arm() if self._kind == "periodic" else NOTHING

    @handles(ReportSamples)
    def report(self, message: ReportSamples, envelope: Envelope) -> Reply:
        return Reply(result=self._samples)

    def _gather(self, kind: Kind) -> Reply:
        self._kind = kind
        self._states.clear()
        self._pending.clear()
        outbox = [Outgoing(names.pool, SamplePool()) for names in self._pools]
        outbox += [Outgoing(names.router, SampleRouter()) for names in self._pools]
        return Reply(outbox=outbox)

    def _complete(self) -> Reply:
        """Go on once every pool and router has answered."""
        if len(self._states) + len(self._pending) < 2 * len(self._pools):
            return NOTHING
        if self._kind != "baseline":
            return Reply(outbox=(Outgoing(COLLECTOR, TakeInterval()),))
        # What has happened until now is left for the first interval to tell.
        self._note(self._origin_ms, self._origin_ms, SampledTraffic(), {})
        return self._arm()

    def _arm(self) -> Reply:
        # A product, so that errors of rounding do not add up.
        next_ms = self._origin_ms + len(self._samples) * self._interval_ms
        if not math.isfinite(next_ms):
            return Reply(outbox=[Outgoing(names.pool, RunUntil(None)) for names in self._pools])
        outbox = [Outgoing(names.pool, RunUntil(next_ms)) for names in self._pools]
        return Reply(outbox=[*outbox, Outgoing(SAMPLER, SampleTick(), next_ms, Phase.TELEMETRY)])

    def _note(
        self, since_ms: float, now_ms: float, traffic: SampledTraffic, intervals: dict[str, IntervalMetrics]
    ) -> None:
        decode = self._pools[-1].label
        prefill = self._pools[0].label if len(self._pools) > 1 else None
        prefill_state, decode_state = self._state(prefill), self._state(decode)
        self._samples.append(
            TelemetrySample(
                sample_ordinal=len(self._samples),
                kind=self._kind,
                interval_start_ms=since_ms,
                sampled_at_ms=now_ms,
                traffic=traffic,
                prefill_scheduler_metrics=self._rows(prefill),
                decode_scheduler_metrics=self._rows(decode),
                prefill_interval_metrics=intervals.get(prefill or "", IntervalMetrics()),
                decode_interval_metrics=intervals.get(decode, IntervalMetrics()),
                router_pending_prefill_requests=self._pending.get(prefill or "", 0),
                router_pending_decode_requests=self._pending[decode],
                active_prefill_ids=list(prefill_state.active),
                active_decode_ids=list(decode_state.active),
                starting_prefill_ids=list(prefill_state.starting),
                starting_decode_ids=list(decode_state.starting),
                draining_prefill_ids=list(prefill_state.draining),
                draining_decode_ids=list(decode_state.draining),
            )
        )

    def _state(self, pool: str | None) -> PoolState:
        return self._states[pool].state if pool is not None else _NO_STATE

    def _rows(self, pool: str | None) -> list[SchedulerMetrics]:
        if pool is None:
            return []
        return [
            _row(worker.worker_id, dp_rank, gauges)
            for worker in self._states[pool].workers
            for dp_rank, gauges in enumerate(worker.ranks)
        ]


def _row(worker_id: int, dp_rank: int, gauges: Gauges) -> SchedulerMetrics:
    active, inactive, total = gauges.active_blocks, gauges.inactive_blocks, gauges.total_blocks
    return SchedulerMetrics(
        worker_id=worker_id,
        dp_rank=dp_rank,
        active_blocks=active,
        inactive_blocks=inactive,
        total_blocks=total,
        active_cache_usage=active / total,
        physical_cache_usage=(active + inactive) / total,
        running_requests=gauges.running_requests,
        waiting_requests=gauges.waiting_requests,
    )


def _traffic(traffic: Traffic) -> SampledTraffic:
    return SampledTraffic(
        duration_s=traffic.duration_s,
        arriving_requests=traffic.num_req,
        completed_requests=traffic.shape_count,
        avg_isl=traffic.avg_isl,
        avg_osl=traffic.avg_osl,
        avg_ttft_ms=traffic.avg_ttft_ms,
        avg_itl_ms=traffic.avg_itl_ms,
        ttft_count=traffic.ttft_count,
        itl_count=traffic.itl_count,
        avg_router_kv_hit_rate=traffic.avg_kv_hit_rate,
        router_kv_hit_rate_count=traffic.hit_rate_count,
        avg_accept_length=traffic.avg_accept_length,
        accept_length_forward_count=traffic.accept_length_forward_count,
    )


def _tells(traffic: SampledTraffic, pools: dict[str, IntervalMetrics]) -> bool:
    """Whether anything happened in an interval, however short."""
    return traffic != SampledTraffic(duration_s=traffic.duration_s) or any(
        metrics != IntervalMetrics() for metrics in pools.values()
    )
