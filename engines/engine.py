"""What a worker actor expects of the engine it runs."""

from __future__ import annotations

import enum
from array import array
from typing import Protocol

import msgspec
import numpy as np
from numpy.typing import NDArray

from messages.gauges import Gauges
from messages.kv import Eviction, KvEvent
from messages.passes import Admission, ForwardPassMetrics, Terminal
from messages.requests import Request


class Role(enum.Enum):
    """What a rank does of a request's life: all of it, its prompt, or its output."""

    AGGREGATED = "aggregated"
    PREFILL = "prefill"
    DECODE = "decode"


class EngineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """How an engine runs, besides what the spec says of its scheduler.

    merge_passes: stand for runs of identical decode passes with one `Pass`.
    horizon_ms: runs end at the last boundary that is not later; None for no limit.
    strict: leave a request that can never run in the queue instead of rejecting it.
    role: what the rank does of a request's life.
    worker_id, dp_rank, dp_size: which rank this is, of how many behind the same barrier.
    capture_kv_events, capture_metrics: produce KV events, forward-pass rows.
    show_first_tokens: somebody acts on first tokens, so a pass that emits some must end by itself.
    """

    merge_passes: bool = True
    horizon_ms: float | None = None
    strict: bool = False
    role: Role = Role.AGGREGATED
    worker_id: int = 0
    dp_rank: int = 0
    dp_size: int = 1
    capture_kv_events: bool = False
    capture_metrics: bool = False
    show_first_tokens: bool = False


class PlannedEvictions(msgspec.Struct, frozen=True, gc=False):
    """What a rank evicts in the passes of a run; the fields are those of `messages.kv.EvictionForecast`."""

    dp_rank: int
    evicted_blocks: array[int]
    evictions: tuple[Eviction, ...]


class Pass(msgspec.Struct, frozen=True, gc=False):
    """A pass of a logical worker as decided at its start, or a run of identical decode passes.

    ends_ms: the end of each pass, ascending; the outputs of all become visible at the last one.
    has_effect: False for an attempt that changed nothing and takes no time.
    cut_on_submit: a request that arrives meanwhile can change the next pass, so the run must end before it.
    exhausted: a rank would go on for ever without any output; the run must fail.
    out_of_attempts: so must it where a rank has attempted too many passes without effect.
    evictions: what ranks evict in the passes of a run, where KV events are captured.
    """

    ends_ms: array[float]
    has_effect: bool = True
    cut_on_submit: bool = False
    exhausted: bool = False
    out_of_attempts: bool = False
    evictions: tuple[PlannedEvictions, ...] = ()


class RankPass(msgspec.Struct, frozen=True, gc=False):
    """What one rank does next: one pass, or a run of identical decode passes, or one after the other.

    end_ms: the end of a single pass, if no other rank takes longer. steps_ms: the durations of the passes of
        a run; `end_ms` has no meaning then. then_ms: the durations of the passes of a run that follows the single pass,
        if the rank is the only one that takes part.
    has_effect, cut_on_submit, exhausted, out_of_attempts: see `Pass`.
    evictions: what the passes of a run evict, where KV events are captured.
    prefilled, worked: whether the (single) pass computes prompt tokens, or anything at all.
    retry: this was an attempt without effect, and the next one at the same time can turn out differently.
    """

    end_ms: float
    steps_ms: NDArray[np.float64] | None = None
    then_ms: NDArray[np.float64] | None = None
    has_effect: bool = True
    cut_on_submit: bool = False
    exhausted: bool = False
    out_of_attempts: bool = False
    evictions: PlannedEvictions | None = None
    prefilled: bool = False
    worked: bool = True
    retry: bool = False


class RankOutputs(msgspec.Struct, frozen=True, gc=False):
    """What ended passes of one rank produced; the fields are those of `messages.passes.PassOutputs`."""

    dp_rank: int = 0
    resumed: tuple[int, ...] = ()
    paused: tuple[int, ...] = ()
    bursts: tuple[tuple[int, int], ...] = ()
    decode_forwards: int = 0
    accepted_tokens: int = 0
    first_tokens: tuple[int, ...] = ()
    terminals: tuple[Terminal, ...] = ()
    signals: tuple[int, ...] = ()
    admissions: tuple[Admission, ...] = ()
    committed_prefill_tokens: int = 0
    preempted: tuple[int, ...] = ()
    kv_events: tuple[KvEvent, ...] = ()
    metrics: ForwardPassMetrics | None = None
    cache_hit_tokens: int = 0
    cache_total_tokens: int = 0


class RankScheduler(Protocol):
    """One rank: its queues, its cache, its passes. Knows no clock: `now_ms` is told.

    A pass is formed by `begin_pass` and ended by `end_pass`; in between only `group_formed` and then `submit` and
    `gauges` may be called.
    """

    @property
    def has_work(self) -> bool:
        """Whether any request is running or waiting, or an attempt without any would still change something."""
        ...

    def submit(self, request: Request) -> None:
        """Put a request at the end of the waiting queue."""
        ...

    def begin_pass(self, now_ms: float, wave: int) -> RankPass:
        """Form the next pass, plan the next run, or both. `wave` counts the group passes since the worker was idle.

        A single pass decides everything now. A run decides nothing yet: how many of its passes take place is only
        known at its end.
        """
        ...

    def group_formed(self, *, prefilled: bool, worked: bool) -> None:
        """All ranks of the worker have formed a single pass; the flags are those of `RankPass`, of any rank."""
        ...

    def end_pass(self, passes: int) -> RankOutputs:
        """Finish the first `passes` passes of what was begun; the rest never happens."""
        ...

    def gauges(self) -> Gauges:
        """What the rank holds. Of a run under way the first pass counts as formed, where rows are captured."""
        ...


class Reservation(msgspec.Struct, frozen=True, gc=False):
    """A destination that got its blocks; `fresh_tokens` is the room for content that the rank does not have."""

    ordinal: int
    fresh_tokens: int


class HandoffRank(RankScheduler, Protocol):
    """A rank that takes part in hand-offs. While a pass is in flight only `reserve` and `gauges` may be called."""

    def abandon_head(self) -> RankOutputs | None:
        """Give up the first request that waits for room, if any does; it ends as failed."""
        ...


class SourceRank(HandoffRank, Protocol):
    """A rank that builds prompts and holds their KV (prefill role)."""

    @property
    def holds_sources(self) -> bool:
        """Whether it holds the KV of any request whose prompt was built here."""
        ...

    def release_source(self, ordinal: int) -> None:
        """Let go of the KV of a request whose prompt was built here, if it is held."""
        ...


class DestinationRank(HandoffRank, Protocol):
    """A rank that takes prompts over (decode role)."""

    @property
    def wants_pass_end(self) -> bool:
        """Whether the end of a pass can grant a reservation, so that runs are one pass long."""
        ...

    def reserve(self, request: Request) -> str | None:
        """Queue a destination. Returns why it can never be had, if so."""
        ...

    def try_reserve(self) -> Reservation | None:
        """Try the front of the queue of destinations once, if anything has changed since it was tried."""
        ...

    def activate(self, ordinal: int) -> None:
        """The KV of a reserved destination has arrived: its request may run."""
        ...

    def cancel(self, ordinal: int) -> None:
        """Let go of a reserved destination whose KV will never arrive."""
        ...


class Engine(Protocol):
    """The ranks of one logical worker, as the worker actor sees them."""

    @property
    def has_work(self) -> bool:
        """Whether any request is running or waiting on any rank."""
        ...

    @property
    def holds_requests(self) -> bool:
        """Whether any rank has work, or holds KV of a request that is over."""
        ...

    def run_until(self, at_ms: float | None) -> None:
        """Have runs from now on end at the last boundary that is not later than that, or at their first."""
        ...

    def submit(self, dp_rank: int, request: Request) -> None:
        """Put a request at the end of a rank's waiting queue."""
        ...

    def begin_pass(self, now_ms: float) -> Pass:
        """Form the next pass of all ranks that have work."""
        ...

    def end_pass(self, passes: int) -> tuple[RankOutputs, ...]:
        """Finish the first `passes` passes of the current run; outputs of the ranks that took part, in rank order."""
        ...

    def gauges(self, dp_rank: int) -> Gauges:
        """What a rank holds; in the middle of a pass, with all that was decided at its start."""
        ...
