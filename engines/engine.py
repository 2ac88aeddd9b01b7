"""What a worker actor expects of the engine it runs."""

from __future__ import annotations

from array import array
from typing import Protocol

import msgspec

from messages.kv import KvEvent
from messages.passes import Admission, ForwardPassMetrics, Terminal
from messages.requests import Request


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine runs, besides what the spec says of its scheduler.

    merge_passes: stand for runs of identical decode passes with one `Pass`.
    horizon_ms: runs end at the last boundary that is not later; None for no limit.
    strict: leave a request that can never run in the queue instead of rejecting it.
    capture_kv_events, capture_metrics: produce KV events, forward-pass rows.
    """

    merge_passes: bool = True
    horizon_ms: float | None = None
    strict: bool = False
    capture_kv_events: bool = False
    capture_metrics: bool = False


class Pass(msgspec.Struct, frozen=True, gc=False):
    """A pass as decided at its start, or a run of identical decode passes.

    ends_ms: the end of each pass, ascending; the outputs of all become visible at the last one.
    has_effect: False for an attempt that changed nothing and takes no time.
    cut_on_submit: a request that arrives meanwhile can change the next pass, so the run must end before it.
    """

    ends_ms: array[float]
    has_effect: bool = True
    cut_on_submit: bool = False


class RankOutputs(msgspec.Struct, frozen=True, gc=False):
    """What ended passes of one rank produced; the fields are those of `messages.passes.PassOutputs`."""

    dp_rank: int = 0
    resumed: tuple[int, ...] = ()
    paused: tuple[int, ...] = ()
    first_tokens: tuple[int, ...] = ()
    terminals: tuple[Terminal, ...] = ()
    admissions: tuple[Admission, ...] = ()
    committed_prefill_tokens: int = 0
    preemptions: int = 0
    kv_events: tuple[KvEvent, ...] = ()
    metrics: ForwardPassMetrics | None = None


class Engine(Protocol):
    """The ranks of one logical worker. Knows no clock: `now_ms` is told.

    A pass is formed by `begin_pass` and ended by `end_pass`; in between only `submit` may be called.
    """

    @property
    def has_work(self) -> bool:
        """Whether any request is running or waiting."""
        ...

    def submit(self, dp_rank: int, request: Request) -> None:
        """Put a request at the end of a rank's waiting queue."""
        ...

    def begin_pass(self, now_ms: float) -> Pass:
        """Form the next pass: admissions, blocks, tokens and duration are decided now."""
        ...

    def end_pass(self, passes: int) -> tuple[RankOutputs, ...]:
        """Finish the first `passes` passes of the current run (1 where it is no run); the rest never happens."""
        ...
