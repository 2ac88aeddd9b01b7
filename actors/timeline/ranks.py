"""The tracks of one rank: its passes, and counters of what it holds."""

from __future__ import annotations

from collections.abc import Iterable

from actors.timeline.events import EventWriter, Process, Thread
from messages.gauges import Gauges


class RankTrack:
    """A rank of a worker.

    sglang: whether it runs SGLang, which counts cached blocks as used and retracts requests instead of preempting them.
    holds: whether it holds KV for hand-offs.

    Attributes:
        emitting: requests that emit a token in every pass. passes: so far.
    """

    def __init__(self, writer: EventWriter, process: Process, thread: Thread, *, sglang: bool, holds: bool) -> None:
        self.thread = thread
        self.emitting: set[int] = set()
        self.passes = 0
        self._writer = writer
        self._sglang = sglang
        self._holds = holds
        self._requests = writer.counter(process, f"{thread.name} requests")
        self._blocks = writer.counter(process, f"{thread.name} KV blocks")
        self._running = 0
        self._waiting = 0
        self._held: set[int] = set()
        self._queue_changes: list[tuple[int, int]] = []
        """(time, change of those who wait), since the last pass that ended."""
        self._evicted = 0

    def expect(self, at_us: int, change: int) -> None:
        """So many more requests wait; where a pass is in flight, it is not known yet whom it has admitted."""
        self._queue_changes.append((at_us, change))

    def move(self, at_us: int, *, running: int = 0, waiting: int = 0, held: Iterable[int] = ()) -> None:
        """Requests were admitted, were preempted or ended: so many more run and wait, and the KV of these is held."""
        self.catch_up(at_us)
        if running or waiting:
            self._running += running
            self._waiting += waiting
            self._held.update(held)
            self._show_requests(at_us)

    def release(self, ordinal: int, at_us: int) -> None:
        """The KV of a request is not held any more, if it was."""
        self.catch_up(at_us)
        self._held.discard(ordinal)
        self._show_requests(at_us)

    def catch_up(self, at_us: float) -> None:
        """Count all who wait by then."""
        changes = self._queue_changes
        if not changes:
            return
        done = 0
        for change_us, change in changes:
            if change_us > at_us:
                break
            self._waiting += change
            self._show_requests(change_us)
            done += 1
        del changes[:done]

    def hold(self, at_us: int, gauges: Gauges | None, evicting_us: int) -> None:
        """Show what of the cache is in use from then on; what was evicted for it, at a time of its own."""
        if gauges is None:
            return
        self._show_blocks(at_us, gauges.active_blocks, gauges.inactive_blocks)
        evicted = gauges.evicted_blocks - self._evicted
        if evicted:
            self._evicted = gauges.evicted_blocks
            self._writer.instant(self.thread, "eviction", evicting_us, f'"blocks":{evicted}')

    def vanish(self, at_us: int) -> None:
        """The worker is gone, and its cache with it."""
        self._show_blocks(at_us, 0, 0)

    def _show_blocks(self, at_us: int, used: int, cached: int) -> None:
        unused = f',"cached":{cached}' if not self._sglang else ""
        self._writer.set(self._blocks, at_us, f'"used":{used}{unused}')

    def preempt(self, at_us: int, names: list[str]) -> None:
        """These requests, by their quoted names, had to give up their blocks."""
        name = "retraction" if self._sglang else "preemption"
        self._writer.instant(self.thread, name, at_us, f'"requests":[{",".join(names)}]')

    def _show_requests(self, at_us: int) -> None:
        held = f',"held":{len(self._held)}' if self._holds else ""
        self._writer.set(self._requests, at_us, f'"running":{self._running},"waiting":{self._waiting}{held}')
