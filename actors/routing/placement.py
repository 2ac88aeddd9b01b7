"""The protocol of a placement policy. A policy is a plain object; only the router actor calls it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from messages.kv import EvictionForecast, KvEvent
from messages.requests import Overlap, Request


class Placement(msgspec.Struct, frozen=True):
    """The rank chosen for a request, and what the policy knew of cached blocks where it looks at them."""

    request: Request
    worker_id: int
    dp_rank: int
    overlap: Overlap | None = None


class Decision(msgspec.Struct, frozen=True):
    """Answer to `place`: the placement, or None for a request that waits, and waiting requests it releases."""

    placement: Placement | None
    released: tuple[Placement, ...] = ()


class PlacementPolicy(Protocol):
    """Chooses a rank per request. Calls that return placements may release requests that waited until now.

    Times are simulated ms.

    follows_requests: whether it wants `prefill_completed` and `request_terminal` to be called.
    consumes_kv_events: whether it wants `observe` and `foresee` to be called; only then KV events are produced.
    """

    follows_requests: bool
    consumes_kv_events: bool

    def place(self, request: Request, now_ms: float) -> Decision:
        """Choose a rank for an arrival, or let it wait.

        Raises:
            ReplayError: no worker can ever take it.
        """
        ...

    def observe(
        self, worker_id: int, dp_rank: int, passes: int, events: Sequence[KvEvent], now_ms: float
    ) -> tuple[Placement, ...]:
        """A pass of a rank, or a run of `passes` of them, has ended, and its KV events became visible."""
        ...

    def foresee(self, forecast: EvictionForecast) -> None:
        """A run of passes begins in which a rank evicts; nothing tells of it but this, until `observe` at its end."""
        ...

    def prefill_completed(self, ordinal: int, now_ms: float) -> tuple[Placement, ...]:
        """The first token of a request is out."""
        ...

    def request_terminal(self, ordinal: int, now_ms: float) -> tuple[Placement, ...]:
        """A request ended, however."""
        ...

    def worker_ready(self, worker_id: int, scheduler_ids: tuple[int, ...]) -> tuple[Placement, ...]:
        """A worker may take requests from now on."""
        ...

    def worker_draining(self, worker_id: int) -> tuple[Placement, ...]:
        """A worker keeps what it has and takes no more."""
        ...

    def worker_removed(self, worker_id: int) -> tuple[Placement, ...]:
        """A worker is gone."""
        ...

    def topology_settled(self, now_ms: float) -> tuple[Placement, ...]:
        """All changes of one decision about the workers have been told."""
        ...
