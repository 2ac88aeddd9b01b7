"""What KV routers did, from the placements of all requests."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from actors.reporting.statistics import distribution
from actors.reporting.timeline import RequestTimeline
from messages.report import PoolRouting, RankRouting
from messages.requests import Overlap, RequestRouted

_Placed = tuple[RequestRouted, Overlap, int]
"""A placement, what was known of the caches, and the length of the prompt in tokens."""


def routing_figures(requests: Sequence[RequestTimeline]) -> dict[str, PoolRouting] | None:
    """Return the figures of each pool whose placements looked at caches; None if there is no such pool."""
    pools: dict[str, list[_Placed]] = {}
    for request in requests:
        for routed in request.routing:
            if routed.overlap is not None:
                placed = (routed, routed.overlap, request.arrived.input_length)
                pools.setdefault(routed.pool, []).append(placed)
    return {pool: _pool_routing(placements) for pool, placements in pools.items()} or None


def _pool_routing(placements: Sequence[_Placed]) -> PoolRouting:
    waits_ms = [wait_ms for routed, _, _ in placements for wait_ms in _queue_waits_ms(routed)]
    waits = distribution(np.array(waits_ms, np.float64))
    regrets = [overlap.best_blocks - overlap.selected_blocks for _, overlap, _ in placements]
    hits = sum([overlap.selected_blocks / overlap.request_blocks for _, overlap, _ in placements])
    return PoolRouting(
        placements=len(placements),
        queued_placements=waits.count,
        mean_queue_wait_ms=waits.value("mean"),
        p99_queue_wait_ms=waits.value("p99"),
        max_queue_wait_ms=waits.value("max"),
        overlap_tokens=sum([overlap.tokens for _, overlap, _ in placements]),
        kv_hit_rate=hits / len(placements),
        regret_blocks=sum(regrets),
        max_regret_blocks=max(regrets),
        regretted_placements=sum([regret > 0 for regret in regrets]),
        ranks=_ranks(placements),
    )


def _queue_waits_ms(routed: RequestRouted) -> list[float]:
    """The wait in the router's queue, if there was any."""
    if routed.queue_entered_at_ms is None or routed.released_at_ms is None:
        return []
    return [routed.released_at_ms - routed.queue_entered_at_ms]


def _ranks(placements: Sequence[_Placed]) -> list[RankRouting]:
    totals: dict[tuple[int, int], list[int]] = {}
    for routed, overlap, input_tokens in placements:
        total = totals.setdefault((routed.worker_id, routed.dp_rank), [0, 0, 0])
        total[0] += 1
        total[1] += input_tokens
        total[2] += overlap.tokens
    return [RankRouting(*rank, *totals[rank]) for rank in sorted(totals)]
