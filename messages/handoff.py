"""The hand-off of a disaggregated request from its prefill worker to its decode worker.

Actions are released one by one in the hand-off phase, first in first out. Facts are what came of them.
"""

from __future__ import annotations

import enum

import msgspec

from messages.gauges import Gauges
from messages.requests import Request, Status


class HandoffRequest(msgspec.Struct, frozen=True, gc=False):
    """The client asks for a request to be served by the two pools."""

    request: Request


class ReserveDestination(msgspec.Struct, frozen=True, gc=False):
    """Action: a decode rank is to take blocks for the prompt, as soon as it can."""

    request: Request
    dp_rank: int


class StartTransfer(msgspec.Struct, frozen=True, gc=False):
    """Action: the KV of the prompt goes from source to destination."""

    ordinal: int


class ActivateDestination(msgspec.Struct, frozen=True, gc=False):
    """Action: the KV has arrived; the decode rank may run the request. Waits for the end of a pass in flight."""

    ordinal: int
    dp_rank: int


class ReleaseSource(msgspec.Struct, frozen=True, gc=False):
    """Action: the prefill rank may let go of the KV. Waits for the end of a pass in flight."""

    ordinal: int
    dp_rank: int


class CancelDestination(msgspec.Struct, frozen=True, gc=False):
    """Action: the KV will never arrive; the decode rank may let go of its room. Waits for the end of a pass."""

    ordinal: int
    dp_rank: int


class DestinationReserved(msgspec.Struct, frozen=True, gc=False):
    """Fact: blocks for the prompt are held, `fresh_tokens` of their content is missing at the destination.

    gauges: what the rank holds now, where that is captured.
    """

    ordinal: int
    dp_rank: int
    fresh_tokens: int
    gauges: Gauges | None = None


class DestinationFailed(msgspec.Struct, frozen=True, gc=False):
    """Fact: the decode rank can never hold the prompt."""

    ordinal: int
    reason: str


class DestinationActivated(msgspec.Struct, frozen=True, gc=False):
    """Fact: the request is in the decode rank's queue."""

    ordinal: int


class DestinationCancelled(msgspec.Struct, frozen=True, gc=False):
    """Fact: the decode rank has let go of the room. gauges: what it holds now, where that is captured."""

    ordinal: int
    dp_rank: int
    gauges: Gauges | None = None


class SourceReleased(msgspec.Struct, frozen=True, gc=False):
    """Fact: the prefill rank has let go of the KV. gauges: what it holds now, where that is captured."""

    ordinal: int
    dp_rank: int
    gauges: Gauges | None = None


class TransferCompleted(msgspec.Struct, frozen=True, gc=False):
    """The hand-off actor's own message, due when the KV has arrived."""

    ordinal: int


class Milestone(enum.StrEnum):
    """What the record of a request notes of its hand-off."""

    SOURCE_HELD = "source_held_ms"
    DESTINATION_RESERVED = "destination_reserved_ms"
    DESTINATION_ACTIVATED = "destination_activated_ms"
    SOURCE_RELEASED = "source_released_ms"


class MilestonesReached(msgspec.Struct, frozen=True, gc=False):
    """For the record: when a request that has ended reached which milestones, as far as not told before."""

    ordinal: int
    times_ms: dict[Milestone, float]


class RequestEnded(msgspec.Struct, frozen=True, gc=False):
    """A request is over and has left the cluster; for the client, and for the record where it did not complete."""

    ordinal: int
    status: Status
    reason: str | None = None


HandoffMessage = (
    HandoffRequest
    | ReserveDestination
    | StartTransfer
    | ActivateDestination
    | ReleaseSource
    | CancelDestination
    | DestinationReserved
    | DestinationFailed
    | DestinationActivated
    | DestinationCancelled
    | SourceReleased
    | TransferCompleted
    | MilestonesReached
    | RequestEnded
)
