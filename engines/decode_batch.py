"""The decoding requests of a rank, advanced together: what a pass costs does not depend on how many there are."""

from __future__ import annotations

import heapq
from array import array
from collections.abc import Callable
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from engines.block_pool import NO_MATCH, BlockPool
from engines.engine import PlannedEvictions
from engines.metrics import Lengths
from engines.sequence import Sequence
from messages.kv import Eviction

S = TypeVar("S", bound=Sequence)


class LockstepBatch(Generic[S]):
    """Requests that emit one token each in every pass.

    All that changes for a member in a pass follows from the number of passes since it joined, so members are touched
    only when they join, leave or finish. A member needs a new block in every `block_size`-th pass; members are counted
    by which of them (`_crossings`).

    Attributes:
        passes: passes taken so far. kv_tokens: known tokens of all members. squares: the sum of their squares.
        newest: `order` of the member admitted last since the batch was empty.
        promised: blocks that members will still take until their ends, where their `footprint` says so.
        repeats: whether other requests may repeat what members generate.
    """

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self.passes = 0
        self.kv_tokens = 0
        self.squares = 0
        self.newest = -1
        self.promised = 0
        self.repeats = False
        self._members: dict[S, None] = {}
        self._crossings = [0] * block_size
        self._finishing: list[tuple[int, int, S]] = []

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, sequence: S) -> bool:
        return sequence in self._members

    def members(self) -> list[S]:
        """The members in order of admission."""
        return sorted(self._members, key=_by_order)

    def add(self, sequence: S) -> None:
        """Take a request in that is not complete and has a token to compute."""
        sequence.joined = self.passes
        sequence.finish = self.passes + sequence.limit - sequence.generated
        length = sequence.prompt_tokens + sequence.generated
        self.kv_tokens += length
        self.squares += length * length
        self.newest = max(self.newest, sequence.order)
        self.repeats = self.repeats or sequence.repeats_outputs(self._block_size)
        self.promised += sequence.footprint - sequence.blocks
        self._members[sequence] = None
        self._crossings[(self.passes - sequence.computed) % self._block_size] += 1
        heapq.heappush(self._finishing, (sequence.finish, sequence.order, sequence))

    def remove(self, sequence: S) -> None:
        """Let a member go, with its state as it is now."""
        del self._members[sequence]
        passes = self.passes - sequence.joined
        self._crossings[(self.passes - sequence.computed - passes) % self._block_size] -= 1
        sequence.generated += passes
        sequence.computed += passes
        sequence.blocks = -(-sequence.computed // self._block_size)
        self.promised -= sequence.footprint - sequence.blocks
        length = sequence.prompt_tokens + sequence.generated
        self.kv_tokens -= length
        self.squares -= length * length
        sequence.finish = -1
        if not self._members:
            self.newest = -1
            self.repeats = False
            # Those who come back must not meet what was noted of them before.
            self._finishing.clear()

    def lengths_after(self, passes: int) -> Lengths:
        """Known tokens of the members once the next `passes` passes have been taken."""
        count, total = len(self._members), self.kv_tokens
        return Lengths(count, total + count * passes, self.squares + 2 * passes * total + count * passes * passes)

    def passes_to_finish(self) -> int:
        """Passes until the first member is complete; there must be one."""
        finishing = self._finishing
        while finishing[0][0] != finishing[0][2].finish:
            heapq.heappop(finishing)
        return finishing[0][0] - self.passes

    def passes_to_publish(self) -> int:
        """Passes until the first member completes a block."""
        size = self._block_size
        return next(passes for passes in range(1, size + 1) if self._crossings[(self.passes + passes) % size])

    def blocks_needed(self, passes: int) -> int:
        """Blocks that members need for the next `passes` passes."""
        rounds, rest = divmod(passes, self._block_size)
        first = self.passes % self._block_size
        needed = sum(self._crossings[first : first + rest])
        if first + rest > self._block_size:
            needed += sum(self._crossings[: first + rest - self._block_size])
        return needed + rounds * len(self._members)

    def blocks_needed_each(self, passes: int) -> NDArray[np.int64]:
        """`blocks_needed` of 0, 1, ... `passes` - 1 passes."""
        crossings = np.array(self._crossings, np.int64)
        taken = crossings[np.arange(self.passes, self.passes + passes) % self._block_size]
        return np.concatenate((np.zeros(1, np.int64), np.add.accumulate(taken[:-1])))

    def affordable(self, passes: int, blocks: int) -> int:
        """The most passes, up to `passes`, that need at most `blocks` blocks."""
        if self.blocks_needed(passes) <= blocks:
            return passes
        low, high = 0, passes
        while high - low > 1:
            middle = (low + high) // 2
            if self.blocks_needed(middle) <= blocks:
                low = middle
            else:
                high = middle
        return low

    def advance(self, passes: int = 1) -> list[S]:
        """Emit the tokens of scheduled passes; returns the members that are complete, in order of admission.

        No member may be complete before the last of these passes.
        """
        lengths = self.lengths_after(passes)
        self.passes += passes
        self.kv_tokens, self.squares = lengths.total, lengths.squares
        finished: list[S] = []
        finishing = self._finishing
        while finishing and finishing[0][0] <= self.passes:
            finish, _, sequence = heapq.heappop(finishing)
            if finish == sequence.finish:
                finished.append(sequence)
        return finished


class DecodeBatch(LockstepBatch[Sequence]):
    """Requests that have computed all their tokens but the last, with their blocks in a `BlockPool`."""

    def __init__(self, pool: BlockPool, block_size: int) -> None:
        super().__init__(block_size)
        self._pool = pool

    @property
    def eager(self) -> bool:
        """Whether blocks are published in the pass that completes them, because others may repeat their content.

        Otherwise they are published when their member leaves.
        """
        return self.repeats

    def schedule(self, passes: int = 1) -> None:
        """Take the blocks for the next passes, which the pool must have, and publish what they complete."""
        needed = self.blocks_needed(passes)
        self.promised -= needed
        if self.eager and self._pool.prefix_caching:
            self._schedule_each(passes)
        elif needed:
            self._pool.acquire(NO_MATCH, needed)

    def _schedule_each(self, passes: int) -> None:
        """Take and publish blocks in the order in which stepping does: by pass, then by admission."""
        size, pool = self._block_size, self._pool
        members = self.members()
        for taken in range(self.passes, self.passes + passes):
            if not (self._crossings[taken % size] or self._crossings[(taken + 1) % size]):
                continue
            for sequence in members:
                computed = sequence.computed + taken - sequence.joined
                if not computed % size:
                    pool.acquire(NO_MATCH, 1)
                elif not (computed + 1) % size:
                    sequence.publish((computed + 1) // size, pool)


def planned_evictions(
    dp_rank: int,
    batch: LockstepBatch[S],
    passes: int,
    free: int,
    next_evictions: Callable[[int], list[Eviction]],
) -> PlannedEvictions | None:
    """What the next passes of a batch evict that anybody may ask for, where so many blocks are free.

    next_evictions: tells the next evictions of so many blocks.
    """
    needed = batch.blocks_needed(passes) - free
    if needed <= 0:
        return None
    evictions = tuple(next_evictions(needed))
    if all(span is None for _, span in evictions):
        return None
    counts = np.maximum(batch.blocks_needed_each(passes + 1)[1:] - free, 0)
    return PlannedEvictions(dp_rank, array("q", counts.tobytes()), evictions)


def _by_order(sequence: Sequence) -> int:
    return sequence.order
