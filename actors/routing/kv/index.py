"""The block index: which blocks each rank has in its device cache, as far as KV events have told."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from actors.routing.kv.chains import leading_blocks
from messages.kv import BlocksStored, EvictionForecast, KvEvent
from messages.requests import Span


class _Observed(msgspec.Struct, frozen=True, gc=False):
    """Events of a pass that ended at `at_ms`."""

    at_ms: float
    events: Sequence[KvEvent]


class _Foretold(msgspec.Struct):
    """A run whose evictions are applied as its passes end; `open` until the run has ended.

    passes: how many of its passes count. applied: blocks evicted so far. part: blocks evicted of the next eviction.
    """

    forecast: EvictionForecast
    passes: int
    open: bool = True
    applied: int = 0
    next_eviction: int = 0
    part: int = 0


class BlockIndex:
    """Sets of block identities per rank, kept as stretches of lines.

    lag_ms: what is observed at t counts from t + lag_ms on.
    """

    def __init__(self, lag_ms: float) -> None:
        self._lag_ms = lag_ms
        self._lines: list[int] = []
        """First identities of all lines that any prompt had, ascending."""
        self._known: set[int] = set()
        self._extents: dict[int, dict[int, int]] = {}
        self._islands: dict[tuple[int, int], list[Span]] = {}
        """(line, rank) -> stretches that the rank has behind a gap, ascending."""
        self._pending: dict[int, deque[_Observed | _Foretold]] = {}

    def learn(self, spans: Sequence[Span]) -> None:
        """Note the lines of a prompt; must come before any event about them."""
        for line, _ in spans:
            if line not in self._known:
                self._known.add(line)
                insort(self._lines, line)

    def observe(self, rank: int, passes: int, events: Sequence[KvEvent], now_ms: float) -> None:
        """A run of `passes` passes of a rank has ended and told its events."""
        pending = self._pending.setdefault(rank, deque())
        if pending:
            last = pending[-1]
            if isinstance(last, _Foretold) and last.open:
                last.open = False
                last.passes = passes
                # What the run evicted is known already.
                events = [event for event in events if isinstance(event, BlocksStored)]
        if events:
            pending.append(_Observed(now_ms, events))

    def foresee(self, rank: int, forecast: EvictionForecast) -> None:
        """A run of a rank begins, which evicts as it goes on."""
        self._pending.setdefault(rank, deque()).append(_Foretold(forecast, len(forecast.ends_ms)))

    def forget(self, rank: int) -> None:
        """Drop all that is known of a rank."""
        self._pending.pop(rank, None)
        for key in [key for key in self._islands if key[1] == rank]:
            del self._islands[key]
        for extents in self._extents.values():
            extents.pop(rank, None)

    def overlaps(self, chain: Sequence[Span], now_ms: float) -> dict[int, int]:
        """How many leading blocks of a chain each rank has now; ranks without any are left out."""
        for rank, pending in self._pending.items():
            if pending:
                self._apply_due(rank, pending, now_ms)
        return leading_blocks(self._extents, chain)

    def _apply_due(self, rank: int, pending: deque[_Observed | _Foretold], now_ms: float) -> None:
        lag_ms = self._lag_ms
        while pending:
            head = pending[0]
            if isinstance(head, _Observed):
                if head.at_ms + lag_ms > now_ms:
                    return
                for event in head.events:
                    change = self._store if isinstance(event, BlocksStored) else self._remove
                    for span in event.spans:
                        for line, start, end in self._split(span):
                            change(rank, line, start, end)
            elif not self._apply_forecast(rank, head, now_ms):
                return
            pending.popleft()

    def _apply_forecast(self, rank: int, run: _Foretold, now_ms: float) -> bool:
        """Evict what is due; returns whether the run is over and nothing of it is to come."""
        ends_ms, lag_ms = run.forecast.ends_ms, self._lag_ms
        if lag_ms:
            ended = bisect_right(ends_ms, now_ms, hi=run.passes, key=lambda end_ms: end_ms + lag_ms)
        else:
            ended = bisect_right(ends_ms, now_ms, hi=run.passes)
        if ended:
            rest = run.forecast.evicted_blocks[ended - 1] - run.applied
            run.applied += rest
            while rest > 0:
                blocks, span = run.forecast.evictions[run.next_eviction]
                taken = min(rest, blocks - run.part)
                if span is not None:
                    end = span[1] - run.part
                    for line, start, stop in self._split((end - taken, end)):
                        self._remove(rank, line, start, stop)
                rest -= taken
                run.part += taken
                if run.part == blocks:
                    run.next_eviction += 1
                    run.part = 0
        return not run.open and ended == run.passes

    def _split(self, span: Span) -> Iterator[tuple[int, int, int]]:
        """(line, start, end) of the parts of a span that belong to one line each."""
        start, end = span
        lines = self._lines
        if start < 0:
            return
        place = bisect_right(lines, start) - 1
        last = bisect_left(lines, end)
        if place + 1 == last:
            yield lines[place], start, end
            return
        for line, following in zip(islice(lines, place, last), [*lines[place + 1 : last], end], strict=True):
            yield line, max(line, start), following

    def _store(self, rank: int, line: int, start: int, end: int) -> None:
        extents = self._extents.setdefault(line, {})
        extent = extents.get(rank, line)
        if start > extent:
            islands = self._islands.setdefault((line, rank), [])
            islands[:] = _united(islands, (start, end))
            return
        extent = max(extent, end)
        if self._islands:
            islands = self._islands.get((line, rank), [])
            while islands and islands[0][0] <= extent:
                extent = max(extent, islands.pop(0)[1])
            if not islands:
                self._islands.pop((line, rank), None)
        extents[rank] = extent

    def _remove(self, rank: int, line: int, start: int, end: int) -> None:
        extents = self._extents.get(line, {})
        extent = extents.get(rank, line)
        if self._islands and (islands := self._islands.get((line, rank))):
            islands[:] = _without(islands, (start, end))
            if not islands:
                del self._islands[(line, rank)]
        if start >= extent:
            return
        if end < extent:
            islands = self._islands.setdefault((line, rank), [])
            islands[:] = _united(islands, (end, extent))
        if start == line:
            del extents[rank]
        else:
            extents[rank] = start


def _united(spans: Sequence[Span], added: Span) -> list[Span]:
    """Ascending, disjoint spans together with one more."""
    start, end = added
    touching = [span for span in spans if span[0] <= end and span[1] >= start]
    start = min([start, *(span[0] for span in touching)])
    end = max([end, *(span[1] for span in touching)])
    return sorted([span for span in spans if span not in touching] + [(start, end)])


def _without(spans: Sequence[Span], removed: Span) -> list[Span]:
    """Ascending, disjoint spans without what `removed` covers."""
    start, end = removed
    rest = [part for span in spans for part in ((span[0], min(span[1], start)), (max(span[0], end), span[1]))]
    return [span for span in rest if span[0] < span[1]]
