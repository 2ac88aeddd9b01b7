"""The costs of the KV router computed once more, slowly and plainly, from the message log of a run without a queue.

Sets of block identities, loops over them, no spans, no prefix sharing between ranks: nothing of the router's own
structures is used. Runs must be stepped, so that every pass tells its KV events at its end.
"""

from __future__ import annotations

from collections.abc import Sequence

from messages.envelope import Envelope
from messages.kv import BlocksStored
from messages.passes import PassOutputs
from messages.requests import PlaceRequest, Request, RequestRouted, Span


class PlainRouter:
    """Follows an aggregated run of one rank per worker under the default configuration; called with every message.

    Attributes:
        checked: placements that were compared. ties: those for which several workers had the lowest cost.
        interchangeable: whether in all of those the workers had never been given a request.
    """

    def __init__(self, workers: int, block_size: int) -> None:
        self._workers = range(workers)
        self._block_size = block_size
        self._cached: list[set[int]] = [set() for _ in self._workers]
        self._placed: dict[int, tuple[int, list[int], int]] = {}
        """Active request -> its worker, blocks, and prompt tokens to build."""
        self._arrivals: dict[int, Request] = {}
        self._used: set[int] = set()
        self.checked = self.ties = 0
        self.interchangeable = True

    def __call__(self, envelope: Envelope) -> None:
        message = envelope.message
        if isinstance(message, PlaceRequest):
            self._arrivals[message.request.ordinal] = message.request
        elif isinstance(message, RequestRouted):
            self._check(message)
        elif isinstance(message, PassOutputs) and envelope.receiver == "router":
            self._follow(message)

    def _follow(self, outputs: PassOutputs) -> None:
        assert len(outputs.ends_ms) == 1
        cached = self._cached[outputs.worker_id]
        for event in outputs.kv_events:
            blocks = identities(event.spans)
            if isinstance(event, BlocksStored):
                cached.update(blocks)
            else:
                cached.difference_update(blocks)
        for ordinal in outputs.first_tokens:
            worker, blocks, _ = self._placed[ordinal]
            self._placed[ordinal] = (worker, blocks, 0)
        for terminal in outputs.terminals:
            del self._placed[terminal.ordinal]

    def _check(self, routed: RequestRouted) -> None:
        request = self._arrivals.pop(routed.ordinal)
        overlap = routed.overlap
        assert overlap is not None
        assert routed.queue_entered_at_ms is None
        size = self._block_size
        blocks = identities(request.spans)[: request.input_tokens // size]
        assert len(blocks) == request.input_tokens // size
        overlaps = [_leading(blocks, cached) for cached in self._cached]
        costs = [self._cost(worker, request.input_tokens, blocks, overlaps[worker]) for worker in self._workers]
        lowest = [worker for worker in self._workers if costs[worker] == min(costs)]
        assert routed.worker_id == lowest[0], (routed, costs)
        assert (overlap.selected_blocks, overlap.best_blocks) == (overlaps[routed.worker_id], max(overlaps)), routed
        self.checked += 1
        if len(lowest) > 1:
            self.ties += 1
            self.interchangeable &= self._used.isdisjoint(lowest)
        uncached = max(request.input_tokens - overlaps[routed.worker_id] * size, 0)
        self._placed[routed.ordinal] = (routed.worker_id, blocks, uncached)
        self._used.add(routed.worker_id)

    def _cost(self, worker: int, input_tokens: int, blocks: Sequence[int], overlap: int) -> float:
        active: set[int] = set()
        to_build = 0
        for other, theirs, tokens in self._placed.values():
            if other == worker:
                active.update(theirs)
                to_build += tokens
        prefill = max((to_build + input_tokens) / self._block_size - 1.0 * overlap, 0.0)
        return 1.0 * prefill + (len(active) + len(blocks) - _leading(blocks, active))


def identities(spans: Sequence[Span]) -> list[int]:
    """Every identity of the spans."""
    return [identity for start, end in spans for identity in range(start, end)]


def _leading(blocks: Sequence[int], known: set[int]) -> int:
    """How many of the first blocks are known."""
    return next((index for index, block in enumerate(blocks) if block not in known), len(blocks))
