"""What the planner hears of workers: forward passes, and the cache of the latest one per rank."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from messages.planner_report import PassMetrics, QueuedWork, ScheduledWork

CacheKey = tuple[str, int]


class PassCache:
    """The latest forward pass of every rank of one pool, kept from tick to tick, in order of first appearance."""

    def __init__(self) -> None:
        self._passes: dict[CacheKey, PassMetrics] = {}

    def update(self, rows: Iterable[Mapping[str, Any]], active_ids: Iterable[int]) -> None:
        """Take the rows of a snapshot and forget workers that are not active."""
        for row in rows:
            metrics = from_row(row)
            self._passes[metrics.worker_id, metrics.dp_rank] = metrics
        active = {str(worker_id) for worker_id in active_ids}
        self._passes = {key: metrics for key, metrics in self._passes.items() if key[0] in active}

    @property
    def passes(self) -> list[PassMetrics]:
        """All of them; empty if there is none."""
        return list(self._passes.values())


def in_order(passes: Iterable[PassMetrics]) -> list[PassMetrics]:
    """Passes by worker id, compared as text, and rank."""
    return sorted(passes, key=lambda metrics: (metrics.worker_id, metrics.dp_rank))


def from_row(row: Mapping[str, Any]) -> PassMetrics:
    """A forward-pass row of a snapshot as a record."""
    return PassMetrics(
        worker_id=str(row["worker_id"]),
        dp_rank=row["dp_rank"],
        wall_time=row["wall_time"],
        scheduled_requests=ScheduledWork(
            num_prefill_requests=row["num_prefill_requests"],
            sum_prefill_tokens=row["sum_prefill_tokens"],
            var_prefill_length=row["var_prefill_length"],
            sum_prefill_kv_tokens=row["sum_prefill_kv_tokens"],
            num_decode_requests=row["num_decode_requests"],
            sum_decode_kv_tokens=row["sum_decode_kv_tokens"],
            var_decode_kv_tokens=row["var_decode_kv_tokens"],
        ),
        queued_requests=QueuedWork(
            num_prefill_requests=row["num_queued_prefill"],
            sum_prefill_tokens=row["sum_queued_prefill_tokens"],
            var_prefill_length=row["var_queued_prefill_length"],
            num_decode_requests=row["num_queued_decode"],
            sum_decode_kv_tokens=row["sum_queued_decode_kv_tokens"],
            var_decode_kv_tokens=row["var_queued_decode_kv_tokens"],
        ),
    )


def covers(passes: Iterable[PassMetrics], workers: int) -> bool:
    """Whether the passes are of exactly so many workers, each with the same number of ranks."""
    ranks: dict[str, int] = {}
    for metrics in passes:
        ranks[metrics.worker_id] = ranks.get(metrics.worker_id, 0) + 1
    return len(ranks) == workers and len(set(ranks.values())) <= 1
