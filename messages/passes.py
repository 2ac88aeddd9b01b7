"""Passes of a worker: start, end, and what they produced."""

from __future__ import annotations

from array import array

import msgspec

from messages.gauges import Gauges
from messages.kv import KvEvent
from messages.requests import Status


class StartPass(msgspec.Struct, frozen=True, gc=False):
    """The coordinator takes up a worker's standing offer: form a pass now."""


class AbandonHead(msgspec.Struct, frozen=True, gc=False):
    """Nothing will happen any more, and this worker waits for room: give up the request it waits with."""


class PassCompleted(msgspec.Struct, frozen=True, gc=False):
    """A worker's own message, due at the end of the pass (or run of passes) it started."""

    worker_id: int
    pass_id: int
    passes: int = 1


class Admission(msgspec.Struct, frozen=True, gc=False):
    """A request entered the running set at the start of a pass, reusing cached tokens."""

    ordinal: int
    at_ms: float
    reused_tokens: int


class Terminal(msgspec.Struct, frozen=True, gc=False):
    """The end of a request, at the end of the pass that carries it; `reason` where it did not complete."""

    ordinal: int
    status: Status
    reason: str | None = None


class ForwardPassMetrics(msgspec.Struct, frozen=True, gc=False):
    """What one pass of one rank worked on. Variances are population variances of lengths in tokens."""

    wall_time_s: float
    num_prefill_requests: int
    sum_prefill_tokens: int
    var_prefill_length: float
    sum_prefill_kv_tokens: int
    num_decode_requests: int
    sum_decode_kv_tokens: int
    var_decode_kv_tokens: float
    num_queued_prefill: int
    sum_queued_prefill_tokens: int
    var_queued_prefill_length: float
    num_queued_decode: int
    sum_queued_decode_kv_tokens: int
    var_queued_decode_kv_tokens: float


IDLE_ROW = ForwardPassMetrics(0.0, 0, 0, 0.0, 0, 0, 0, 0.0, 0, 0, 0.0, 0, 0, 0.0)
"""The row of a rank that did nothing."""


class PassOutputs(msgspec.Struct, frozen=True, gc=False):
    """What one rank's pass, or run of identical decode passes, made visible at its end.

    Who emitted in a rank's pass and has not ended emits one token in its next pass too, unless `paused`. So a message
    names only those for whom that changes.

    pool: name of the worker's pool: agg, prefill or decode.
    ends_ms: end time of every pass that this message stands for, ascending.
    resumed: requests that emit from the first of these passes on, and did not in the rank's pass before.
    paused: requests that emitted in the rank's pass before, have not ended, and do not emit in these.
    bursts: with speculation instead of both: (request, tokens) that it emitted at the end of this one pass.
    decode_forwards, accepted_tokens: with speculation: requests that computed no prompt token, and the tokens drawn
        for them before their own limits.
    first_tokens: requests whose first token is among these.
    terminals: requests that ended at the last of `ends_ms`, in output order.
    signals: the order in which first tokens and ends came out, each request once, where there are both.
    committed_prefill_tokens: tokens computed for requests whose prompt was not yet built.
    preempted: requests that had to give up their blocks when the (single) pass was formed, after any admission.
    cache_hit_tokens, cache_total_tokens: of the tokens that a prefill pass dealt with, those found cached, and all;
        SGLang only, and only where rows of passes are captured.
    gauges: what the rank holds after these passes, where that is captured.
    """

    pool: str
    worker_id: int
    dp_rank: int
    scheduler_id: int
    ends_ms: array[float]
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
    gauges: Gauges | None = None


PassMessage = StartPass | AbandonHead | PassCompleted | PassOutputs
