"""Arrival, placement and end of a request: client, router, workers and collector."""

from __future__ import annotations

import enum
from typing import Any

import msgspec


class Status(enum.StrEnum):
    """How a request ended."""

    COMPLETED = "completed"
    REJECTED = "rejected"
    FAILED = "failed"


Span = tuple[int, int]
"""A range of block identities, from the first to before the second."""


class RoutingMetadata(msgspec.Struct, frozen=True, gc=False):
    """What a request asks of a placement policy that lets requests wait.

    strict_priority: the higher ones go first. priority: a head start among those; negative ones act as 0.
    policy_class: the class, or family of classes, that it belongs to.
    """

    priority: int = 0
    strict_priority: int = 0
    policy_class: str | None = None


NO_ROUTING_METADATA = RoutingMetadata()


class Request(msgspec.Struct, frozen=True, gc=False):
    """What an engine or a placement policy needs to know of a request.

    ordinal: counter of the run in release order; identifies the request in every message.
    spans: identities of the leading blocks (of the engine's block size) whose content another
        request may repeat, each standing for its block and everything before it. They come in
        lines: a span begins where its line begins, and goes as far as the content follows the
        line. Blocks beyond them hold content that belongs to this request alone.
    dp_rank: the attention-DP rank it asks for, None for any.
    """

    ordinal: int
    input_tokens: int
    output_tokens: int
    spans: tuple[Span, ...]
    dp_rank: int | None = None
    routing: RoutingMetadata = NO_ROUTING_METADATA


class ReleaseArrivals(msgspec.Struct, frozen=True, gc=False):
    """The client's own alarm: at least one request is ready to be released now."""


class RequestArrived(msgspec.Struct, frozen=True, gc=False):
    """A request entered the cluster. Lengths in tokens."""

    ordinal: int
    request_id: str
    session_id: str | None
    turn_index: int | None
    arrival_time_ms: float
    input_length: int
    requested_output_length: int
    metadata: Any = None


class PlaceRequest(msgspec.Struct, frozen=True, gc=False):
    """The client asks the router for a worker."""

    request: Request


class Dispatch(msgspec.Struct, frozen=True, gc=False):
    """The router hands a request to the worker it chose, for one of its ranks."""

    request: Request
    dp_rank: int


class Overlap(msgspec.Struct, frozen=True, gc=False):
    """What a placement policy knew of the blocks of a prompt that were cached at its arrival.

    selected_blocks, tokens: on the chosen rank. best_blocks: the most on any rank that could be chosen.
    request_blocks: blocks of the whole prompt.
    """

    selected_blocks: int
    best_blocks: int
    request_blocks: int
    tokens: int


class RequestRouted(msgspec.Struct, frozen=True, gc=False):
    """A placement, for the record. The queue times are None for a request that was placed at once.

    overlap: None where the policy does not look at caches.
    """

    ordinal: int
    pool: str
    worker_id: int
    scheduler_id: int
    dp_rank: int
    queue_entered_at_ms: float | None = None
    released_at_ms: float | None = None
    overlap: Overlap | None = None


ArrivalMessage = ReleaseArrivals | RequestArrived
PlacementMessage = PlaceRequest | Dispatch | RequestRouted
