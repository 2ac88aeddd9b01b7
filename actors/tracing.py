"""The message log of a run as JSON lines, written through structlog."""

from __future__ import annotations

from typing import Any, TextIO

import msgspec
import structlog

from actors.emission import EmittingRequests
from actors.names import worker_id
from messages.envelope import Envelope
from messages.passes import PassCompleted, PassOutputs
from messages.requests import Dispatch, PlaceRequest, RequestArrived, RequestRouted


class _Lines:
    """What structlog hands its lines to. Unlike its own writers it leaves it to the file when they reach the disk."""

    def __init__(self, file: TextIO) -> None:
        self._write = file.write

    def info(self, line: str) -> None:
        self._write(f"{line}\n")


class MessageLog:
    """Logs every delivered message: when, from whom, to whom, of what kind, and about which requests.

    Called by the coordinator in the order of delivery. `passes` says how many passes a message about a run of
    merged passes stands for.
    """

    def __init__(self, file: TextIO) -> None:
        self._request_ids: dict[int, str] = {}
        self._emitting = EmittingRequests()
        self._outputs: PassOutputs | None = None
        self._emitted: tuple[int, ...] = ()
        encode = msgspec.json.Encoder().encode
        self._logger = structlog.wrap_logger(
            _Lines(file),
            processors=[structlog.processors.JSONRenderer(serializer=lambda entry, **_: encode(entry).decode())],
            wrapper_class=structlog.BoundLogger,
        ).bind()

    def __call__(self, envelope: Envelope) -> None:
        message = envelope.message
        if isinstance(message, RequestArrived):
            self._request_ids[message.ordinal] = message.request_id
        self._logger.info(
            None,
            at_ms=envelope.at_ms,
            round=envelope.round,
            phase=envelope.phase.name.lower(),
            seq_no=envelope.seq_no,
            sender=envelope.sender,
            receiver=envelope.receiver,
            kind=type(message).__name__,
            request_ids=[self._request_ids[ordinal] for ordinal in self._ordinals(message)],
            worker=_worker(envelope),
            passes=_passes(message),
        )

    def _ordinals(self, message: Any) -> list[int]:
        """The requests that a message is about, each once."""
        if isinstance(message, PassOutputs):
            if message is not self._outputs:
                # The same outputs go to several actors, one after the other.
                self._outputs, self._emitted = message, self._emitting.update(message)
            named = [admission.ordinal for admission in message.admissions]
            named += self._emitted
            named += [terminal.ordinal for terminal in message.terminals]
            return list(dict.fromkeys(named))
        if isinstance(message, PlaceRequest | Dispatch):
            return [message.request.ordinal]
        if isinstance(message, RequestArrived | RequestRouted):
            return [message.ordinal]
        return []


def _worker(envelope: Envelope) -> int | None:
    """The worker that a message names, comes from or goes to."""
    named: int | None = getattr(envelope.message, "worker_id", None)
    return named if named is not None else worker_id(envelope.receiver)


def _passes(message: Any) -> int | None:
    if isinstance(message, PassCompleted):
        return message.passes
    if isinstance(message, PassOutputs):
        return len(message.ends_ms)
    return None
