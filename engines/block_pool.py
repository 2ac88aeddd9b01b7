"""The KV-block pool of one rank: prefix caching, reference counts, duplicates, least-recently-released eviction."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from itertools import takewhile

from messages.kv import BlocksRemoved, BlocksStored, KvEvent


class BlockPool:
    """`num_blocks` blocks, each free, private to one request, or cached under the identity of its content.

    A cached block is a *copy* with a key: the first copy of an identity is keyed by the identity itself, later
    copies (duplicates, computed by requests that could not see the first) by negative numbers. Copies without a
    reference are *inactive*; they can be hit, and are evicted in the order of their release.

    Attributes:
        active: blocks that requests hold, in blocks. Free blocks: num_blocks - active - len(inactive).
    """

    def __init__(self, num_blocks: int, *, prefix_caching: bool, capture_events: bool = False) -> None:
        self.num_blocks = num_blocks
        self.prefix_caching = prefix_caching
        self.capture_events = capture_events
        self.active = 0
        self._inactive: OrderedDict[int, None] = OrderedDict()
        self._references: dict[int, int] = {}
        self._copies: dict[int, list[int]] = {}
        """Keys of an identity in order of age, for identities that have, or had, more than one copy."""
        self._identities: dict[int, int] = {}
        self._next_key = -1
        self._events: list[KvEvent] = []
        self._event_count = 0

    @property
    def available(self) -> int:
        """Blocks that can be acquired: free or inactive."""
        return self.num_blocks - self.active

    @property
    def inactive(self) -> int:
        """Cached blocks without a reference."""
        return len(self._inactive)

    @property
    def free(self) -> int:
        """Blocks that hold nothing."""
        return self.num_blocks - self.active - len(self._inactive)

    def private_identities(self, count: int) -> int:
        """Reserve `count` identities that no other request has; they descend from the returned one."""
        first = self._next_key
        self._next_key -= count
        return first

    def match(self, identities: Sequence[int]) -> list[int]:
        """Keys of the first copies of the longest cached prefix of `identities`. Changes nothing."""
        references = self._references
        if not self._copies:
            return list(takewhile(references.__contains__, identities))
        keys = []
        for identity in identities:
            copies = self._copies.get(identity)
            if copies is not None:
                keys.append(copies[0])
            elif identity in references:
                keys.append(identity)
            else:
                break
        return keys

    def count_active(self, keys: Sequence[int]) -> int:
        """How many of these copies are referenced."""
        references = self._references
        return sum(1 for key in keys if references[key])

    def acquire(self, prefix: Collection[int], fresh: int) -> bool:
        """Take a reference on each copy of `prefix` and `fresh` blocks besides, evicting what that needs.

        Returns False, without any change, if the pool cannot provide them.
        """
        inactive, references = self._inactive, self._references
        shortage = fresh - self.free
        if shortage > 0 and shortage > len(inactive) - sum(1 for key in prefix if not references[key]):
            return False
        for key in prefix:
            count = references[key]
            if not count:
                del inactive[key]
                self.active += 1
            references[key] = count + 1
        if shortage > 0:
            self._evict(shortage)
        self.active += fresh
        return True

    def publish(self, identities: Sequence[int], parent: int | None) -> Sequence[int]:
        """Turn private blocks into cached ones with one reference; returns the keys of the copies.

        `parent`: identity of the block before the first one, for events.
        """
        references = self._references
        if references.keys().isdisjoint(identities) and self._copies.keys().isdisjoint(identities):
            references.update(dict.fromkeys(identities, 1))
            if self.capture_events:
                self._stored(parent, identities)
            return identities
        keys = []
        fresh: list[int] = []
        for identity in identities:
            copies = self._copies.get(identity)
            if copies is None and identity not in references:
                key = identity
                fresh.append(identity)
            else:
                key = self.private_identities(1)
                self._identities[key] = identity
                if copies is None:
                    self._copies[identity] = [identity, key]
                else:
                    copies.append(key)
                if self.capture_events:
                    self._stored(parent, fresh)
                fresh, parent = [], identity
            references[key] = 1
            keys.append(key)
        if self.capture_events:
            self._stored(parent, fresh)
        return keys

    def release(self, keys: Sequence[int], private: int) -> None:
        """Give back `private` private blocks and a reference on each copy, from the last to the first."""
        references, inactive = self._references, self._inactive
        released = private
        for key in reversed(keys):
            count = references[key] - 1
            references[key] = count
            if not count:
                inactive[key] = None
                released += 1
        self.active -= released

    def take_events(self) -> tuple[KvEvent, ...]:
        """The events since the last call, in order."""
        events = tuple(self._events)
        self._events.clear()
        return events

    def _evict(self, count: int) -> None:
        inactive, references = self._inactive, self._references
        evicted = [inactive.popitem(last=False)[0] for _ in range(count)]
        for key in evicted:
            del references[key]
        if self._copies:
            evicted = [identity for key in evicted if (identity := self._forget_copy(key)) is not None]
        if self.capture_events and evicted:
            self._events.append(BlocksRemoved(self._event_count, tuple(evicted)))
            self._event_count += 1

    def _forget_copy(self, key: int) -> int | None:
        """Drop an evicted copy; returns its identity if that was the last one."""
        identity = self._identities.pop(key, key)
        copies = self._copies.get(identity)
        if copies is None:
            return identity
        copies.remove(key)
        if copies:
            if copies == [identity]:
                del self._copies[identity]
            return None
        del self._copies[identity]
        return identity

    def _stored(self, parent: int | None, identities: Sequence[int]) -> None:
        if identities:
            self._events.append(BlocksStored(self._event_count, parent, tuple(identities)))
            self._event_count += 1
