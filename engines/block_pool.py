"""The KV-block pool of one rank: prefix caching, reference counts, duplicates, least-recently-released eviction.

Blocks are handled in stretches: a `Copy` is a run of cached blocks that were computed together and have the same number
of references, so the cost of a prompt depends on how many stretches it has, not on how many blocks.
"""

from __future__ import annotations

from bisect import insort
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from operator import attrgetter

from messages.kv import BlocksRemoved, BlocksStored, Eviction, KvEvent
from messages.requests import Span


class Copy:
    """Cached blocks with the identities `start` to `end` - 1 of one line, all with the same references.

    `upper` is what was split off its end while somebody held both parts. `visible` is False for a duplicate.
    """

    __slots__ = ("end", "line", "references", "start", "upper", "visible")

    def __init__(self, line: int, start: int, end: int, references: int) -> None:
        self.line = line
        self.start = start
        self.end = end
        self.references = references
        self.upper: Copy | None = None
        self.visible = True


Held = tuple[Copy, int]
"""What a request holds of a copy: its blocks, and those split off it, up to this identity."""


class Match:
    """The longest cached prefix of a sequence of blocks, `active` of them referenced. Valid until the pool changes."""

    __slots__ = ("active", "blocks", "pieces")

    def __init__(self) -> None:
        self.pieces: list[Held] = []
        self.blocks = 0
        self.active = 0

    def shorten(self, most: int) -> None:
        """Keep at most `most` blocks."""
        while self.blocks > most:
            copy, end = self.pieces.pop()
            surplus = min(self.blocks - most, end - copy.start)
            self.blocks -= surplus
            if end - surplus > copy.start:
                self.pieces.append((copy, end - surplus))
        self.active = min(self.active, most)


NO_MATCH = Match()


class BlockPool:
    """`num_blocks` blocks, each free, private to one request, or cached under the identity of its content.

    Identities come in *lines*: ranges of integers of which each stands for a block and all before it, so that any
    stretch of blocks a prompt has of a line begins where the line begins. The first cached copy of an identity is the
    visible one; later copies (duplicates, computed by requests that could not see the first) wait behind it in order of
    age. Copies without a reference are *inactive*: they can be hit, and are evicted in the order of their release, the
    end of a sequence before its beginning.

    Attributes:
        active: blocks that requests hold. inactive: cached blocks without a reference. evicted: blocks so far.
    """

    def __init__(self, num_blocks: int, *, prefix_caching: bool, capture_events: bool = False) -> None:
        self.num_blocks = num_blocks
        self.prefix_caching = prefix_caching
        self.capture_events = capture_events
        self.active = 0
        self.inactive = 0
        self.evicted = 0
        self._lines: dict[int, list[Copy]] = {}
        """Visible copies of each line, ascending."""
        self._duplicates: dict[int, list[Copy]] = {}
        """Further copies of single blocks by identity, in order of age."""
        self._released: OrderedDict[Copy, None] = OrderedDict()
        self._next_private = 0
        self._events: list[KvEvent] = []
        self._event_count = 0

    @property
    def available(self) -> int:
        """Blocks that can be acquired: free or inactive."""
        return self.num_blocks - self.active

    @property
    def free(self) -> int:
        """Blocks that hold nothing."""
        return self.num_blocks - self.active - self.inactive

    def private_line(self, blocks: int) -> int:
        """Reserve a line of `blocks` identities that no other request has; returns the first."""
        self._next_private -= blocks
        return self._next_private

    def match(self, spans: Iterable[Span]) -> Match:
        """The longest cached prefix of the blocks in `spans`. Changes nothing."""
        found = Match()
        for start, end in spans:
            position = start
            for copy in self._lines.get(start, ()):
                if copy.start != position:
                    break
                position = min(copy.end, end)
                found.pieces.append((copy, position))
                if copy.references:
                    found.active += position - copy.start
                if position == end:
                    break
            found.blocks += position - start
            if position != end:
                break
        return found

    def acquire(self, prefix: Match, fresh: int) -> list[Held] | None:
        """Take a reference on the blocks of `prefix` and `fresh` blocks besides, evicting what that needs.

        Returns what is held of the prefix, or None, without any change, if the pool cannot provide the blocks.
        """
        shortage = fresh - self.free
        if shortage > 0:
            hits = sum(end - copy.start for copy, end in prefix.pieces if not copy.references)
            if shortage > self.inactive - hits:
                return None
        held: list[Held] = []
        for copy, end in prefix.pieces:
            if not copy.references:
                taken = self._reactivate(copy, end)
            elif end < copy.end:
                taken = self._split_held(copy, end)
            else:
                taken = copy
            taken.references += 1
            held.append((taken, end))
        if shortage > 0:
            self._evict(shortage)
        self.active += fresh
        return held

    def publish(self, held: list[Held], line: int, start: int, end: int, parent: int | None) -> None:
        """Turn private blocks of a request into cached ones, with the identities `start` to `end` - 1 of `line`.

        `held` is extended by them. `parent`: identity of the block before, for events.
        """
        copies = self._lines.setdefault(line, [])
        last = copies[-1] if copies else None
        if last is None or last.end <= start:
            if last is not None and last.end == start and last.references == 1 and held and held[-1][0] is last:
                last.end = end
                held[-1] = (last, end)
            else:
                copies.append(Copy(line, start, end, references=1))
                held.append((copies[-1], end))
            self._stored(parent, start, end)
            return
        # Some of it may be visible already: those blocks become duplicates, single ones, which nobody stores anew.
        fresh = start
        for identity in range(start, end):
            if any(copy.start <= identity < copy.end for copy in copies):
                self._publish_gap(held, line, fresh, identity, parent if fresh == start else fresh - 1)
                fresh = identity + 1
                duplicate = Copy(line, identity, identity + 1, references=1)
                duplicate.visible = False
                self._duplicates.setdefault(identity, []).append(duplicate)
                held.append((duplicate, identity + 1))
        self._publish_gap(held, line, fresh, end, parent if fresh == start else fresh - 1)

    def _publish_gap(self, held: list[Held], line: int, start: int, end: int, parent: int | None) -> None:
        if start < end:
            copy = Copy(line, start, end, references=1)
            self._insert(copy)
            held.append((copy, end))
            self._stored(parent, start, end)

    def release(self, held: Sequence[Held], private: int, tail: tuple[int, int, int] | None = None) -> None:
        """Give back `private` private blocks and a reference on everything in `held`, from the last to the first.

        tail: (line, start, end) of blocks after `held` that were private until now and stay cached.
        """
        self.active -= private
        if tail is not None:
            line, start, end = tail
            copy = Copy(line, start, end, references=0)
            self._insert(copy)
            self._deactivate(copy)
        for copy, end in reversed(held):
            if copy.end == end:
                copy.references -= 1
                if not copy.references:
                    self._deactivate(copy)
                continue
            parts = [copy]
            while parts[-1].end < end:
                upper = parts[-1].upper
                assert upper is not None
                parts.append(upper)
            for part in reversed(parts):
                part.references -= 1
                if not part.references:
                    self._deactivate(part)

    def next_evictions(self, blocks: int) -> list[Eviction]:
        """What acquiring evicts next, up to `blocks` blocks, if nothing is released or taken into use meanwhile."""
        evictions: list[Eviction] = []
        copies: dict[int, int] = {}
        for copy in self._released:
            if blocks <= 0:
                break
            start, end = max(copy.start, copy.end - blocks), copy.end
            blocks -= end - start
            if start < 0:
                evictions.append((end - start, None))
            elif not self._duplicates:
                evictions.append((end - start, (start, end)))
            else:
                for identity in range(end - 1, start - 1, -1):
                    left = copies.get(identity, 1 + len(self._duplicates.get(identity, ()))) - 1
                    copies[identity] = left
                    evictions.append((1, None if left else (identity, identity + 1)))
        return evictions

    def take_events(self) -> tuple[KvEvent, ...]:
        """The events since the last call, in order."""
        events = tuple(self._events)
        self._events.clear()
        return events

    def _insert(self, copy: Copy) -> None:
        """Put a copy among the visible ones of its line."""
        insort(self._lines.setdefault(copy.line, []), copy, key=_start)

    def _split_held(self, copy: Copy, border: int) -> Copy:
        """Split a referenced copy. It keeps the lower part, from which its holders find the upper one."""
        upper = Copy(copy.line, border, copy.end, copy.references)
        upper.upper = copy.upper
        copy.end = border
        copy.upper = upper
        self._insert(upper)
        return copy

    def _reactivate(self, copy: Copy, border: int) -> Copy:
        """Take an inactive copy, or its part below `border`, into use."""
        if border < copy.end:
            # The upper part keeps its place in the order of release.
            lower = Copy(copy.line, copy.start, border, references=0)
            copy.start = border
            self._insert(lower)
            copy = lower
        else:
            del self._released[copy]
        self.active += copy.end - copy.start
        self.inactive -= copy.end - copy.start
        return copy

    def _deactivate(self, copy: Copy) -> None:
        copy.upper = None
        self._released[copy] = None
        self.active -= copy.end - copy.start
        self.inactive += copy.end - copy.start

    def _evict(self, count: int) -> None:
        self.inactive -= count
        self.evicted += count
        gone: list[Span] = []
        while count:
            copy = next(iter(self._released))
            start, end = max(copy.start, copy.end - count), copy.end
            count -= end - start
            if start > copy.start:
                copy.end = start
            else:
                del self._released[copy]
                self._remove(copy)
            if copy.visible and (self._duplicates or self.capture_events):
                promoted = [identity for identity in range(end - 1, start - 1, -1) if identity in self._duplicates]
                for identity in promoted:
                    self._promote(identity)
                    gone.append((identity + 1, end))
                    end = identity
                gone.append((start, end))
        if self.capture_events:
            repeatable = tuple([span for span in gone if 0 <= span[0] < span[1]])
            if repeatable:
                self._events.append(BlocksRemoved(self._event_count, repeatable))
                self._event_count += 1

    def _remove(self, copy: Copy) -> None:
        siblings = self._lines if copy.visible else self._duplicates
        key = copy.line if copy.visible else copy.start
        siblings[key].remove(copy)
        if not siblings[key]:
            del siblings[key]

    def _promote(self, identity: int) -> None:
        """Make the oldest duplicate of an evicted block visible."""
        oldest = self._duplicates[identity][0]
        self._remove(oldest)
        oldest.visible = True
        self._insert(oldest)

    def _stored(self, parent: int | None, start: int, end: int) -> None:
        if self.capture_events and start >= 0:
            self._events.append(BlocksStored(self._event_count, parent, ((start, end),)))
            self._event_count += 1


_start = attrgetter("start")
