"""Target sla, by load: latencies that the performance model expects against the SLA."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from actors.planner.decisions import INSUFFICIENT_DATA, NO_CHANGE, REFUSED, SubDecision
from actors.planner.role_model import RoleModel
from messages.planner import PlannerConfig
from messages.planner_report import PassMetrics


class Situation(NamedTuple):
    """A pool and what is known of it. accept_length: tokens per decode pass; max_kv_tokens: None if unknown."""

    config: PlannerConfig
    model: RoleModel
    passes: Sequence[PassMetrics]
    ready: int
    floor: int
    hit_rate: float | None
    accept_length: float
    max_kv_tokens: int | None

    @property
    def sensitivity(self) -> float:
        """The share of the SLA that a smaller pool may use."""
        return self.config.load_scaling_down_sensitivity / 100

    @property
    def consolidation(self) -> float:
        """How much more work each worker has with one worker less."""
        return self.ready / (self.ready - 1) if self.ready > 1 else 1.0


class Outlook(NamedTuple):
    """What the model expects of a latency. worst_ms: of all ranks, None if it expects nothing."""

    sub: SubDecision
    worst_ms: float | None
    is_refused: bool


class _Consolidation:
    """Whether a pool can do with a worker less."""

    def __init__(self, ready: int) -> None:
        self.is_possible = ready > 1
        self.is_refused = False

    def refuse(self) -> None:
        """It would break the SLA."""
        self.is_possible, self.is_refused = False, True

    def give_up(self) -> None:
        """It cannot be told."""
        self.is_possible = False


def prompt_outlook(situation: Situation, *, aggregated: bool = False) -> Outlook:
    """By the time to the first token."""
    config, model, hit_rate = situation.config, situation.model, situation.hit_rate
    consolidation = _Consolidation(situation.ready)
    ratio = situation.consolidation
    decode_scale = ratio if aggregated else 1.0
    estimates = []
    for metrics in situation.passes:
        expected = model.ttft_s(metrics, hit_rate)
        if expected is not None:
            estimates.append(expected * 1000)
        if not consolidation.is_possible:
            continue
        own = model.ttft_s(metrics, hit_rate, queue_scale=0.0, decode_scale=decode_scale, with_queued_decode=aggregated)
        then = model.ttft_s(
            metrics, hit_rate, queue_scale=ratio, decode_scale=decode_scale, with_queued_decode=aggregated
        )
        if own is None or then is None:
            consolidation.give_up()
            continue
        spare = (config.ttft_ms - own * 1000) * situation.sensitivity
        if spare <= 0 or then * 1000 - own * 1000 >= spare:
            consolidation.refuse()
    return _outlook(situation, estimates, config.ttft_ms, consolidation)


def token_outlook(situation: Situation, *, aggregated: bool = False) -> Outlook:
    """By the time between tokens."""
    config, model = situation.config, situation.model
    consolidation = _Consolidation(situation.ready)
    ratio = situation.consolidation
    estimates = []
    for metrics in situation.passes:
        expected = model.itl_s(metrics)
        if expected is not None:
            estimates.append(expected * 1000 / situation.accept_length)
        if not consolidation.is_possible:
            continue
        if _overflows(metrics, ratio, situation.max_kv_tokens, aggregated):
            consolidation.refuse()
            continue
        then = model.itl_s(metrics, decode_scale=ratio, with_queued_prefill=aggregated)
        if then is None:
            consolidation.give_up()
        elif then * 1000 / situation.accept_length >= config.itl_ms * situation.sensitivity:
            consolidation.refuse()
    return _outlook(situation, estimates, config.itl_ms, consolidation)


def _overflows(metrics: PassMetrics, ratio: float, max_kv_tokens: int | None, aggregated: bool) -> bool:
    """Whether the KV of a rank would not fit in with a worker less."""
    if max_kv_tokens is None:
        return False
    queued = metrics.queued_requests
    tokens = metrics.scheduled_requests.sum_decode_kv_tokens + queued.sum_decode_kv_tokens
    if aggregated:
        tokens += queued.sum_prefill_tokens
    return int(tokens * ratio) >= max_kv_tokens


def _outlook(situation: Situation, estimates: list[float], sla_ms: float, consolidation: _Consolidation) -> Outlook:
    ready = situation.ready
    if not estimates:
        reason = REFUSED if consolidation.is_refused else INSUFFICIENT_DATA
        sub = SubDecision(None, reason)
    elif all(estimate > sla_ms for estimate in estimates):
        sub = SubDecision(ready + 1)
    elif consolidation.is_possible:
        sub = SubDecision(max(ready - 1, situation.floor))
    else:
        sub = SubDecision(None, REFUSED if consolidation.is_refused else NO_CHANGE)
    return Outlook(sub, max(estimates, default=None), consolidation.is_refused)


def combine(prompts: Outlook, tokens: Outlook, ready: int) -> SubDecision:
    """The size of an aggregated pool, which both latencies have a say in."""
    is_refused = prompts.is_refused or tokens.is_refused
    reason = REFUSED if is_refused else NO_CHANGE
    # A refusal is an opinion: the pool must not shrink.
    a = ready if prompts.sub.desired is None and prompts.is_refused else prompts.sub.desired
    b = ready if tokens.sub.desired is None and tokens.is_refused else tokens.sub.desired
    if a is not None and a > ready:
        return SubDecision(a, reason)
    if b is not None and b > ready:
        return SubDecision(b, reason)
    if a is None and b is not None and b < ready:
        return SubDecision(b, reason)
    if a is not None and b is not None and a < ready and b < ready:
        return SubDecision(max(a, b), reason)
    return SubDecision(ready, reason)
