"""Round robin: workers in turn, and the ranks of each worker in turn."""

from __future__ import annotations

from bisect import insort
from collections.abc import Sequence

from actors.routing.placement import Decision, Placement
from messages.errors import ReplayError
from messages.kv import EvictionForecast, KvEvent
from messages.requests import Request


class RoundRobin:
    """Takes active workers by ascending id. The position survives changes of the set of workers."""

    follows_requests = False
    consumes_kv_events = False

    def __init__(self) -> None:
        self._active: list[int] = []
        self._ranks: dict[int, int] = {}
        self._next_rank: dict[int, int] = {}
        self._next = 0

    def place(self, request: Request, now_ms: float) -> Decision:
        if not self._active:
            raise ReplayError("placement policy error: no active workers for round-robin placement")
        index = self._next % len(self._active)
        self._next = index + 1
        worker_id = self._active[index]
        if request.dp_rank is not None:
            return Decision(Placement(request, worker_id, request.dp_rank))
        rank = self._next_rank[worker_id] % self._ranks[worker_id]
        self._next_rank[worker_id] = rank + 1
        return Decision(Placement(request, worker_id, rank))

    def observe(
        self, worker_id: int, dp_rank: int, passes: int, events: Sequence[KvEvent], now_ms: float
    ) -> tuple[Placement, ...]:
        return ()

    def foresee(self, forecast: EvictionForecast) -> None:
        pass

    def prefill_completed(self, ordinal: int, now_ms: float) -> tuple[Placement, ...]:
        return ()

    def request_terminal(self, ordinal: int, now_ms: float) -> tuple[Placement, ...]:
        return ()

    def worker_ready(self, worker_id: int, scheduler_ids: tuple[int, ...]) -> tuple[Placement, ...]:
        insort(self._active, worker_id)
        self._ranks[worker_id] = len(scheduler_ids)
        self._next_rank[worker_id] = 0
        return ()

    def worker_draining(self, worker_id: int) -> tuple[Placement, ...]:
        self._active.remove(worker_id)
        return ()

    def worker_removed(self, worker_id: int) -> tuple[Placement, ...]:
        if worker_id in self._active:
            self._active.remove(worker_id)
        del self._ranks[worker_id], self._next_rank[worker_id]
        return ()

    def topology_settled(self, now_ms: float) -> tuple[Placement, ...]:
        return ()


class PoolRoundRobin(RoundRobin):
    """Takes all ranks of all active workers in turn, as the pools of a disaggregated cluster do."""

    def place(self, request: Request, now_ms: float) -> Decision:
        ranks = [(worker_id, rank) for worker_id in self._active for rank in range(self._ranks[worker_id])]
        if not ranks:
            raise ReplayError("placement policy error: no active workers for round-robin placement")
        index = self._next % len(ranks)
        self._next = index + 1
        return Decision(Placement(request, *ranks[index]))
