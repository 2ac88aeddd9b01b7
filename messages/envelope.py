"""What wraps a message on its way: the stamp of the coordinator and the reply of an actor."""

from __future__ import annotations

import enum
from typing import Any

import msgspec


class Phase(enum.IntEnum):
    """The phases of one round at one timestamp, in the order in which they run.

    Transfers and hand-off happen in disaggregated clusters only. START is that of decode and aggregated workers. RETIRE
    removes workers that have drained. TELEMETRY takes samples, which changes nothing.
    """

    COMPLETIONS = 0
    WORKER_READY = 1
    TRANSFERS = 2
    HANDOFF = 3
    ADMISSION = 4
    START_PREFILL = 5
    START = 6
    RETIRE = 7
    TELEMETRY = 8
    SCALING = 9


class Outgoing(msgspec.Struct, frozen=True, gc=False):
    """A message as an actor hands it to the coordinator, not yet stamped.

    `at_ms` None means now, in the phase that is running: the message joins the cascade of the one
    that caused it. Otherwise it is released at `at_ms` in `phase`, among its equals by `key`; where that is now and
    the phase that is running, after everything that is due before it.
    """

    receiver: str
    message: Any
    at_ms: float | None = None
    phase: Phase = Phase.COMPLETIONS
    key: int = 0


class Envelope(msgspec.Struct, frozen=True, gc=False):
    """A stamped message. `seq_no` counts every send of a run, `round` the rounds of a timestamp from 1."""

    at_ms: float
    round: int
    phase: Phase
    key: int
    seq_no: int
    sender: str
    receiver: str
    message: Any


class Reply(msgspec.Struct, frozen=True, gc=False):
    """What handling one message came to.

    outbox: messages to send, in order. For a start of a pass, an empty one means that it had no effect.
    offering: whether the actor now holds a standing offer to start a pass.
    revoke: the latest envelope due later that the actor sent to itself must not be released any more.
    exhausted: how many requests an actor holds that would go on for ever without any progress; the run must fail.
    in_flight, arrived: requests that have not ended, and requests so far, where the actor counts them.
    live_workers: provisioned workers, where the actor counts them.
    new_workers: ids of workers of the actor's pool that are to be started before anything is sent.
    result: the answer to a question of the system's own.
    """

    outbox: tuple[Outgoing, ...] | list[Outgoing] = ()
    offering: bool = False
    revoke: bool = False
    exhausted: int | None = None
    in_flight: int | None = None
    arrived: int = 0
    live_workers: int | None = None
    new_workers: tuple[int, ...] = ()
    result: Any = None


NOTHING = Reply()
"""The reply of a handler that changes nothing outside its actor."""
