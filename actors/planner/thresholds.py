"""Targets without a performance model: queues and the use of the KV cache against fixed thresholds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from actors.planner.decisions import INSUFFICIENT_DATA, NO_CHANGE, REFUSED, SubDecision
from actors.planner.fleet import EngineCapabilities, Role
from messages.planner import PlannerConfig
from messages.planner_report import PassMetrics


class Thresholds(NamedTuple):
    """A pool grows if any value is `is_high` and shrinks if all are `is_low`; `up` is the bound of the high ones."""

    up: float
    is_high: Callable[[float], bool]
    is_low: Callable[[float], bool]


def thresholds(config: PlannerConfig, role: Role) -> Thresholds:
    """The thresholds of a target for a pool; those of an aggregated one are those of decode."""
    match config.optimization_target, role:
        case "throughput", "prefill":
            return Thresholds(1.0, lambda v: v >= 1.0, lambda v: v < 0.1)
        case "latency", "prefill":
            return Thresholds(0.1, lambda v: v >= 0.1, lambda v: v <= 0.0)
        case "throughput", _:
            return Thresholds(1.0, lambda v: v > 1.0, lambda v: v < 0.6)
        case "latency", _:
            return Thresholds(0.4, lambda v: v > 0.4, lambda v: v < 0.1)
    if role == "prefill":
        up, down = config.prefill_scale_up_queue_tokens, config.prefill_scale_down_queue_tokens
        assert up is not None
        assert down is not None
        return _inclusive(up, down)
    high, low = config.decode_scale_up_kv_rate, config.decode_scale_down_kv_rate
    assert high is not None
    assert low is not None
    return _inclusive(high / 100, low / 100)


def _inclusive(up: float, down: float) -> Thresholds:
    return Thresholds(up, lambda v: v >= up, lambda v: v <= down)


def pressures(
    config: PlannerConfig, role: Role, engine: EngineCapabilities, passes: Sequence[PassMetrics], *, aggregated: bool
) -> list[float]:
    """How loaded each rank is: waiting prompt tokens, as such or per context length, or the share of KV in use.

    Empty where that cannot be told.
    """
    if role == "prefill":
        waiting = [metrics.queued_requests.sum_prefill_tokens for metrics in passes]
        if config.optimization_target == "load":
            return [float(tokens) for tokens in waiting]
        return [tokens / engine.context_length for tokens in waiting] if engine.context_length else []
    if not engine.max_kv_tokens:
        return []
    return [_kv_tokens(metrics, aggregated) / engine.max_kv_tokens for metrics in passes]


def _kv_tokens(metrics: PassMetrics, aggregated: bool) -> int:
    queued = metrics.queued_requests
    tokens = metrics.scheduled_requests.sum_decode_kv_tokens + queued.sum_decode_kv_tokens
    return tokens + queued.sum_prefill_tokens if aggregated else tokens


def decide(values: Sequence[float], limits: Thresholds, ready: int, floor: int) -> SubDecision:
    """One step up or down, or none. A step down must not push the most loaded rank to the upper threshold."""
    if not values or ready == 0:
        return SubDecision(None, INSUFFICIENT_DATA)
    if any(map(limits.is_high, values)):
        return SubDecision(ready + 1)
    if ready > 1 and all(map(limits.is_low, values)):
        fewer = max(ready - 1, floor)
        if 0 < fewer < ready and max(values) * ready / fewer >= limits.up:
            return SubDecision(ready, REFUSED)
        return SubDecision(fewer)
    return SubDecision(None, NO_CHANGE)
