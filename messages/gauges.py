"""What a rank holds at a moment."""

from __future__ import annotations

import msgspec


class Gauges(msgspec.Struct, frozen=True, gc=False):
    """What a rank holds: blocks in use, blocks that could be evicted, all blocks; and its requests.

    waiting_requests includes destinations of hand-offs that wait for their blocks or their KV.
    evicted_blocks: cached blocks that have had to make room since the rank exists.
    """

    active_blocks: int
    inactive_blocks: int
    total_blocks: int
    running_requests: int
    waiting_requests: int
    evicted_blocks: int = 0
