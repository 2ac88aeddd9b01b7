"""What a request goes through, phase by phase."""

from __future__ import annotations

from typing import NamedTuple

from actors.timeline.events import EventWriter, Thread, microseconds, quoted
from messages.requests import RequestArrived


class Moment(NamedTuple):
    """A moment within a slice that has been written."""

    thread: Thread
    at_us: int


class RequestTrack:
    """A request from its arrival to its end. A phase lasts until the next begins; those of no length are left out.

    Attributes:
        tokens: output tokens so far. emits_from: if it emits now, the passes of its rank before it began to.
        running: whether it is in a running set. prefilling: whether it emits nothing yet since it was admitted.
        handed_over: whether the rank that it was handed over to has admitted it once. source: where its prompt was
            built. destination: name and rank of the worker that is to take it over.
    """

    __slots__ = (
        "_arrived",
        "_phases",
        "destination",
        "emits_from",
        "handed_over",
        "prefilling",
        "running",
        "source",
        "tokens",
    )

    def __init__(self, arrived: RequestArrived, first_phase: str) -> None:
        self._arrived = arrived
        self._phases: list[tuple[str, int, str]] = [(first_phase, microseconds(arrived.arrival_time_ms), "")]
        self.tokens = 0
        self.emits_from = 0
        self.running = False
        self.prefilling = False
        self.handed_over = False
        self.source: Moment | None = None
        self.destination: tuple[str, int] | None = None

    @property
    def name(self) -> str:
        """Its id, quoted."""
        return quoted(self._arrived.request_id)

    def enter(self, phase: str, at_us: int, args: str = "") -> None:
        """Begin the next phase."""
        self._phases.append((phase, at_us, args))

    def write(self, writer: EventWriter, thread: Thread, end_us: int, status: str, reason: str | None) -> None:
        """Write its track, when it is over."""
        arrived, phases = self._arrived, self._phases
        start_us = phases[0][1]
        if not writer.overlaps(start_us, end_us):
            return
        args = (
            f'"input_tokens":{arrived.input_length},"requested_output_tokens":{arrived.requested_output_length},'
            f'"output_tokens":{self.tokens},"status":"{status}"'
        )
        if reason is not None:
            args += f',"reason":{quoted(reason)}'
        if arrived.session_id is not None:
            args += f',"session":{quoted(arrived.session_id)},"turn":{arrived.turn_index or 0}'
        spans = [(self.name, start_us, end_us, args)]
        ends_us = [begun[1] for begun in phases[1:]]
        ends_us.append(end_us)
        for (phase, phase_us, details), next_us in zip(phases, ends_us, strict=True):
            if next_us > phase_us:
                spans.append((f'"{phase}"', phase_us, next_us, details))
        writer.nested(thread, arrived.ordinal, spans)
