"""Small clusters and traces for tests, and the messages of a run in a form that reads as a list."""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import Any

from actors import replay
from actors.emission import EmittingRequests
from messages.envelope import Envelope
from messages.handoff import MilestonesReached, RequestEnded
from messages.passes import PassCompleted, PassOutputs
from messages.report import ReplayReport

Line = tuple[float, str, str]
"""(virtual time in ms, phase, "sender > receiver: what")"""


def cluster(
    *requests: tuple[float, int, int], workers: int = 1, blocks: int = 64, max_in_flight: int | None = None, **rank: Any
) -> dict[str, Any]:
    """A spec for requests given as (arrival ms, prompt tokens, output tokens), named a, b, c, ...

    Blocks of 4 tokens; a pass with prefill takes 10 ms, decoding 1 ms more, unless `rank` says otherwise.
    """
    names = itertools.chain("abcdefghijklmnopqrstuvwxyz")
    timing = {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0}
    return {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": workers}},
        "engine": {"rank": {"num_gpu_blocks": blocks, "block_size": 4, "timing_model": timing, **rank}},
        "max_in_flight": max_in_flight,
        "requests": [
            {"id": next(names), "arrival_time_ms": at_ms, "input_tokens": inputs, "output_tokens": outputs}
            for at_ms, inputs, outputs in requests
        ],
    }


def two_pools(
    spec: dict[str, Any], *, prefill: int = 1, decode: int = 1, latency_ms: float = 0.0, **decode_rank: Any
) -> dict[str, Any]:
    """The same requests on a prefill and a decode pool; `decode_rank` is what decode ranks have different."""
    rank = spec["engine"]["rank"]
    return {
        **spec,
        "topology": {
            "kind": "disaggregated",
            "prefill": {"initial_workers": prefill},
            "decode": {"initial_workers": decode},
            "handoff_latency_ms": latency_ms,
        },
        "engine": {"prefill": {"rank": rank}, "decode": {"rank": {**rank, **decode_rank}}},
    }


def messages_of(spec: dict[str, Any], **options: Any) -> tuple[list[Line], ReplayReport]:
    """Every message of a run in the order of delivery, and the report."""
    log: list[Line] = []
    names: dict[int, str] = {}
    emitted = _Emitted()
    report = replay(spec, observe=lambda envelope: log.append(_line(envelope, names, emitted)), **options)
    return log, report


class _Emitted:
    """Who emitted in the passes of outputs, which go from a worker to several actors one after the other."""

    def __init__(self) -> None:
        self._requests: defaultdict[str, EmittingRequests] = defaultdict(EmittingRequests)
        self._outputs: PassOutputs | None = None
        self._last: tuple[int, ...] = ()

    def __call__(self, worker: str, outputs: PassOutputs) -> tuple[int, ...]:
        if outputs is not self._outputs:
            self._outputs, self._last = outputs, self._requests[worker].update(outputs)
        return self._last


def _line(envelope: Envelope, names: dict[int, str], emitted: _Emitted) -> Line:
    message = envelope.message
    if hasattr(message, "request_id"):
        names[message.ordinal] = message.request_id
    what = type(message).__name__
    if isinstance(message, PassOutputs):
        what += _outputs(message, names, emitted(envelope.sender, message))
    elif isinstance(message, PassCompleted) and message.passes > 1:
        what += f" x{message.passes}"
    elif isinstance(message, MilestonesReached):
        # source_held_ms -> held, and so on
        reached = ", ".join(milestone.split("_")[1] for milestone in message.times_ms)
        what += f" {names[message.ordinal]} ({reached})"
    elif isinstance(message, RequestEnded):
        what += f" {message.status} {names[message.ordinal]}"
    elif hasattr(message, "ordinal"):
        what += f" {names[message.ordinal]}"
    elif hasattr(message, "request"):
        what += f" {names[message.request.ordinal]}"
    return envelope.at_ms, envelope.phase.name.lower(), f"{envelope.sender} > {envelope.receiver}: {what}"


def _outputs(outputs: PassOutputs, names: dict[int, str], emitted: tuple[int, ...]) -> str:
    parts = []
    if outputs.admissions:
        parts.append("admitted " + " ".join(names[admission.ordinal] for admission in outputs.admissions))
    if emitted:
        passes = f"x{len(outputs.ends_ms)} " if len(outputs.ends_ms) > 1 else ""
        parts.append("tokens " + passes + " ".join(names[ordinal] for ordinal in emitted))
    if outputs.preempted:
        parts.append(f"preempted {len(outputs.preempted)}")
    parts += [f"{terminal.status} {names[terminal.ordinal]}" for terminal in outputs.terminals]
    return " (" + ", ".join(parts) + ")"
