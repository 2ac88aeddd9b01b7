"""The block pool against a plain model of it: every block an object, every list in order."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from engines.block_pool import BlockPool
from messages.kv import BlocksRemoved, BlocksStored


@dataclass
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
def programs(draw: st.DrawFn) -> tuple[int, list[tuple[str, int, int]]]:
    size = draw(st.integers(1, 12))
    steps = st.tuples(st.sampled_from(("take", "take", "give")), st.integers(0, 3), st.integers(1, 5))
    return size, draw(st.lists(steps, max_size=40))


@given(programs())
def test_behaves_like_the_plain_pool(program: tuple[int, list[tuple[str, int, int]]]) -> None:
    """Requests of family f hold blocks f0, f1, ...; they reuse what is cached and compute the rest anew."""
    size, steps = program
    pool, plain = BlockPool(size, prefix_caching=True, capture_events=True), PlainPool(size)
    held: list[tuple[list[int], list[Block]]] = []
    visible: set[int] = set()
    for action, family, length in steps:
        if action == "give":
            if held:
                keys, blocks = held.pop(family % len(held))
                pool.release(keys, 0)
                plain.release(blocks)
        else:
            identities = [family * 10 + index for index in range(length)]
            keys = pool.match(identities)
            prefix: list[Block] = []
            for identity in identities:
                block = plain.first_copy(identity)
                if block is None:
                    break
                prefix.append(block)
            assert len(keys) == len(prefix)
            assert pool.count_active(keys) == sum(1 for block in prefix if block.references)
            # The last block is always computed anew, so that copies arise.
            keys, prefix = keys[: length - 1], prefix[: length - 1]
            fresh = plain.acquire(prefix, length - len(prefix))
            assert pool.acquire(keys, length - len(keys)) is (fresh is not None)
            if fresh is not None:
                rest = identities[len(keys) :]
                keys = [*keys, *pool.publish(rest, identities[len(keys) - 1] if keys else None)]
                for block, identity in zip(fresh, rest, strict=True):
                    plain.publish(block, identity)
                held.append((keys, prefix + fresh))
        for event in pool.take_events():
            if isinstance(event, BlocksStored):
                assert visible.isdisjoint(event.block_ids)
                visible.update(event.block_ids)
            else:
                assert isinstance(event, BlocksRemoved)
                visible.difference_update(event.block_ids)
        assert (pool.active, pool.inactive, pool.free) == (
            len(plain.blocks) - len(plain.inactive),
            len(plain.inactive),
            size - len(plain.blocks),
        )
        assert visible == {block.identity for block in plain.blocks}


def test_private_blocks_are_never_found() -> None:
    pool = BlockPool(4, prefix_caching=False)
    assert pool.acquire((), 3)
    assert (pool.active, pool.available) == (3, 1)
    pool.release([], 3)
    assert (pool.active, pool.free) == (0, 4)


def test_a_failed_acquisition_changes_nothing() -> None:
    pool = BlockPool(3, prefix_caching=True)
    assert pool.acquire((), 2)
    pool.release(pool.publish((10, 11), None), 0)
    assert not pool.acquire([10], 3)
    assert (pool.active, pool.inactive, pool.free) == (0, 2, 1)
    assert pool.acquire([10], 2)
    assert pool.match((10, 11)) == [10]


def test_events_name_the_parent_and_split_at_a_duplicate() -> None:
    pool = BlockPool(9, prefix_caching=True, capture_events=True)
    pool.acquire((), 8)
    pool.publish((10, 11), None)
    pool.publish((20,), None)
    pool.publish((21, 11, 12), 20)
    assert pool.take_events() == (
        BlocksStored(0, None, (10, 11)),
        BlocksStored(1, None, (20,)),
        BlocksStored(2, 20, (21,)),
        BlocksStored(3, 11, (12,)),
    )
    assert pool.take_events() == ()
