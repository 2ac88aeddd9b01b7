"""Destinations of hand-offs on a decode rank: queued, reserved, and the order in which they came."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import Generic, TypeVar

from engines.sequence import Sequence

S = TypeVar("S", bound=Sequence)


class Destinations(Generic[S]):
    """A strict queue of destinations that wait for blocks, and those that hold them until their KV arrives.

    Only the front of the queue is ever tried, and again only when `generation` says that room may have been made.
    """

    def __init__(self) -> None:
        self.generation = 0
        self._queue: deque[S] = deque()
        self._held: dict[int, S] = {}
        self._accepted = 0

    @property
    def queued(self) -> bool:
        """Whether any destination waits for its blocks."""
        return bool(self._queue)

    @property
    def queue(self) -> Iterable[S]:
        """The destinations that wait for blocks."""
        return self._queue

    @property
    def held(self) -> Iterable[S]:
        """The destinations that hold their blocks and wait for their KV."""
        return self._held.values()

    def accept(self, sequence: S) -> None:
        """Queue a destination."""
        sequence.accepted = self._accepted
        self._accepted += 1
        self._queue.append(sequence)

    def untried(self) -> S | None:
        """The front of the queue, unless it was tried already and nothing has changed since."""
        if not self._queue or self._queue[0].tried == self.generation:
            return None
        return self._queue[0]

    def hold(self) -> None:
        """The front of the queue has got its blocks."""
        sequence = self._queue.popleft()
        self._held[sequence.ordinal] = sequence

    def take(self, ordinal: int) -> S:
        """A held destination leaves: its KV has arrived, or never will."""
        return self._held.pop(ordinal)
