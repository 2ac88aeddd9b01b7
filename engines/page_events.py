"""KV events of a radix cache: which page contents a rank has, whoever holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from messages.kv import BlocksRemoved, BlocksStored, KvEvent


class PageEvents:
    """Counts, per identity, the physical pages outside the tree that were announced.

    A content is stored with its first announced page, in the tree or outside of it, and removed with its last.
    """

    def __init__(self) -> None:
        self._outside: dict[int, int] = {}
        self._events: list[KvEvent] = []
        self._next_id = 0

    def announce(self, identities: Sequence[int], in_tree: int, parent: int | None) -> None:
        """Pages of a request, still outside the tree, have been announced.

        in_tree: how many of the identities, from the first on, the tree has. parent: the identity before them.
        """
        stored_from: int | None = None
        for index, identity in enumerate(identities):
            count = self._outside.get(identity, 0)
            if stored_from is None and index >= in_tree and not count:
                stored_from = index
            self._outside[identity] = count + 1
        if stored_from is not None:
            before = identities[stored_from - 1] if stored_from else parent
            self._add(BlocksStored(self._next_id, before, tuple(identities[stored_from:])))

    def enter_tree(self, identities: Iterable[int]) -> None:
        """Announced pages have become part of the tree, or given way to its own."""
        for identity in identities:
            self._decrease(identity)

    def withdraw(self, identities: Sequence[int], in_tree: int) -> None:
        """Announced pages outside the tree were freed; the tree has the first `in_tree` of the identities."""
        gone = [identity for index, identity in enumerate(identities) if self._decrease(identity) and index >= in_tree]
        self._remove(gone)

    def evict(self, identities: Iterable[int]) -> None:
        """Pages of the tree were evicted, in this order."""
        self._remove([identity for identity in identities if identity not in self._outside])

    def take(self) -> tuple[KvEvent, ...]:
        """The events since the last call, in order."""
        events = tuple(self._events)
        self._events.clear()
        return events

    def _decrease(self, identity: int) -> bool:
        """Count one page less; returns whether that was the last."""
        count = self._outside[identity] - 1
        if count:
            self._outside[identity] = count
        else:
            del self._outside[identity]
        return not count

    def _remove(self, identities: list[int]) -> None:
        if identities:
            self._add(BlocksRemoved(self._next_id, tuple(identities)))

    def _add(self, event: KvEvent) -> None:
        self._events.append(event)
        self._next_id += 1
