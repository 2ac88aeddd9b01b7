"""The hand-off actor: takes every request of a disaggregated cluster from arrival to its end.

Source first: the prompt is built, then a destination is reserved, the KV is transferred, the destination activated and
the source released. Destination first: the destination is reserved before the prompt is built. All of it happens as
actions in one queue, in the hand-off phase.
"""

from __future__ import annotations

from typing import Any

import msgspec

from actors.names import CLIENT, COLLECTOR, DECODE, HANDOFF, PREFILL
from actors.runtime import SimActor, handles
from messages.envelope import NOTHING, Envelope, Outgoing, Phase, Reply
from messages.handoff import (
    ActivateDestination,
    CancelDestination,
    DestinationActivated,
    DestinationCancelled,
    DestinationFailed,
    DestinationReserved,
    HandoffRequest,
    Milestone,
    MilestonesReached,
    ReleaseSource,
    RequestEnded,
    SourceReleased,
    StartTransfer,
    TransferCompleted,
)
from messages.passes import PassOutputs
from messages.requests import PlaceRequest, Request, Status
from messages.spec import RankSpec


class TransferModel:
    """How long the KV of a prompt travels. Parameters are those of the prefill ranks.

    handoff_latency_ms: the delay where they give no bytes and bandwidth.
    """

    def __init__(self, rank: RankSpec, handoff_latency_ms: float) -> None:
        self._bytes_per_token = rank.kv_transfer_bytes_per_token or rank.kv_bytes_per_token
        self._bandwidth = rank.kv_transfer_bandwidth
        self._whole_prompt = rank.kv_transfer_timing_mode == "full_prompt"
        self._latency_ms = handoff_latency_ms

    def delay_ms(self, prompt_tokens: int, fresh_tokens: int) -> float:
        """Time to transfer a prompt of which the destination lacks `fresh_tokens`, whole blocks."""
        if not self._bytes_per_token or not self._bandwidth:
            return self._latency_ms
        tokens = prompt_tokens if self._whole_prompt else fresh_tokens
        return float(tokens) * float(self._bytes_per_token) / (self._bandwidth * 1e9) * 1000.0


class _Handoff(msgspec.Struct):
    """A request under way. Workers are known by name and rank once they are chosen.

    milestones: when which was reached, until the record is told, which starts when the request ends.
    """

    request: Request
    source: tuple[str, int] | None = None
    destination: tuple[str, int] | None = None
    fresh_tokens: int = 0
    ended: RequestEnded | None = None
    released: bool = False
    given_up: bool = False
    """Whether it ended without being handed over."""
    milestones: dict[Milestone, float] = msgspec.field(default_factory=dict)


class HandoffActor(SimActor):
    """Owns the state of every hand-off.

    transfers: tells how long KV travels. destination_first: a destination is reserved before the prompt is built.
    tell_routers: whether the placement policies of the pools follow what becomes of requests.
    """

    def __init__(self, transfers: TransferModel, *, destination_first: bool, tell_routers: bool = False) -> None:
        super().__init__()
        self._transfers = transfers
        self._destination_first = destination_first
        self._tell_routers = tell_routers
        self._handoffs: dict[int, _Handoff] = {}

    @handles(HandoffRequest)
    def begin(self, message: HandoffRequest, envelope: Envelope) -> Reply:
        request = message.request
        handoff = self._handoffs[request.ordinal] = _Handoff(request)
        begin = self._reservation if self._destination_first else self._submission
        return Reply(outbox=(begin(handoff, envelope),))

    @handles(PassOutputs)
    def follow(self, message: PassOutputs, envelope: Envelope) -> Reply:
        outbox: list[Outgoing] = []
        for terminal in message.terminals:
            handoff = self._handoffs[terminal.ordinal]
            if message.pool == DECODE.label:
                # A rejected destination can end here too, with the tokens it has.
                handoff.ended = RequestEnded(terminal.ordinal, terminal.status, terminal.reason)
                outbox += (Outgoing(CLIENT, handoff.ended), *_milestones(handoff))
                self._forget_if_over(terminal.ordinal)
                continue
            handoff.source = (envelope.sender, message.dp_rank)
            if terminal.status is Status.COMPLETED:
                handoff.milestones[Milestone.SOURCE_HELD] = envelope.at_ms
                if self._destination_first:
                    outbox.append(_action(HANDOFF, StartTransfer(terminal.ordinal), envelope))
                else:
                    outbox.append(self._reservation(handoff, envelope))
            else:
                outbox += self._give_up(handoff, terminal.status, terminal.reason, envelope)
        return Reply(outbox=outbox) if outbox else NOTHING

    @handles(DestinationReserved)
    def reserved(self, message: DestinationReserved, envelope: Envelope) -> Reply:
        handoff = self._handoffs[message.ordinal]
        handoff.destination = (envelope.sender, message.dp_rank)
        handoff.fresh_tokens = message.fresh_tokens
        handoff.milestones[Milestone.DESTINATION_RESERVED] = envelope.at_ms
        if self._destination_first:
            return Reply(outbox=(self._submission(handoff, envelope),))
        return Reply(outbox=(_action(HANDOFF, StartTransfer(message.ordinal), envelope),))

    @handles(DestinationFailed)
    def failed(self, message: DestinationFailed, envelope: Envelope) -> Reply:
        handoff = self._handoffs[message.ordinal]
        outbox = self._give_up(handoff, Status.FAILED, message.reason, envelope)
        if self._tell_routers:
            outbox.append(Outgoing(DECODE.router, handoff.ended))
        return Reply(outbox=outbox)

    @handles(StartTransfer)
    def start_transfer(self, message: StartTransfer, envelope: Envelope) -> Reply:
        handoff = self._handoffs[message.ordinal]
        delay_ms = self._transfers.delay_ms(handoff.request.input_tokens, handoff.fresh_tokens)
        if delay_ms <= 0.0:
            return Reply(outbox=(self._activation(handoff, envelope),))
        completed = TransferCompleted(message.ordinal)
        at_ms = envelope.at_ms + delay_ms
        return Reply(outbox=(Outgoing(HANDOFF, completed, at_ms, Phase.TRANSFERS, message.ordinal),))

    @handles(TransferCompleted)
    def transferred(self, message: TransferCompleted, envelope: Envelope) -> Reply:
        return Reply(outbox=(self._activation(self._handoffs[message.ordinal], envelope),))

    @handles(ActivateDestination, CancelDestination, ReleaseSource)
    def queue_again(
        self, message: ActivateDestination | CancelDestination | ReleaseSource, envelope: Envelope
    ) -> Reply:
        """A worker was in the middle of a pass, which has ended now."""
        return Reply(outbox=(_action(envelope.sender, message, envelope),))

    @handles(DestinationActivated)
    def activated(self, message: DestinationActivated, envelope: Envelope) -> Reply:
        handoff = self._handoffs[message.ordinal]
        handoff.milestones[Milestone.DESTINATION_ACTIVATED] = envelope.at_ms
        return Reply(outbox=(self._release(handoff, envelope),))

    @handles(SourceReleased)
    def released(self, message: SourceReleased, envelope: Envelope) -> Reply:
        handoff = self._handoffs[message.ordinal]
        handoff.released = True
        self._forget_if_over(message.ordinal)
        outbox = [Outgoing(PREFILL.router, message)] if self._tell_routers else []
        if not handoff.given_up:
            handoff.milestones[Milestone.SOURCE_RELEASED] = envelope.at_ms
            outbox += _milestones(handoff) if handoff.ended is not None else ()
        elif not self._destination_first:
            # Source first, its place in the closed loop is free once its source is.
            outbox.append(Outgoing(CLIENT, handoff.ended))
        return Reply(outbox=outbox) if outbox else NOTHING

    @handles(DestinationCancelled)
    def cancelled(self, message: DestinationCancelled, envelope: Envelope) -> Reply:
        self._handoffs[message.ordinal].destination = None
        self._forget_if_over(message.ordinal)
        return Reply(outbox=(Outgoing(DECODE.router, message),)) if self._tell_routers else NOTHING

    def _give_up(self, handoff: _Handoff, status: Status, reason: str | None, envelope: Envelope) -> list[Outgoing]:
        ordinal = handoff.request.ordinal
        handoff.ended = RequestEnded(ordinal, status, reason)
        handoff.given_up = True
        outbox = [Outgoing(COLLECTOR, handoff.ended), *_milestones(handoff)]
        if self._destination_first:
            outbox.append(Outgoing(CLIENT, handoff.ended))
        if handoff.source is not None:
            outbox.append(self._release(handoff, envelope))
        else:
            handoff.released = True
        if handoff.destination is not None:
            worker, dp_rank = handoff.destination
            outbox.append(_action(worker, CancelDestination(ordinal, dp_rank), envelope))
        self._forget_if_over(ordinal)
        return outbox

    def _submission(self, handoff: _Handoff, envelope: Envelope) -> Outgoing:
        # The prefill rank builds the prompt and samples one token at most, which nobody sees.
        request = handoff.request
        hidden = msgspec.structs.replace(request, output_tokens=min(request.output_tokens, 1))
        return _action(PREFILL.router, PlaceRequest(hidden), envelope)

    def _reservation(self, handoff: _Handoff, envelope: Envelope) -> Outgoing:
        return _action(DECODE.router, PlaceRequest(handoff.request), envelope)

    def _activation(self, handoff: _Handoff, envelope: Envelope) -> Outgoing:
        assert handoff.destination is not None
        worker, dp_rank = handoff.destination
        return _action(worker, ActivateDestination(handoff.request.ordinal, dp_rank), envelope)

    def _release(self, handoff: _Handoff, envelope: Envelope) -> Outgoing:
        assert handoff.source is not None
        worker, dp_rank = handoff.source
        return _action(worker, ReleaseSource(handoff.request.ordinal, dp_rank), envelope)

    def _forget_if_over(self, ordinal: int) -> None:
        handoff = self._handoffs[ordinal]
        holds = handoff.given_up and handoff.destination is not None
        if handoff.released and handoff.ended is not None and not holds:
            del self._handoffs[ordinal]


def _milestones(handoff: _Handoff) -> tuple[Outgoing, ...]:
    """A message about those that the record has not been told of yet, if there are any."""
    untold, handoff.milestones = handoff.milestones, {}
    return (Outgoing(COLLECTOR, MilestonesReached(handoff.request.ordinal, untold)),) if untold else ()


def _action(receiver: str, message: Any, envelope: Envelope) -> Outgoing:
    """An action at the end of the queue."""
    return Outgoing(receiver, message, envelope.at_ms, Phase.HANDOFF)
