"""Runs the points of a sweep that are not finished, each once, and keeps what came of them as soon as it is known."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from types import FrameType

import msgspec

from actors.sweep.executors import Executor
from actors.sweep.identity import program_digest
from actors.sweep.journal import Journal
from actors.sweep.points import Point, Sweep
from actors.sweep.worker import Task, TaskReply
from messages.errors import ReplayError
from messages.sweep import PointOutcome

LOST = "its worker process ended in the middle, twice (killed, or out of memory?)"

_POLL_SECONDS = 0.2
"""How long an interrupt may go unnoticed."""


def pending_points(sweep: Sweep, journal: Journal) -> list[Point]:
    """Return the points to run: of those with equal runs only the first, none whose run the journal has."""
    first: dict[str, Point] = {}
    for point in sweep.points:
        if point.digest not in journal.outcomes:
            first.setdefault(point.digest, point)
    return list(first.values())


class Execution:
    """One go at the pending points.

    Attributes:
        failures: digest -> outcome of runs that failed for a reason outside of them. The journal does not keep them.
    """

    def __init__(
        self, sweep: Sweep, journal: Journal, executor: Executor, finished: Callable[[PointOutcome], None]
    ) -> None:
        """finished: called with the outcome of every run that ends."""
        self.failures: dict[str, PointOutcome] = {}
        self._sweep = sweep
        self._journal = journal
        self._executor = executor
        self._finished = finished
        self._running: dict[Future[bytes], Point] = {}
        self._interrupted = False

    def run(self, points: list[Point]) -> None:
        """Run the points. Raises KeyboardInterrupt on Ctrl-C, with every finished run in the journal."""
        waiting = deque(points)
        suspects: list[Point] = []
        with _on_interrupt(self._interrupt):
            while waiting or suspects or self._running:
                if suspects and not self._running:
                    self._executor.restart()
                    # One of several that were running when a worker was lost may be what killed it. Each is tried
                    # again by itself, so that the next loss is its own.
                    for point in suspects:
                        self._run_alone(point)
                    suspects.clear()
                while waiting and not suspects and len(self._running) < self._executor.workers:
                    self._start(waiting.popleft())
                suspects += self._collect()

    def _run_alone(self, point: Point) -> None:
        self._start(point)
        while self._running:
            if self._collect():
                self._executor.restart()
                self._fail(point, PointOutcome(LOST))

    def _start(self, point: Point) -> None:
        task = Task(point.spec, os.path.abspath(self._sweep.base_dir), point.inputs, program_digest())
        self._running[self._executor.submit(task)] = point

    def _collect(self) -> list[Point]:
        """Wait a moment for running points and keep what has finished; return those whose worker was lost."""
        done, _ = wait(self._running, timeout=_POLL_SECONDS, return_when=FIRST_COMPLETED)
        lost = []
        for future in sorted(done, key=lambda future: self._running[future].index):
            point = self._running.pop(future)
            if future.exception() is not None:
                lost.append(point)
                continue
            reply = msgspec.json.decode(future.result(), type=TaskReply)
            (self._keep if reply.final else self._fail)(point, reply.outcome)
        if self._interrupted:
            raise KeyboardInterrupt
        return lost

    def _keep(self, point: Point, outcome: PointOutcome) -> None:
        try:
            self._journal.append(point.digest, outcome)
        except OSError as error:
            raise ReplayError(f"{self._journal.path}: cannot be written: {error.strerror or error}") from None
        self._finished(outcome)

    def _fail(self, point: Point, outcome: PointOutcome) -> None:
        self.failures[point.digest] = outcome
        self._finished(outcome)

    def _interrupt(self) -> None:
        self._interrupted = True


@contextlib.contextmanager
def _on_interrupt(note: Callable[[], None]) -> Iterator[None]:
    """Have the first Ctrl-C only noted, so that it cannot fall into the middle of a line of the journal."""

    def handle(signal_number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        note()

    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
