"""The router actor: carries the conversation between client, workers and pool to a placement policy."""

from __future__ import annotations

from collections.abc import Iterable

from actors.names import AGGREGATED, COLLECTOR, SAMPLER, PoolNames
from actors.routing.placement import Placement, PlacementPolicy
from actors.runtime import SimActor, handles
from messages.envelope import NOTHING, Envelope, Outgoing, Phase, Reply
from messages.handoff import DestinationCancelled, RequestEnded, ReserveDestination, SourceReleased
from messages.kv import EvictionForecast
from messages.passes import PassOutputs
from messages.requests import Dispatch, PlaceRequest, RequestRouted, Status
from messages.scaling import TopologySettled, WorkerDraining, WorkerReady, WorkerRemoved
from messages.telemetry import RouterSample, SampleRouter


class Router(SimActor):
    """Places requests of one pool as its policy says, at once or when the policy releases them.

    reserves: chosen workers are asked to reserve a destination instead of being given the request.
    holds_sources: the end of a request's passes is that of its prompt; it is over when its source is released.
    """

    def __init__(
        self, names: PoolNames, policy: PlacementPolicy, *, reserves: bool = False, holds_sources: bool = False
    ) -> None:
        super().__init__()
        self._names = names
        self._reserves = reserves
        self._holds_sources = holds_sources
        self._foretold: set[tuple[int, int]] = set()
        """Ranks in a run whose evictions were foretold."""
        self._policy = policy
        # With two pools an action waits for a worker where there is none.
        self._parks = names is not AGGREGATED
        self._active: set[int] = set()
        self._parked: list[PlaceRequest] = []
        self._scheduler_ids: dict[int, tuple[int, ...]] = {}
        self._queued_at_ms: dict[int, float] = {}

    @handles(PlaceRequest)
    def place(self, message: PlaceRequest, envelope: Envelope) -> Reply:
        if self._parks and not self._active:
            self._parked.append(message)
            return NOTHING
        decision = self._policy.place(message.request, envelope.at_ms)
        if decision.placement is None:
            self._queued_at_ms[message.request.ordinal] = envelope.at_ms
            return self._dispatch(decision.released, envelope)
        return self._dispatch((decision.placement, *decision.released), envelope)

    @handles(PassOutputs)
    def observe(self, message: PassOutputs, envelope: Envelope) -> Reply:
        policy, now_ms = self._policy, envelope.at_ms
        released: list[Placement] = []
        rank = (message.worker_id, message.dp_rank)
        if message.kv_events or rank in self._foretold:
            self._foretold.discard(rank)
            released += policy.observe(*rank, len(message.ends_ms), message.kv_events, now_ms)
        ended = {terminal.ordinal: terminal for terminal in message.terminals}
        for ordinal in message.signals or dict.fromkeys((*message.first_tokens, *ended)):
            terminal = ended.get(ordinal)
            if terminal is None or (self._holds_sources and terminal.status is Status.COMPLETED):
                released += policy.prefill_completed(ordinal, now_ms)
            elif not self._holds_sources:
                released += policy.request_terminal(ordinal, now_ms)
        return self._dispatch(released, envelope)

    @handles(EvictionForecast)
    def foresee(self, message: EvictionForecast, envelope: Envelope) -> Reply:
        self._foretold.add((message.worker_id, message.dp_rank))
        self._policy.foresee(message)
        return NOTHING

    @handles(SourceReleased, DestinationCancelled, RequestEnded)
    def end(self, message: SourceReleased | DestinationCancelled | RequestEnded, envelope: Envelope) -> Reply:
        return self._dispatch(self._policy.request_terminal(message.ordinal, envelope.at_ms), envelope)

    @handles(WorkerReady)
    def worker_ready(self, message: WorkerReady, envelope: Envelope) -> Reply:
        self._scheduler_ids[message.worker_id] = message.scheduler_ids
        self._active.add(message.worker_id)
        reply = self._dispatch(self._policy.worker_ready(message.worker_id, message.scheduler_ids), envelope)
        if not self._parked:
            return reply
        own = [Outgoing(self._names.router, parked, envelope.at_ms, Phase.HANDOFF) for parked in self._parked]
        self._parked.clear()
        return Reply(outbox=[*reply.outbox, *own])

    @handles(WorkerDraining)
    def worker_draining(self, message: WorkerDraining, envelope: Envelope) -> Reply:
        self._active.discard(message.worker_id)
        return self._dispatch(self._policy.worker_draining(message.worker_id), envelope)

    @handles(WorkerRemoved)
    def worker_removed(self, message: WorkerRemoved, envelope: Envelope) -> Reply:
        return self._dispatch(self._policy.worker_removed(message.worker_id), envelope)

    @handles(TopologySettled)
    def topology_settled(self, message: TopologySettled, envelope: Envelope) -> Reply:
        return self._dispatch(self._policy.topology_settled(envelope.at_ms), envelope)

    @handles(SampleRouter)
    def sample(self, message: SampleRouter, envelope: Envelope) -> Reply:
        return Reply(outbox=(Outgoing(SAMPLER, RouterSample(self._names.label, len(self._queued_at_ms))),))

    def _dispatch(self, placements: Iterable[Placement], envelope: Envelope) -> Reply:
        outbox = []
        for placement in placements:
            request, worker_id, rank = placement.request, placement.worker_id, placement.dp_rank
            queued_at_ms = self._queued_at_ms.pop(request.ordinal, None)
            routed = RequestRouted(
                request.ordinal,
                self._names.label,
                worker_id,
                self._scheduler_ids[worker_id][rank],
                rank,
                queued_at_ms,
                None if queued_at_ms is None else envelope.at_ms,
                placement.overlap,
            )
            outbox.append(Outgoing(COLLECTOR, routed))
            order = ReserveDestination(request, rank) if self._reserves else Dispatch(request, rank)
            outbox.append(Outgoing(self._names.worker(worker_id), order))
        return Reply(outbox=outbox) if outbox else NOTHING
