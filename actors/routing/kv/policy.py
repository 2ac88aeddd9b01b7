"""The KV router as a placement policy: places arrivals at the lowest cost, at once or when ranks have room for more."""

from __future__ import annotations

from bisect import insort
from collections.abc import Mapping, Sequence

import msgspec

from actors.routing.kv.chains import cut_chain
from actors.routing.kv.index import BlockIndex
from actors.routing.kv.load import Loads
from actors.routing.kv.queue import ClassTable, Demand, PendingQueue
from actors.routing.kv.selection import Chooser, CostModel
from actors.routing.placement import Decision, Placement
from messages.errors import ReplayError
from messages.kv import EvictionForecast, KvEvent
from messages.requests import Overlap, Request, Span
from messages.router_policy import PolicyClass, PolicyProfile


class KvRouterOptions(msgspec.Struct, frozen=True):
    """What one pool's router goes by.

    shares_blocks: whether active requests share the blocks of a common prefix.
    profile: queue classes. batch_tokens: what fractional thresholds are a share of.
    consumes_kv_events: whether there are overlaps to know. lag_ms: age at which KV events are known.
    seed: of the draws.
    """

    model: CostModel
    shares_blocks: bool
    profile: PolicyProfile
    batch_tokens: int
    temperature: float = 0.0
    consumes_kv_events: bool = True
    lag_ms: float = 0.0
    seed: str = ""


class _Arrival(msgspec.Struct, frozen=True):
    """A request with its complete prompt blocks, and which of them each rank had cached when it arrived."""

    request: Request
    chain: tuple[Span, ...]
    own_blocks: int
    overlaps: Mapping[int, int]


class KvRouter:
    """Implements `PlacementPolicy`. Ranks are known by their scheduler ids, which ascend by worker and rank."""

    follows_requests = True

    def __init__(self, options: KvRouterOptions) -> None:
        self.consumes_kv_events = options.consumes_kv_events
        self._options = options
        self._model = options.model
        self._index = BlockIndex(options.lag_ms)
        self._loads = Loads(
            track_prefill=options.model.track_prefill,
            track_blocks=options.model.track_blocks,
            shared=options.shares_blocks,
        )
        self._classes = ClassTable(options.profile)
        self._queue: PendingQueue[_Arrival] = PendingQueue(self._classes.classes)
        self._may_queue = any(entry.queues for entry in self._classes.classes)
        self._chooser = Chooser(options.temperature, options.seed)
        self._eligible: list[int] = []
        self._workers: dict[int, tuple[int, ...]] = {}
        self._places: dict[int, tuple[int, int]] = {}
        """Rank -> (worker id, rank of the worker)."""

    def place(self, request: Request, now_ms: float) -> Decision:
        arrival = self._arrival(request, now_ms)
        if self._may_queue and self._queued(arrival, now_ms):
            return Decision(None)
        if not self._eligible:
            raise ReplayError("placement policy error: no eligible workers")
        return Decision(self._select(arrival))

    def observe(
        self, worker_id: int, dp_rank: int, passes: int, events: Sequence[KvEvent], now_ms: float
    ) -> tuple[Placement, ...]:
        self._index.observe(self._workers[worker_id][dp_rank], passes, events, now_ms)
        return ()

    def foresee(self, forecast: EvictionForecast) -> None:
        self._index.foresee(self._workers[forecast.worker_id][forecast.dp_rank], forecast)

    def prefill_completed(self, ordinal: int, now_ms: float) -> tuple[Placement, ...]:
        self._loads.prefill_completed(ordinal)
        return self._drain()

    def request_terminal(self, ordinal: int, now_ms: float) -> tuple[Placement, ...]:
        self._loads.end(ordinal)
        return self._drain()

    def worker_ready(self, worker_id: int, scheduler_ids: tuple[int, ...]) -> tuple[Placement, ...]:
        self._workers[worker_id] = scheduler_ids
        for dp_rank, rank in enumerate(scheduler_ids):
            insort(self._eligible, rank)
            self._places[rank] = (worker_id, dp_rank)
            self._loads.add_rank(rank)
        return ()

    def worker_draining(self, worker_id: int) -> tuple[Placement, ...]:
        for rank in self._workers[worker_id]:
            self._eligible.remove(rank)
        return ()

    def worker_removed(self, worker_id: int) -> tuple[Placement, ...]:
        for rank in self._workers.pop(worker_id):
            if rank in self._eligible:
                self._eligible.remove(rank)
            self._loads.forget(rank)
            self._index.forget(rank)
            del self._places[rank]
        return ()

    def topology_settled(self, now_ms: float) -> tuple[Placement, ...]:
        return self._drain() if self._eligible else ()

    def _arrival(self, request: Request, now_ms: float) -> _Arrival:
        chain, own_blocks = cut_chain(request.spans, request.input_tokens // self._model.block_size)
        overlaps: Mapping[int, int] = {}
        if self.consumes_kv_events:
            self._index.learn(request.spans)
            overlaps = self._index.overlaps(chain, now_ms)
        return _Arrival(request, chain, own_blocks, overlaps)

    def _queued(self, arrival: _Arrival, now_ms: float) -> bool:
        """Whether an arrival has to wait; then it is in the queue."""
        request = arrival.request
        cached = min(self._best_overlap(arrival) * self._model.block_size, request.input_tokens)
        demand = Demand(request.input_tokens, cached)
        index = self._classes.class_of(request.routing.policy_class, demand.uncached_tokens)
        policy_class = self._classes.classes[index]
        if not policy_class.queues or (not self._queue.has_backlog(index) and self._has_room(policy_class)):
            return False
        self._queue.push(index, arrival, demand, request.routing, now_ms, len(self._eligible))
        return True

    def _has_room(self, policy_class: PolicyClass) -> bool:
        """Whether any rank is not too busy for a class."""
        limit, share, tokens = policy_class.prefill_busy_threshold, policy_class.prefill_busy_threshold_frac, None
        if share is not None:
            tokens = share * float(self._options.batch_tokens)
        for rank in self._eligible:
            load = self._loads.prefill_tokens[rank]
            if (limit is None or load <= limit) and (tokens is None or float(load) <= tokens):
                return True
        return False

    def _drain(self) -> tuple[Placement, ...]:
        """Place whoever waits and may go on, one after the other."""
        if not self._queue:
            return ()
        placements: list[Placement] = []
        while (arrival := self._queue.pop(self._has_room)) is not None:
            placements.append(self._select(arrival))
        return tuple(placements)

    def _select(self, arrival: _Arrival) -> Placement:
        request, overlaps = arrival.request, arrival.overlaps
        costs = self._model.costs(
            self._eligible, request.input_tokens, overlaps, self._loads.active_blocks(arrival.chain), self._loads
        )
        rank = self._eligible[self._chooser.choose(costs)]
        selected, size = overlaps.get(rank, 0), self._model.block_size
        uncached = max(request.input_tokens - selected * size, 0)
        self._loads.place(request.ordinal, rank, arrival.chain, arrival.own_blocks, uncached)
        overlap = Overlap(
            selected_blocks=selected,
            best_blocks=self._best_overlap(arrival),
            request_blocks=-(-request.input_tokens // size),
            tokens=selected * size,
        )
        return Placement(request, *self._places[rank], overlap)

    def _best_overlap(self, arrival: _Arrival) -> int:
        """The most leading blocks that any rank which may be chosen has of an arrival."""
        overlaps = arrival.overlaps
        return max((overlaps[rank] for rank in self._eligible if rank in overlaps), default=0)
