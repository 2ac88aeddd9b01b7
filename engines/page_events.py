"""KV events of a radix cache: which page contents a rank has, whoever holds them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from messages.kv import BlocksRemoved, BlocksStored, KvEvent
from messages.requests import Span


class PageEvents:
    """Counts, per identity, the physical pages outside the tree that were announced.

    A content is stored with its first announced page, in the tree or outside of it, and removed with its last.
    """

    def __init__(self) -> None:
        self._outside: list[Span] = []
        """A span per stretch of announced pages outside the tree. There are few: those of unfinished prompts."""
        self._events: list[KvEvent] = []
        self._next_id = 0

    def announce(self, spans: Sequence[Span], in_tree: int, parent: int | None) -> None:
        """Pages of a request, still outside the tree, have been announced.

        in_tree: how many of them, from the first on, the tree has. parent: the identity before them.
        """
        rest: list[Span] = []
        for start, end in spans:
            first = start
            if not rest:
                passed = min(in_tree, end - start)
                in_tree -= passed
                uncovered = self._uncovered((start + passed, end)) if start + passed < end else []
                first = uncovered[0][0] if uncovered else end
                parent = first - 1 if first > start else parent
            if first < end:
                rest.append((first, end))
            elif not rest:
                parent = end - 1
        self._outside += spans
        rest = [span for span in rest if span[0] >= 0]
        if rest:
            self._events.append(BlocksStored(self._next_id, parent, tuple(rest)))
            self._next_id += 1

    def enter_tree(self, spans: Iterable[Span]) -> None:
        """Announced pages have become part of the tree, or given way to its own."""
        for span in spans:
            self._decrease(span)

    def withdraw(self, spans: Sequence[Span], in_tree: int) -> None:
        """Announced pages outside the tree were freed; the tree has the first `in_tree` of them."""
        gone: list[Span] = []
        for start, end in spans:
            self._decrease((start, end))
            kept = min(in_tree, end - start)
            in_tree -= kept
            gone += self._uncovered((start + kept, end))
        self._remove(gone)

    def evict(self, spans: Iterable[Span]) -> None:
        """Pages of the tree were evicted, in this order, each span from its end."""
        self._remove([part for span in spans for part in reversed(self._uncovered(span))])

    @property
    def has_outside(self) -> bool:
        """Whether there are announced pages outside the tree."""
        return bool(self._outside)

    def take(self) -> tuple[KvEvent, ...]:
        """The events since the last call, in order."""
        events = tuple(self._events)
        self._events.clear()
        return events

    def _uncovered(self, span: Span) -> list[Span]:
        """The parts of a span that no page outside the tree has, ascending."""
        parts = [span] if span[0] < span[1] else []
        for start, end in self._outside:
            if any(part[0] < end and start < part[1] for part in parts):
                pieces = [(low, min(high, start)) for low, high in parts] + [
                    (max(low, end), high) for low, high in parts
                ]
                parts = sorted(piece for piece in pieces if piece[0] < piece[1])
        return parts

    def _decrease(self, span: Span) -> None:
        """Count one page less of each identity."""
        start, end = span
        while start < end:
            index = next(index for index, (low, high) in enumerate(self._outside) if low <= start < high)
            low, high = self._outside[index]
            stop = min(high, end)
            self._outside[index : index + 1] = [part for part in ((low, start), (stop, high)) if part[0] < part[1]]
            start = stop

    def _remove(self, spans: Iterable[Span]) -> None:
        repeatable = tuple([span for span in spans if span[0] >= 0])
        if repeatable:
            self._events.append(BlocksRemoved(self._next_id, repeatable))
            self._next_id += 1
