"""KV-cache events of a rank, produced only where a placement policy consumes them.

Blocks are told by their identities, as spans (`messages.requests.Span`). Blocks whose content no prompt can repeat are
left out.
"""

from __future__ import annotations

from array import array

import msgspec

from messages.requests import Span


class BlocksStored(msgspec.Struct, frozen=True, gc=False):
    """Blocks that became visible in the rank's cache, in prefix order, after block `parent` (None: at the root)."""

    event_id: int
    parent: int | None
    spans: tuple[Span, ...]


class BlocksRemoved(msgspec.Struct, frozen=True, gc=False):
    """Blocks whose last copy was evicted: span by span, each from its end."""

    event_id: int
    spans: tuple[Span, ...]


KvEvent = BlocksStored | BlocksRemoved

Eviction = tuple[int, Span | None]
"""A number of blocks that are evicted in a row, and the identities that are gone with them, if any."""


class EvictionForecast(msgspec.Struct, frozen=True, gc=False):
    """What a run of merged passes evicts as it goes on, told at its start.

    The run may be cut. The outputs at its end tell how far it went, and name what it evicted once more.

    ends_ms: the end of each pass. evicted_blocks: blocks that have been evicted by then.
    evictions: in order.
    """

    worker_id: int
    dp_rank: int
    ends_ms: array[float]
    evicted_blocks: array[int]
    evictions: tuple[Eviction, ...]
