"""Events of Chrome's trace event format, written as they become known.

Times are simulated time in whole microseconds, so that a viewer, which turns them into integers, finds the end of one
slice exactly where the next begins. Arguments of events come as the inside of a JSON object. Events are not sorted;
those of one track that have the same time come in the order in which they are to be read.
"""

from __future__ import annotations

import math
from typing import TextIO

import msgspec

_LINES_AT_ONCE = 4096
_TIDS_PER_PROCESS = 1_000_000


def microseconds(time_ms: float) -> int:
    """A simulated time as events have it."""
    return round(time_ms * 1000.0)


def quoted(text: str) -> str:
    """A string of JSON."""
    return msgspec.json.encode(text).decode()


class Process:
    """A group of tracks. `rank`: where it stands among the others."""

    __slots__ = ("declared", "name", "pid", "rank")

    def __init__(self, pid: int, name: str, rank: int) -> None:
        self.pid = pid
        self.name = name
        self.rank = rank
        self.declared = False

    @property
    def first_tid(self) -> int:
        """The first number for its threads. That of a process is none: viewers take it for a main thread."""
        return self.pid * _TIDS_PER_PROCESS


class Thread:
    """A track of slices and instants. `tid` is that of no other thread of any process, and orders those of its own."""

    __slots__ = ("declared", "name", "process", "tid")

    def __init__(self, process: Process, tid: int, name: str) -> None:
        self.process = process
        self.tid = tid
        self.name = name
        self.declared = False


class Counter:
    """A group of series that change together, with the values they have last been given."""

    __slots__ = ("at_us", "head", "process", "shown", "values")

    def __init__(self, process: Process, name: str) -> None:
        self.process = process
        self.head = f'{{"ph":"C","pid":{process.pid},"name":{quoted(name)},"ts":'
        self.at_us = -1
        self.values = ""
        self.shown = ""


class EventWriter:
    """Writes the events of one file that lie in a stretch of time; slices that reach beyond are clipped.

    from_us, to_us: the stretch, both ends included.
    """

    def __init__(self, file: TextIO, from_us: int = 0, to_us: float = math.inf) -> None:
        self._file = file
        self._from_us = from_us
        self._to_us = to_us
        self._lines: list[str] = []
        self._separator = ""
        self._counters: list[Counter] = []
        file.write('{"traceEvents":[\n')

    def slice(self, thread: Thread, name: str, start_us: int, end_us: int, args: str) -> None:
        """Something that took place on a thread, between the end of the slice before and the start of the next."""
        if not self.overlaps(start_us, end_us):
            return
        if start_us < self._from_us or end_us > self._to_us:
            start_us, end_us, args = self._clip(start_us, end_us, args)
        process = self._declare(thread)
        self._write(
            f'{{"ph":"X","pid":{process.pid},"tid":{thread.tid},"ts":{start_us},"dur":{end_us - start_us},'
            f'"name":"{name}","cat":"pass","args":{{{args}}}}}'
        )

    def instant(self, thread: Thread, name: str, at_us: int, args: str) -> None:
        """Something that happened at once."""
        if self._from_us <= at_us <= self._to_us:
            process = self._declare(thread)
            self._write(
                f'{{"ph":"i","s":"t","pid":{process.pid},"tid":{thread.tid},"ts":{at_us},'
                f'"name":{quoted(name)},"args":{{{args}}}}}'
            )

    def counter(self, process: Process, name: str) -> Counter:
        """A new group of series; `set` gives it values."""
        counter = Counter(process, name)
        self._counters.append(counter)
        return counter

    def set(self, counter: Counter, at_us: int, values: str) -> None:
        """Series have these values from then on. Times of a counter ascend; of equal ones the last counts."""
        if at_us != counter.at_us:
            # Of what comes before the stretch of time, only the last is shown: as the values at its beginning.
            if counter.values != counter.shown and at_us > self._from_us:
                self._show(counter)
            counter.at_us = at_us
        counter.values = values

    def flow(self, name: str, flow_id: int, start: tuple[Thread, int], end: tuple[Thread, int]) -> None:
        """An arrow from a moment within a slice to a moment within another, both of which have been written."""
        if self._from_us <= start[1] and end[1] < self._to_us:
            for phase, (thread, at_us) in (('"s"', start), ('"f","bp":"e"', end)):
                process = self._declare(thread)
                self._write(
                    f'{{"ph":{phase},"id":{flow_id},"pid":{process.pid},"tid":{thread.tid},"ts":{at_us},'
                    f'"name":"{name}","cat":"{name}"}}'
                )

    def nested(self, thread: Thread, track_id: int, spans: list[tuple[str, int, int, str]]) -> None:
        """A track of its own: (quoted name, start, end, args) of a whole, and then of its parts in order."""
        _, start_us, end_us, _ = spans[0]
        if not self.overlaps(start_us, end_us):
            return
        process = self._declare(thread)
        head = f'"cat":"request","id":{track_id},"pid":{process.pid},"tid":{thread.tid},"ts":'
        lines = []
        for name, start_us, end_us, args in spans:
            if self.overlaps(start_us, end_us):
                if start_us < self._from_us or end_us > self._to_us:
                    start_us, end_us, args = self._clip(start_us, end_us, args)
                lines.append(f'{{"ph":"b",{head}{start_us},"name":{name},"args":{{{args}}}}}')
                lines.append(f'{{"ph":"e",{head}{end_us},"name":{name}}}')
        # The whole ends behind all its parts.
        lines.append(lines.pop(1))
        for line in lines:
            self._write(line)

    def overlaps(self, start_us: int, end_us: int) -> bool:
        """Whether any of it lies in the stretch of time; something without a length may lie at its ends."""
        if start_us == end_us:
            return self._from_us <= start_us <= self._to_us
        return start_us < self._to_us and end_us > self._from_us

    def finish(self, end_us: int, other: dict[str, float | str | None]) -> None:
        """Write what is left, and `other` data about the file. All series go on until the end."""
        if end_us >= self._from_us:
            last_us = int(min(end_us, self._to_us))
            for counter in self._counters:
                self._close(counter, last_us)
        self._flush()
        about = msgspec.json.encode(other).decode()
        self._file.write(f'\n],"displayTimeUnit":"ms","otherData":{about}}}\n')

    def _close(self, counter: Counter, at_us: int) -> None:
        if counter.at_us > at_us:
            # It went on changing after the stretch of time.
            counter.at_us, counter.values = at_us, counter.shown
        else:
            self.set(counter, at_us, counter.values)
        if counter.values:
            self._show(counter)

    def _show(self, counter: Counter) -> None:
        if counter.at_us > self._to_us:
            return
        at_us = max(counter.at_us, self._from_us)
        if not counter.process.declared:
            self._declare_process(counter.process)
        self._write(f'{counter.head}{at_us},"args":{{{counter.values}}}}}')
        counter.shown = counter.values

    def _clip(self, start_us: int, end_us: int, args: str) -> tuple[int, int, str]:
        whole = f'"whole_start_ms":{start_us / 1000.0},"whole_end_ms":{end_us / 1000.0}'
        args = f"{args},{whole}" if args else whole
        # An end that is not finite is never smaller.
        return max(start_us, self._from_us), int(min(end_us, self._to_us)), args

    def _declare(self, thread: Thread) -> Process:
        process = thread.process
        if not thread.declared:
            thread.declared = True
            if not process.declared:
                self._declare_process(process)
            self._metadata(process, "thread_name", f'"name":{quoted(thread.name)}', thread.tid)
            self._metadata(process, "thread_sort_index", f'"sort_index":{thread.tid}', thread.tid)
        return process

    def _declare_process(self, process: Process) -> None:
        process.declared = True
        self._metadata(process, "process_name", f'"name":{quoted(process.name)}')
        self._metadata(process, "process_sort_index", f'"sort_index":{process.rank}')

    def _metadata(self, process: Process, name: str, args: str, tid: int | None = None) -> None:
        of_thread = "" if tid is None else f'"tid":{tid},'
        self._write(f'{{"ph":"M","pid":{process.pid},{of_thread}"name":"{name}","args":{{{args}}}}}')

    def _write(self, line: str) -> None:
        lines = self._lines
        lines.append(line)
        if len(lines) >= _LINES_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        if self._lines:
            self._file.write(self._separator + ",\n".join(self._lines))
            self._separator = ",\n"
            self._lines.clear()
