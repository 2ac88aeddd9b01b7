"""Workers of the two pools of a disaggregated cluster: what they do for hand-offs beside their passes."""

from __future__ import annotations

from array import array
from typing import Any, Generic, TypeVar

from actors.names import HANDOFF, PoolNames
from actors.runtime import handles
from actors.worker import Worker
from engines.data_parallel import DestinationGroup, HandoffGroup, SourceGroup
from messages.envelope import NOTHING, Envelope, Outgoing, Phase, Reply
from messages.handoff import (
    ActivateDestination,
    CancelDestination,
    DestinationActivated,
    DestinationCancelled,
    DestinationFailed,
    DestinationReserved,
    ReleaseSource,
    ReserveDestination,
    SourceReleased,
)
from messages.passes import AbandonHead, PassOutputs, StartPass

GroupT = TypeVar("GroupT", bound=HandoffGroup)


class HandoffWorker(Worker, Generic[GroupT]):
    """Applies actions between passes: those that come during one are sent back for the hand-off queue at its end."""

    _follower = HANDOFF

    def __init__(
        self,
        names: PoolNames,
        worker_id: int,
        scheduler_ids: tuple[int, ...],
        engine: GroupT,
        *,
        tell_router: bool = True,
        capture_metrics: bool = False,
        tell_gauges: bool = False,
    ) -> None:
        super().__init__(
            names,
            worker_id,
            scheduler_ids,
            engine,
            tell_router=tell_router,
            capture_metrics=capture_metrics,
            tell_gauges=tell_gauges,
        )
        self._group = engine
        self._deferred: dict[int, list[Any]] = {}

    @handles(AbandonHead)
    def abandon_head(self, message: AbandonHead, envelope: Envelope) -> Reply:
        outputs = self._group.abandon_head()
        if outputs is None:
            return NOTHING
        outbox = self._publish_rank(self._outputs(outputs, array("d", (envelope.at_ms,))))
        self._look(outputs.dp_rank)
        return Reply(outbox=outbox, offering=self._engine.has_work)

    def _defer(self, dp_rank: int, message: Any) -> None:
        self._deferred.setdefault(dp_rank, []).append(message)

    def _publish(self, ended: dict[int, PassOutputs]) -> list[Outgoing]:
        outbox: list[Outgoing] = []
        for dp_rank in range(len(self._scheduler_ids)):
            outbox += self._queue_again(dp_rank, next(iter(ended.values())).ends_ms[-1])
            if dp_rank in ended:
                outbox += self._publish_rank(ended[dp_rank])
            outbox += self._after_pass(dp_rank)
        return outbox

    def _queue_again(self, dp_rank: int, now_ms: float) -> list[Outgoing]:
        """The actions that waited for the end of the pass go to the end of the queue.

        Where there are several ranks the hand-off actor puts them there, behind what comes of the ranks before.
        """
        deferred = self._deferred.pop(dp_rank, ())
        if len(self._scheduler_ids) > 1:
            return [Outgoing(HANDOFF, message) for message in deferred]
        return [Outgoing(self._name, message, now_ms, Phase.HANDOFF) for message in deferred]

    def _after_pass(self, dp_rank: int) -> list[Outgoing]:
        """What a rank does at the end of a pass of its worker, whether it took part or not."""
        return []


class PrefillWorker(HandoffWorker[SourceGroup]):
    """Builds prompts and holds their KV until it has been handed over."""

    @handles(ReleaseSource)
    def release_source(self, message: ReleaseSource, envelope: Envelope) -> Reply:
        if self._in_flight is not None:
            self._defer(message.dp_rank, message)
            return NOTHING
        self._group.release_source(message.dp_rank, message.ordinal)
        self._look(message.dp_rank)
        released = SourceReleased(message.ordinal, message.dp_rank, self._gauges_to_tell(message.dp_rank))
        outbox = [Outgoing(HANDOFF, released)]
        if self._draining:
            outbox += self._if_drained()
        return Reply(outbox=outbox, offering=self._engine.has_work)


class DecodeWorker(HandoffWorker[DestinationGroup]):
    """Takes prompts over and generates their outputs."""

    @handles(ReserveDestination)
    def reserve(self, message: ReserveDestination, envelope: Envelope) -> Reply:
        reason = self._group.reserve(message.dp_rank, message.request)
        if reason is not None:
            return Reply(outbox=(Outgoing(HANDOFF, DestinationFailed(message.request.ordinal, reason)),))
        self._requests += 1
        if self._in_flight is None:
            outbox = self._try_reserve(message.dp_rank)
            self._look(message.dp_rank)
            return Reply(outbox=outbox)
        self._look(message.dp_rank)
        # Rows of passes tell who waits at their start.
        return self._cut(envelope) if self._group.wants_pass_end or self._capture_metrics else NOTHING

    @handles(ActivateDestination, CancelDestination)
    def leave_reservation(self, message: ActivateDestination | CancelDestination, envelope: Envelope) -> Reply:
        """A destination takes its KV, or gives its room back."""
        cut = self._cut(envelope) if self._in_flight is not None else NOTHING
        if self._in_flight is not None:
            self._defer(message.dp_rank, message)
            return cut
        fact: DestinationActivated | DestinationCancelled
        if isinstance(message, ActivateDestination):
            self._group.activate(message.dp_rank, message.ordinal)
            fact = DestinationActivated(message.ordinal)
        else:
            self._group.cancel(message.dp_rank, message.ordinal)
            self._requests -= 1
            gauges = self._gauges_to_tell(message.dp_rank)
            fact = DestinationCancelled(message.ordinal, message.dp_rank, gauges)
        outbox = [*cut.outbox, Outgoing(HANDOFF, fact), *self._try_reserve(message.dp_rank)]
        if self._draining:
            outbox += self._if_drained()
        self._look(message.dp_rank)
        return Reply(outbox=outbox, offering=self._engine.has_work, revoke=cut.revoke)

    def _attempt_again(self, envelope: Envelope) -> Reply:
        # The end of an attempt is the end of a pass: every rank may grant a reservation.
        tried = self._group.wants_pass_end
        reserved = [outgoing for dp_rank in range(len(self._scheduler_ids)) for outgoing in self._try_reserve(dp_rank)]
        if reserved:
            self._look()
        if tried and not reserved:
            # Now it is known that no reservation will help those who wait.
            return self.start_pass(StartPass(), envelope)
        return Reply(outbox=reserved, offering=self._engine.has_work)

    def _try_reserve(self, dp_rank: int) -> list[Outgoing]:
        reservation = self._group.try_reserve(dp_rank)
        if reservation is None:
            return []
        gauges = self._gauges_to_tell(dp_rank)
        reserved = DestinationReserved(reservation.ordinal, dp_rank, reservation.fresh_tokens, gauges)
        return [Outgoing(HANDOFF, reserved)]

    def _after_pass(self, dp_rank: int) -> list[Outgoing]:
        return self._try_reserve(dp_rank)
