"""KV-cache events of a rank, produced only where a placement policy consumes them."""

from __future__ import annotations

import msgspec


class BlocksStored(msgspec.Struct, frozen=True, gc=False):
    """Blocks that became visible in the rank's cache, in prefix order, after block `parent` (None: at the root)."""

    event_id: int
    parent: int | None
    block_ids: tuple[int, ...]


class BlocksRemoved(msgspec.Struct, frozen=True, gc=False):
    """Blocks whose last copy was evicted."""

    event_id: int
    block_ids: tuple[int, ...]


KvEvent = BlocksStored | BlocksRemoved
