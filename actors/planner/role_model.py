"""What the planner knows of the engines of one role: durations of passes, and what latency a change would bring."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from actors.planner.averages import MovingAverage
from actors.planner.capacity import (
    Capacity,
    Demand,
    EngineLimits,
    Sla,
    ceil0,
    chunked_s,
    find_capacity,
    hit_share,
    pass_s,
)
from actors.planner.estimator import EngineRole, ForwardPassModel, PassError, PassShape
from actors.planner.metrics import in_order
from messages.planner import PlannerConfig
from messages.planner_report import PassMetrics


class RoleModel:
    """The performance model of a role, with the shape that requests have had of late."""

    def __init__(self, role: EngineRole, limits: EngineLimits, config: PlannerConfig) -> None:
        self.role: EngineRole = role
        self.limits = limits
        self._model = ForwardPassModel(
            role, config.max_num_fpm_samples, config.fpm_sample_bucket_size, config.load_min_observations
        )
        length = config.max_num_fpm_samples
        self._prompt_length = MovingAverage(length)
        self._context_length = MovingAverage(length)
        self._prompts_per_pass = MovingAverage(length)
        self._prompt_tokens_per_pass = MovingAverage(length)

    @property
    def is_ready(self) -> bool:
        """Whether the model can answer at all."""
        return self._model.is_ready

    def learn(self, passes: Sequence[PassMetrics]) -> None:
        """Learn passes. If one of them cannot be in this role, only the lengths of requests are learned."""
        for metrics in passes:
            self._observe_lengths(metrics)
        ordered = in_order(passes)
        try:
            self._model.learn([(_shape(metrics), metrics.wall_time * 1000) for metrics in ordered])
        except PassError:
            return
        for metrics in ordered:
            self._prompts_per_pass.add(metrics.scheduled_requests.num_prefill_requests)
            self._prompt_tokens_per_pass.add(metrics.scheduled_requests.sum_prefill_tokens)

    def _observe_lengths(self, metrics: PassMetrics) -> None:
        work = metrics.scheduled_requests
        prompts = work.num_prefill_requests
        self._prompt_length.add(work.sum_prefill_tokens / prompts if prompts > 0 else 0.0)
        if work.num_decode_requests > 0:
            self._context_length.add(work.sum_decode_kv_tokens / work.num_decode_requests)

    def ttft_s(
        self,
        metrics: PassMetrics,
        hit_rate: float | None,
        *,
        queue_scale: float = 1.0,
        decode_scale: float = 1.0,
        with_queued_decode: bool = False,
    ) -> float | None:
        """Seconds until a prompt of the usual length that comes now has been computed; None if unknown.

        hit_rate: share of prompts found in the cache. queue_scale, decode_scale: how many times the present queue and
        decode work there were; with_queued_decode: whether waiting decode work runs along.
        """
        scheduled, queued = metrics.scheduled_requests, metrics.queued_requests
        tokens = queued.sum_prefill_tokens * queue_scale
        prompts = queued.num_prefill_requests * queue_scale
        if self._prompt_length.value > 0:
            tokens += self._prompt_length.value
            prompts += 1
        tokens *= 1 - hit_share(hit_rate)
        decode_kv: float = scheduled.sum_decode_kv_tokens
        decodes: float = scheduled.num_decode_requests
        if with_queued_decode:
            decode_kv += queued.sum_decode_kv_tokens
            decodes += queued.num_decode_requests
        shape = PassShape(num_prefill=max(1, ceil0(prompts)))
        if self.role == "aggregated":
            shape = shape._replace(num_decode=ceil0(decodes * decode_scale), decode_kv=ceil0(decode_kv * decode_scale))
        return chunked_s(self._model, ceil0(tokens), self.limits.batched_tokens, shape)

    def itl_s(
        self, metrics: PassMetrics, *, decode_scale: float = 1.0, with_queued_prefill: bool = False
    ) -> float | None:
        """Seconds of a decode pass with one more request of the usual context; None if unknown.

        decode_scale: how many times the present work there were; with_queued_prefill: whether waiting prompts count.
        """
        scheduled, queued = metrics.scheduled_requests, metrics.queued_requests
        decode_kv: float = scheduled.sum_decode_kv_tokens + queued.sum_decode_kv_tokens
        decodes: float = scheduled.num_decode_requests + queued.num_decode_requests
        if with_queued_prefill:
            decode_kv += queued.sum_prefill_tokens
            decodes += queued.num_prefill_requests
        decode_kv *= decode_scale
        decodes *= decode_scale
        if self._context_length.value > 0:
            decode_kv += self._context_length.value
            decodes += 1
        shape = PassShape(num_decode=ceil0(decodes), decode_kv=ceil0(decode_kv))
        if self.role == "aggregated":
            tokens = ceil0(self._prompt_tokens_per_pass.value)
            prompts = max(ceil0(self._prompts_per_pass.value), int(tokens > 0))
            shape = shape._replace(num_prefill=prompts, prefill_tokens=tokens)
        return pass_s(self._model, shape)

    def capacity(self, demand: Demand, sla: Sla) -> Capacity | None:
        """How much of a demand one engine can serve; None if unknown."""
        return find_capacity(self.role, self._model, self.limits, demand, sla)


def known(values: Iterable[float | None]) -> list[float]:
    """The values that are known."""
    return [value for value in values if value is not None]


def _shape(metrics: PassMetrics) -> PassShape:
    work = metrics.scheduled_requests
    return PassShape(
        work.num_prefill_requests,
        work.sum_prefill_tokens,
        work.sum_prefill_kv_tokens,
        work.num_decode_requests,
        work.sum_decode_kv_tokens,
    )
