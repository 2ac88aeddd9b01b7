"""The client actor: releases requests when they are ready and follows them to their end."""

from __future__ import annotations

from actors.names import AGGREGATED, CLIENT, COLLECTOR, HANDOFF
from actors.runtime import SimActor, handles
from actors.workload.sessions import SessionDriver
from actors.workload.source import Workload
from messages.envelope import Envelope, Outgoing, Phase, Reply
from messages.handoff import HandoffRequest, RequestEnded
from messages.passes import PassOutputs
from messages.requests import PlaceRequest, ReleaseArrivals, RequestArrived


class Client(SimActor):
    """Plays a workload in open or closed loop. Wakes itself by `ReleaseArrivals` in the admission phase.

    overhead_ms: time between the arrival of a request and its entry into the cluster.
    """

    def __init__(self, workload: Workload, *, disaggregated: bool = False, overhead_ms: float = 0.0) -> None:
        super().__init__()
        self._overhead_ms = overhead_ms
        self._disaggregated = disaggregated
        self._driver = SessionDriver(workload)
        self._arrived = 0
        self._alarms: set[float] = set()
        """Times for which a `ReleaseArrivals` is under way."""

    @handles(ReleaseArrivals)
    def release(self, message: ReleaseArrivals, envelope: Envelope) -> Reply:
        self._alarms.discard(envelope.at_ms)
        outbox: list[Outgoing] = []
        for release in self._driver.release(envelope.at_ms):
            turn = release.turn
            arrived = RequestArrived(
                ordinal=release.request.ordinal,
                request_id=turn.request_id,
                session_id=turn.session_id,
                turn_index=turn.turn_index,
                arrival_time_ms=release.arrival_time_ms,
                input_length=release.request.input_tokens,
                requested_output_length=release.request.output_tokens,
                metadata=turn.metadata,
            )
            outbox.append(Outgoing(COLLECTOR, arrived))
            enters_at_ms = envelope.at_ms + self._overhead_ms if self._overhead_ms else None
            if self._disaggregated:
                outbox.append(Outgoing(HANDOFF, HandoffRequest(release.request), enters_at_ms, Phase.ADMISSION))
            else:
                outbox.append(Outgoing(AGGREGATED.router, PlaceRequest(release.request), enters_at_ms, Phase.ADMISSION))
            self._arrived += 1
        return self._reply(outbox, envelope)

    @handles(PassOutputs)
    def follow(self, message: PassOutputs, envelope: Envelope) -> Reply:
        for terminal in message.terminals:
            self._driver.ended(terminal.ordinal, envelope.at_ms, terminal.status)
        return self._reply([], envelope)

    @handles(RequestEnded)
    def end(self, message: RequestEnded, envelope: Envelope) -> Reply:
        self._driver.ended(message.ordinal, envelope.at_ms, message.status)
        return self._reply([], envelope)

    def _reply(self, outbox: list[Outgoing], envelope: Envelope) -> Reply:
        ready_ms = self._driver.next_ready_ms()
        if ready_ms is not None:
            at_ms = max(ready_ms, envelope.at_ms)
            if at_ms not in self._alarms:
                self._alarms.add(at_ms)
                outbox.append(Outgoing(CLIENT, ReleaseArrivals(), at_ms, Phase.ADMISSION))
        return Reply(outbox=outbox, in_flight=self._driver.in_flight, arrived=self._arrived)
