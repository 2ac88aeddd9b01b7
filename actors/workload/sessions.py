"""The session driver: which turn is released when, in open and closed loop."""

from __future__ import annotations

import heapq
import math

import msgspec

from actors.workload.source import Turn, Workload
from messages.errors import ReplayError
from messages.requests import Request, Status


class Release(msgspec.Struct, frozen=True, gc=False):
    """A turn that became a request, whose `input_tokens` count the whole prompt, history included."""

    request: Request
    turn: Turn
    arrival_time_ms: float


class SessionDriver:
    """Runs the sessions of a workload; a flat list is one of sessions of a single turn.

    Open loop: every session starts at its first arrival. Closed loop: `max_in_flight` sessions are active at once, from
    time 0, and the end of one, at whatever time, lets the next one start.
    """

    def __init__(self, workload: Workload) -> None:
        self._sessions = workload.sessions
        self._prompts = workload.prompts
        self._closed_loop = workload.max_in_flight is not None
        if workload.max_in_flight is None:
            self._pending = len(self._sessions)
            self._ready = [(session.first_arrival_ms, index, 0) for index, session in enumerate(self._sessions)]
            heapq.heapify(self._ready)
        else:
            self._pending = min(workload.max_in_flight, len(self._sessions))
            self._ready = [(0.0, index, 0) for index in range(self._pending)]
        self._in_flight: dict[int, tuple[int, int]] = {}
        self._next_ordinal = 0

    @property
    def in_flight(self) -> int:
        """Requests released and not ended."""
        return len(self._in_flight)

    def next_ready_ms(self) -> float | None:
        """Return when the next turn may be released; None while every one waits for another's end."""
        return self._ready[0][0] if self._ready else None

    def release(self, now_ms: float) -> list[Release]:
        """Turn everything ready by `now_ms` into requests, by ready time, session and turn."""
        released: list[Release] = []
        while self._ready and self._ready[0][0] <= now_ms:
            ready_ms, session, index = heapq.heappop(self._ready)
            turn = self._sessions[session].turns[index]
            input_length, spans = self._prompts.resolve(session, index)
            request = Request(self._next_ordinal, input_length, turn.output_length, spans, turn.dp_rank, turn.routing)
            self._in_flight[request.ordinal] = (session, index)
            self._next_ordinal += 1
            released.append(Release(request, turn, now_ms if self._closed_loop else ready_ms))
        return released

    def ended(self, ordinal: int, now_ms: float, status: Status) -> None:
        """A request ended: its session goes on after the think time, or, failed or finished, makes room."""
        session, index = self._in_flight.pop(ordinal)
        turns = self._sessions[session].turns
        following = index + 1
        if status is not Status.FAILED and following < len(turns):
            if status is Status.COMPLETED:
                self._prompts.completed(session)
            self._push(now_ms + turns[following].delay_ms, session, following)
            return
        self._prompts.closed(session)
        if self._pending < len(self._sessions):
            self._push(now_ms, self._pending, 0)
            self._pending += 1

    def _push(self, ready_ms: float, session: int, turn: int) -> None:
        if not math.isfinite(ready_ms):
            raise ReplayError(f"turn {turn} of session {session} would be ready at a time beyond the range of numbers")
        heapq.heappush(self._ready, (ready_ms, session, turn))
