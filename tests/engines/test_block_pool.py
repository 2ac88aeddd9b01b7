"""The block pool against a plain model of it: every block an object, every list in order."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from engines.block_pool import NO_MATCH, BlockPool, Held
from messages.kv import BlocksRemoved, BlocksStored
from messages.requests import Span


@dataclass(eq=False)
class Block:
    identity: int | None = None
    references: int = 1


@dataclass
class PlainPool:
    """The same rules, one block at a time."""

    size: int
    blocks: list[Block] = field(default_factory=list)
    inactive: list[Block] = field(default_factory=list)

    def first_copy(self, identity: int) -> Block | None:
        return next((block for block in self.blocks if block.identity == identity), None)

    def acquire(self, prefix: list[Block], fresh: int) -> list[Block] | None:
        shortage = fresh - (self.size - len(self.blocks))
        if shortage > len(self.inactive) - sum(1 for block in prefix if not block.references):
            return None
        for block in prefix:
            if not block.references:
                self.inactive.remove(block)
            block.references += 1
        for _ in range(shortage):
            # Blocks are compared by identity of the object: two copies can be alike.
            evicted = self.inactive.pop(0)
            self.blocks = [block for block in self.blocks if block is not evicted]
        taken = [Block() for _ in range(fresh)]
        self.blocks += taken
        return taken

    def publish(self, block: Block, identity: int) -> None:
        block.identity = identity
        # Its place among the copies of its identity is that of its publication.
        self.blocks = [other for other in self.blocks if other is not block] + [block]

    def release(self, held: list[Block]) -> None:
        for block in reversed(held):
            block.references -= 1
            if block.identity is None:
                self.blocks = [other for other in self.blocks if other is not block]
            elif not block.references:
                self.inactive.append(block)


@st.composite
def programs(draw: st.DrawFn) -> tuple[int, list[tuple[str, int, int, int]]]:
    size = draw(st.integers(1, 12))
    steps = st.tuples(
        st.sampled_from(("take", "take", "take in parts", "give")),
        st.integers(0, 2),
        st.integers(0, 3),
        st.integers(0, 3),
    )
    return size, draw(st.lists(steps, max_size=40))


def spans_of(family: int, trunk: int, branch: int) -> list[Span]:
    """`trunk` blocks that all prompts of a family have, then `branch` blocks of a line that leaves the trunk there."""
    line, side = 1000 * family, 1000 * family + 100 * trunk + 50
    return [(start, end) for start, end in ((line, line + trunk), (side, side + branch)) if start < end]


@settings(max_examples=500)
@given(programs())
def test_behaves_like_the_plain_pool(program: tuple[int, list[tuple[str, int, int, int]]]) -> None:
    """Requests reuse what is cached and compute the rest anew, at once or in two parts."""
    size, steps = program
    pool, plain = BlockPool(size, prefix_caching=True, capture_events=True), PlainPool(size)
    held: list[tuple[list[Held], list[Block]]] = []
    visible: set[int] = set()
    for action, family, trunk, branch in steps:
        if action == "give":
            if held:
                copies, blocks = held.pop(trunk % len(held))
                pool.release(copies, 0)
                plain.release(blocks)
        elif spans := spans_of(family, trunk, branch):
            identities = [identity for start, end in spans for identity in range(start, end)]
            match = pool.match(spans)
            prefix: list[Block] = []
            for identity in identities:
                block = plain.first_copy(identity)
                if block is None:
                    break
                prefix.append(block)
            assert match.blocks == len(prefix)
            assert match.active == sum(1 for block in prefix if block.references)
            # The last block is always computed anew, so that copies arise.
            match.shorten(len(identities) - 1)
            prefix = prefix[: len(identities) - 1]
            fresh = plain.acquire(prefix, len(identities) - len(prefix))
            copies = pool.acquire(match, len(identities) - match.blocks)
            assert (copies is None) == (fresh is None)
            if copies is not None and fresh is not None:
                parts = [len(prefix), len(identities)]
                if action == "take in parts":
                    parts.insert(1, (len(prefix) + len(identities)) // 2)
                for first, last in itertools.pairwise(parts):
                    for line, start, end in stretches(spans, first, last):
                        pool.publish(copies, line, start, end, None)
                for block, identity in zip(fresh, identities[len(prefix) :], strict=True):
                    plain.publish(block, identity)
                held.append((copies, prefix + fresh))
        for event in pool.take_events():
            blocks = {identity for start, end in event.spans for identity in range(start, end)}
            if isinstance(event, BlocksStored):
                assert visible.isdisjoint(blocks)
                visible |= blocks
            else:
                assert isinstance(event, BlocksRemoved)
                assert blocks <= visible
                visible -= blocks
        assert (pool.active, pool.inactive, pool.free) == (
            len(plain.blocks) - len(plain.inactive),
            len(plain.inactive),
            size - len(plain.blocks),
        )
        assert visible == {block.identity for block in plain.blocks}
        check_forecast(pool, plain)


def check_forecast(pool: BlockPool, plain: PlainPool) -> None:
    """The next evictions, block by block, against what the plain pool evicts when it has to."""
    foretold = [
        (span[1] - 1 - position) if span is not None else None
        for blocks, span in pool.next_evictions(pool.inactive)
        for position in range(blocks)
    ]
    left = Counter(block.identity for block in plain.blocks)
    evicted: list[int | None] = []
    for block in plain.inactive:
        left[block.identity] -= 1
        evicted.append(None if left[block.identity] else block.identity)
    assert foretold == evicted


def stretches(spans: list[Span], first: int, last: int) -> list[tuple[int, int, int]]:
    """(line, start, end) of blocks `first` to `last` - 1."""
    found = []
    for line, end in spans:
        start, stop = line + max(first, 0), min(end, line + last)
        if start < stop:
            found.append((line, start, stop))
        first, last = first - (end - line), last - (end - line)
    return found


def test_private_blocks_are_never_found() -> None:
    pool = BlockPool(4, prefix_caching=False)
    assert pool.acquire(NO_MATCH, 3) == []
    assert (pool.active, pool.available) == (3, 1)
    pool.release([], 3)
    assert (pool.active, pool.free) == (0, 4)


def test_a_failed_acquisition_changes_nothing() -> None:
    pool = BlockPool(3, prefix_caching=True)
    held = pool.acquire(NO_MATCH, 2)
    assert held == []
    pool.publish(held, 10, 10, 12, None)
    pool.release(held, 0)
    one = pool.match([(10, 11)])
    assert pool.acquire(one, 3) is None
    assert (pool.active, pool.inactive, pool.free) == (0, 2, 1)
    assert pool.acquire(one, 2) is not None
    assert pool.match([(10, 12)]).blocks == 1


def test_blocks_after_the_held_ones_can_stay_cached_at_the_release() -> None:
    pool = BlockPool(9, prefix_caching=True)
    held = pool.acquire(NO_MATCH, 5)
    assert held is not None
    pool.publish(held, 10, 10, 12, None)
    line = pool.private_line(4)
    pool.release(held, 1, (line, line, line + 2))
    assert (pool.active, pool.inactive, pool.free) == (0, 4, 5)
    # The end of the sequence is the first to go.
    assert pool.acquire(NO_MATCH, 6) == []
    assert pool.match([(10, 12), (line, line + 2)]).blocks == 3


def test_events_name_the_parent_and_split_at_a_duplicate() -> None:
    pool = BlockPool(9, prefix_caching=True, capture_events=True)
    first, second = pool.acquire(NO_MATCH, 2), pool.acquire(NO_MATCH, 4)
    assert first is not None
    assert second is not None
    pool.publish(first, 10, 11, 12, 10)
    pool.publish(second, 10, 10, 13, 9)
    assert pool.take_events() == (
        BlocksStored(0, 10, ((11, 12),)),
        BlocksStored(1, 9, ((10, 11),)),
        BlocksStored(2, 11, ((12, 13),)),
    )
    assert pool.take_events() == ()
