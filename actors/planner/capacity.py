"""How many requests per second one engine can serve, and whether it keeps the SLA while it does."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

from actors.planner.estimator import EngineRole, PassEstimator, PassShape

_MOST_CANDIDATES = 128


class EngineLimits(NamedTuple):
    """What one engine holds: tokens per pass, requests, tokens of KV."""

    batched_tokens: int
    requests: int
    kv_tokens: int


class Demand(NamedTuple):
    """Requests to serve: mean lengths in tokens, share of prompts found in the cache, tokens per decode pass."""

    isl: float
    osl: float
    kv_hit_rate: float | None = None
    accept_length: float = 1.0


class Sla(NamedTuple):
    """Bounds in seconds; None is kept by anything."""

    ttft_s: float | None = None
    itl_s: float | None = None


class Capacity(NamedTuple):
    """The best operating point that was found."""

    rps: float
    ttft_s: float | None
    itl_s: float | None
    e2e_latency_s: float | None
    eligible: bool


class _UnknownTimeError(Exception):
    """The estimator cannot tell the duration of a pass."""


def ceil0(x: float) -> int:
    """The next integer, at least 0."""
    return 0 if x <= 0 else math.ceil(x)


def hit_share(rate: float | None) -> float:
    """The share of prompts that need not be computed: at most 0.95; nothing if it is not known."""
    return 0.0 if rate is None or not math.isfinite(rate) else min(max(rate, 0.0), 0.95)


def batch_candidates(largest: int) -> list[int]:
    """Batch sizes to try, up to `largest`: all of them or 128 that are spread evenly."""
    if largest <= _MOST_CANDIDATES:
        return list(range(1, largest + 1))
    return [1 + i * (largest - 1) // (_MOST_CANDIDATES - 1) for i in range(_MOST_CANDIDATES)]


def chunked_s(estimator: PassEstimator, tokens: int, limit: int, shape: PassShape) -> float | None:
    """Seconds to compute a prompt in passes of at most `limit` tokens, each otherwise like `shape`; None if unknown."""
    full, tail = divmod(tokens, limit)
    total = 0.0
    for chunk, times in ((limit, full), (tail, 1 if tail else 0)):
        if times:
            chunk_s = pass_s(estimator, shape._replace(prefill_tokens=chunk))
            if chunk_s is None:
                return None
            total += chunk_s * times
    return total


def pass_s(estimator: PassEstimator, shape: PassShape) -> float | None:
    """Seconds of a pass; None if unknown."""
    duration_ms = estimator.estimate_ms(shape)
    return None if duration_ms is None else max(0.0, duration_ms) / 1000


def find_capacity(
    role: EngineRole, estimator: PassEstimator, limits: EngineLimits, demand: Demand, sla: Sla
) -> Capacity | None:
    """The batch size with the highest rate that keeps the SLA, or the highest rate at all where none does.

    None where the demand is empty, nothing fits, or the estimator cannot tell.
    """
    if demand.isl <= 0 or (role != "prefill" and demand.osl <= 0):
        return None
    search = {"prefill": _prefill, "decode": _decode, "aggregated": _aggregated}[role]
    best: Capacity | None = None
    try:
        for found in search(estimator, limits, demand, sla):
            if best is None or (found.eligible, found.rps) > (best.eligible, best.rps):
                best = found
    except _UnknownTimeError:
        return None
    return best


def _known(seconds: float | None) -> float:
    if seconds is None:
        raise _UnknownTimeError
    return seconds


def _keeps(value: float, bound: float | None) -> bool:
    return bound is None or value <= bound


def _fresh_tokens(demand: Demand) -> int:
    return max(1, ceil0(math.ceil(demand.isl) * (1 - hit_share(demand.kv_hit_rate))))


def _context(demand: Demand) -> tuple[int, int]:
    """Outputs of a request, and the context length of one that is half done."""
    outputs = max(1, math.ceil(demand.osl))
    return outputs, max(1, math.ceil(demand.isl) + outputs // 2)


def _prefill(estimator: PassEstimator, limits: EngineLimits, demand: Demand, sla: Sla) -> Iterator[Capacity]:
    fresh = _fresh_tokens(demand)
    largest = 1 if fresh > limits.batched_tokens else min(limits.requests, limits.batched_tokens // fresh)
    for batch in batch_candidates(largest):
        t = _known(chunked_s(estimator, fresh * batch, limits.batched_tokens, PassShape(num_prefill=1)))
        if t > 0:
            yield Capacity(batch / t, t, None, t, _keeps(t, sla.ttft_s))


def _decode(estimator: PassEstimator, limits: EngineLimits, demand: Demand, sla: Sla) -> Iterator[Capacity]:
    outputs, context = _context(demand)
    for batch in batch_candidates(min(limits.requests, limits.kv_tokens // context)):
        shape = PassShape(num_decode=batch, decode_kv=batch * context)
        t = _known(pass_s(estimator, shape)) / demand.accept_length
        if t > 0:
            yield Capacity(batch / (outputs * t), None, t, None, _keeps(t, sla.itl_s))


def _aggregated(estimator: PassEstimator, limits: EngineLimits, demand: Demand, sla: Sla) -> Iterator[Capacity]:
    if limits.batched_tokens <= 1:
        return
    fresh = _fresh_tokens(demand)
    outputs, context = _context(demand)
    largest = min(limits.requests, limits.kv_tokens // context, max(1, limits.batched_tokens - 1))
    for batch in batch_candidates(largest):
        # Prompts that must be computed beside each decode pass so that the batch stays full.
        share = ceil0(batch * demand.accept_length * fresh / outputs)
        room = limits.batched_tokens - batch
        if room <= 0 or share > room:
            continue
        shape = PassShape(1 if share > 0 else 0, share, 0, batch, batch * context)
        t = _known(pass_s(estimator, shape)) / demand.accept_length
        ttft = _known(chunked_s(estimator, share + fresh, limits.batched_tokens, shape._replace(num_prefill=1)))
        if t > 0:
            eligible = _keeps(ttft, sla.ttft_s) and _keeps(t, sla.itl_s)
            yield Capacity(batch / (outputs * t), ttft, t, ttft + t * (outputs - 1), eligible)
