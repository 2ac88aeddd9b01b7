"""From the messages of a run to the events of its timeline."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TextIO

from actors.names import AGGREGATED, COLLECTOR, DECODE, HANDOFF, PREFILL, worker_id
from actors.timeline.events import EventWriter, Process, Thread, microseconds, quoted
from actors.timeline.passes import PassReader
from actors.timeline.pools import PoolTrack
from actors.timeline.ranks import RankTrack
from actors.timeline.requests import RequestTrack
from messages.envelope import Envelope
from messages.handoff import (
    DestinationActivated,
    DestinationCancelled,
    DestinationFailed,
    DestinationReserved,
    RequestEnded,
    ReserveDestination,
    SourceReleased,
    StartTransfer,
)
from messages.passes import AbandonHead, PassOutputs, StartPass
from messages.requests import Dispatch, RequestArrived, Status
from messages.scaling import DecisionMade, LifecycleOperation
from messages.spec import DisaggregatedTopology, ReplaySpec

_REQUESTS_PID = 1
"""The pools follow, in order."""


class Timeline:
    """Writes the timeline of a run of `spec`. Called with every delivered message, in order.

    file: what the timeline is written to; complete after `finish`.
    from_ms, to_ms: the stretch of simulated time to show.
    """

    def __init__(
        self, spec: ReplaySpec, file: TextIO, *, from_ms: float | None = None, to_ms: float | None = None
    ) -> None:
        self._from_ms, self._to_ms = from_ms, to_ms
        to_us = math.inf if to_ms is None else microseconds(to_ms)
        self._writer = writer = EventWriter(file, microseconds(from_ms or 0.0), to_us)
        two_pools = isinstance(spec.topology, DisaggregatedTopology)
        self._pools = {pool.names.worker_prefix: pool for pool in _pools(spec, writer)}
        self._by_label = {pool.names.label: pool for pool in self._pools.values()}
        requests = Process(_REQUESTS_PID, "requests", len(self._pools))
        self._request_thread = Thread(requests, requests.first_tid, "requests")
        self._ended_thread = Thread(requests, requests.first_tid + 1, "rejected and failed")
        self._destination_first = two_pools and spec.ranks[0].backend == "sglang"
        self._requests: dict[int, RequestTrack] = {}
        self._ranks: dict[tuple[str, int], RankTrack] = {}
        self._starts_us: dict[str, int | None] = {}
        """When each worker began what its next outputs tell of; None where that is no pass."""
        self._now_ms = 0.0
        self._passes = PassReader(writer, self._requests, self._end)
        self._handlers: dict[type, Callable[[Any, Envelope], None]] = {
            StartPass: self._start_pass,
            PassOutputs: self._end_pass,
            AbandonHead: self._abandon,
            RequestArrived: self._arrive,
            Dispatch: self._dispatch,
            ReserveDestination: self._reserve,
            DestinationFailed: self._fail_destination,
            DestinationReserved: self._reserved,
            DestinationCancelled: self._cancelled,
            StartTransfer: self._transfer,
            DestinationActivated: self._activated,
            SourceReleased: self._released,
            RequestEnded: self._give_up,
            LifecycleOperation: self._operate,
            DecisionMade: self._decide,
        }

    def __call__(self, envelope: Envelope) -> None:
        handler = self._handlers.get(type(envelope.message))
        if handler is not None:
            handler(envelope.message, envelope)
        self._now_ms = envelope.at_ms

    def finish(self) -> None:
        """Write what is left, when the run is over. Requests that have not ended last until now."""
        now_us = microseconds(self._now_ms)
        for ordinal in list(self._requests):
            self._end(ordinal, now_us, "unfinished", None)
        for rank in self._ranks.values():
            rank.catch_up(now_us)
        about = {"generator": "aisim-actors", "from_ms": self._from_ms, "to_ms": self._to_ms, "end_ms": self._now_ms}
        self._writer.finish(now_us, about)

    def _rank(self, worker: str, dp_rank: int) -> RankTrack:
        rank = self._ranks.get((worker, dp_rank))
        if rank is None:
            number = worker_id(worker)
            assert number is not None
            pool = self._pools[worker.rpartition("-")[0]]
            rank = self._ranks[worker, dp_rank] = pool.add_rank(number, dp_rank)
        return rank

    def _end(self, ordinal: int, at_us: int, status: str, reason: str | None) -> None:
        request = self._requests.pop(ordinal)
        request.write(self._writer, self._request_thread, at_us, status, reason)
        if status in (Status.REJECTED, Status.FAILED):
            args = f'"request":{request.name}' + ("" if reason is None else f',"reason":{quoted(reason)}')
            self._writer.instant(self._ended_thread, status, at_us, args)

    def _arrive(self, message: RequestArrived, envelope: Envelope) -> None:
        first_phase = "reserve" if self._destination_first else "queued"
        self._requests[message.ordinal] = RequestTrack(message, first_phase)

    # Passes

    def _start_pass(self, message: StartPass, envelope: Envelope) -> None:
        self._starts_us[envelope.receiver] = microseconds(envelope.at_ms)

    def _abandon(self, message: AbandonHead, envelope: Envelope) -> None:
        self._starts_us[envelope.receiver] = None

    def _end_pass(self, message: PassOutputs, envelope: Envelope) -> None:
        # The same outputs go to several actors.
        if envelope.receiver == COLLECTOR:
            rank = self._rank(envelope.sender, message.dp_rank)
            self._passes.read(message, rank, self._starts_us[envelope.sender])

    def _dispatch(self, message: Dispatch, envelope: Envelope) -> None:
        self._rank(envelope.receiver, message.dp_rank).expect(microseconds(envelope.at_ms), 1)

    # Hand-off

    def _reserve(self, message: ReserveDestination, envelope: Envelope) -> None:
        self._requests[message.request.ordinal].destination = (envelope.receiver, message.dp_rank)
        self._rank(envelope.receiver, message.dp_rank).expect(microseconds(envelope.at_ms), 1)

    def _fail_destination(self, message: DestinationFailed, envelope: Envelope) -> None:
        destination = self._requests[message.ordinal].destination
        assert destination is not None
        self._rank(*destination).expect(microseconds(envelope.at_ms), -1)

    def _reserved(self, message: DestinationReserved, envelope: Envelope) -> None:
        at_us = microseconds(envelope.at_ms)
        if self._destination_first:
            self._requests[message.ordinal].enter("queued", at_us)
        self._rank(envelope.sender, message.dp_rank).hold(at_us, message.gauges, at_us)

    def _transfer(self, message: StartTransfer, envelope: Envelope) -> None:
        self._requests[message.ordinal].enter("transfer", microseconds(envelope.at_ms))

    def _activated(self, message: DestinationActivated, envelope: Envelope) -> None:
        self._requests[message.ordinal].enter("queued", microseconds(envelope.at_ms))

    def _cancelled(self, message: DestinationCancelled, envelope: Envelope) -> None:
        if envelope.receiver == HANDOFF:
            at_us, rank = microseconds(envelope.at_ms), self._rank(envelope.sender, message.dp_rank)
            rank.move(at_us, waiting=-1)
            rank.hold(at_us, message.gauges, at_us)

    def _released(self, message: SourceReleased, envelope: Envelope) -> None:
        if envelope.receiver == HANDOFF:
            at_us, rank = microseconds(envelope.at_ms), self._rank(envelope.sender, message.dp_rank)
            rank.release(message.ordinal, at_us)
            rank.hold(at_us, message.gauges, at_us)

    def _give_up(self, message: RequestEnded, envelope: Envelope) -> None:
        if envelope.receiver == COLLECTOR:
            self._end(message.ordinal, microseconds(envelope.at_ms), message.status.value, message.reason)

    # Scaling

    def _operate(self, message: LifecycleOperation, envelope: Envelope) -> None:
        self._by_label[message.pool].operate(message)

    def _decide(self, message: DecisionMade, envelope: Envelope) -> None:
        # The only pool of an aggregated cluster is decided on as decode.
        decode = DECODE if DECODE.label in self._by_label else AGGREGATED
        for names, target in ((PREFILL, message.target_prefill), (decode, message.target_decode)):
            if target is not None and names.label in self._by_label:
                self._by_label[names.label].decide(message, target)


def _pools(spec: ReplaySpec, writer: EventWriter) -> list[PoolTrack]:
    """The pools of the cluster, as far as their names, sizes and engines go."""
    topology, engine = spec.topology, spec.engine
    if isinstance(topology, DisaggregatedTopology):
        parts = [(PREFILL, topology.prefill, engine.prefill), (DECODE, topology.decode, engine.decode)]
    else:
        parts = [(AGGREGATED, topology.workers, None)]
    pools = []
    for number, (names, pool, own) in enumerate(parts):
        role = engine.role(own)
        process = Process(_REQUESTS_PID + 1 + number, f"{names.label} pool", number)
        track = PoolTrack(
            writer, process, names, dp_size=role.dp_size, sglang=role.rank.backend == "sglang", holds=names is PREFILL
        )
        track.begin(pool.initial_workers)
        pools.append(track)
    return pools
