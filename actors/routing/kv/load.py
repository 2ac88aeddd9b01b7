"""What every rank has to do: prompt tokens to build, blocks and number of its active requests."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence

import msgspec

from actors.routing.kv.chains import leading_blocks
from messages.requests import Span


class _Active(msgspec.Struct, gc=False):
    """A placed request: its rank, chain, and the blocks of its prompt that nobody can share."""

    rank: int
    chain: tuple[Span, ...]
    own_blocks: int
    prefill_tokens: int


class Loads:
    """Follows requests from their placement to their end.

    track_blocks: whether blocks count. shared: whether requests of a rank share the blocks of a common prefix.

    Attributes, by rank:
        prefill_tokens: prompt tokens not cached, of requests whose prompt is not built yet.
        blocks: distinct blocks of the prompts of active requests. requests: number of those.
    """

    def __init__(self, *, track_prefill: bool, track_blocks: bool, shared: bool) -> None:
        self._track_prefill = track_prefill
        self._track_blocks = track_blocks
        self._shared = shared
        self.prefill_tokens: dict[int, int] = {}
        self.blocks: dict[int, int] = {}
        self.requests: dict[int, int] = {}
        self._active: dict[int, _Active] = {}
        self._extents: dict[int, dict[int, int]] = {}
        """Line -> rank -> end of the longest beginning of the line that an active request has."""
        self._ends: dict[tuple[int, int], list[int]] = {}
        """(line, rank) -> ends of the beginnings that active requests have, ascending."""

    def add_rank(self, rank: int) -> None:
        """A rank begins without any load."""
        self.prefill_tokens[rank] = self.blocks[rank] = self.requests[rank] = 0

    def forget(self, rank: int) -> None:
        """Drop a rank with its requests."""
        for ordinal in [ordinal for ordinal, active in self._active.items() if active.rank == rank]:
            self.end(ordinal)
        del self.prefill_tokens[rank], self.blocks[rank], self.requests[rank]

    def active_blocks(self, chain: Sequence[Span]) -> dict[int, int]:
        """How many leading blocks of a chain active requests of each rank have; ranks without any are left out."""
        return leading_blocks(self._extents, chain)

    def place(self, ordinal: int, rank: int, chain: tuple[Span, ...], own_blocks: int, uncached_tokens: int) -> None:
        """A request goes to a rank, which is to build `uncached_tokens` of its prompt."""
        if not self._track_prefill:
            uncached_tokens = 0
        if not self._track_blocks:
            own_blocks = 0
        elif not self._shared:
            own_blocks += sum([end - line for line, end in chain])
        if not (self._track_blocks and self._shared):
            chain = ()
        self._active[ordinal] = _Active(rank, chain, own_blocks, uncached_tokens)
        self.prefill_tokens[rank] += uncached_tokens
        self.requests[rank] += 1
        added = own_blocks
        for line, end in chain:
            ends = self._ends.setdefault((line, rank), [])
            longest = ends[-1] if ends else line
            insort(ends, end)
            if end > longest:
                self._extents.setdefault(line, {})[rank] = end
                added += end - longest
        self.blocks[rank] += added

    def prefill_completed(self, ordinal: int) -> bool:
        """The prompt of a request is built. Returns whether the request is known."""
        active = self._active.get(ordinal)
        if active is None:
            return False
        self.prefill_tokens[active.rank] -= active.prefill_tokens
        active.prefill_tokens = 0
        return True

    def end(self, ordinal: int) -> bool:
        """A request is over. Returns whether it is known."""
        active = self._active.pop(ordinal, None)
        if active is None:
            return False
        rank = active.rank
        self.prefill_tokens[rank] -= active.prefill_tokens
        self.requests[rank] -= 1
        removed = active.own_blocks
        for line, end in active.chain:
            ends = self._ends[line, rank]
            del ends[bisect_left(ends, end)]
            longest = ends[-1] if ends else line
            if end > longest:
                removed += end - longest
                if ends:
                    self._extents[line][rank] = longest
                else:
                    del self._extents[line][rank], self._ends[line, rank]
        self.blocks[rank] -= removed
        return True
