"""The router actor and its policies, through a whole run and alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors.routing.placement import Decision, Placement
from actors.routing.round_robin import RoundRobin
from actors.routing.router import Router
from actors.runtime import start_actor
from messages.envelope import Envelope, Outgoing, Phase, Reply
from messages.errors import ReplayError
from messages.kv import KvEvent
from messages.requests import Dispatch, PlaceRequest, Request
from messages.scaling import WorkerDraining, WorkerReady, WorkerRemoved
from tests.scenario import cluster, messages_of

REQUEST = Request(0, 8, 1, ())


class OneAtATime(RoundRobin):
    """Lets a request wait until the one before it has ended."""

    follows_requests = True

    def __init__(self) -> None:
        super().__init__()
        self.waiting: list[Request] = []
        self.busy = False
        self.calls: list[str] = []

    def place(self, request: Request, now_ms: float) -> Decision:
        if self.busy:
            self.waiting.append(request)
            return Decision(None)
        self.busy = True
        return super().place(request, now_ms)

    def observe(self, worker_id: int, dp_rank: int, events: Sequence[KvEvent], now_ms: float) -> tuple[Placement, ...]:
        self.calls.append(f"{now_ms}: {' '.join(type(event).__name__ for event in events)}")
        return ()

    def prefill_completed(self, ordinal: int, now_ms: float) -> tuple[Placement, ...]:
        self.calls.append(f"{now_ms}: prefill of {ordinal}")
        return ()

    def request_terminal(self, ordinal: int, now_ms: float) -> tuple[Placement, ...]:
        self.calls.append(f"{now_ms}: end of {ordinal}")
        if not self.waiting:
            self.busy = False
            return ()
        placement = super().place(self.waiting.pop(0), now_ms).placement
        assert placement is not None
        return (placement,)


class KvAware(OneAtATime):
    consumes_kv_events = True


def test_a_policy_of_the_callers_own_queues_and_releases() -> None:
    policy = OneAtATime()
    log, report = messages_of(cluster((0.0, 8, 2), (3.0, 8, 1), workers=2), placement=policy)
    assert [line for line in log if "Dispatch" in line[2]] == [
        (0.0, "admission", "router > worker-0: Dispatch a"),
        (11.0, "completions", "router > worker-1: Dispatch b"),
    ]
    assert report.requests is not None
    immediate, queued = (record.routing_history[0] for record in report.requests)
    assert (immediate.outcome, immediate.queue_wait_ms, immediate.released_at_ms) == ("immediate", 0.0, None)
    assert (queued.outcome, queued.queue_entered_at_ms, queued.released_at_ms) == ("queued", 3.0, 11.0)
    assert (queued.queue_wait_ms, queued.logical_worker_id) == (8.0, 1)


def test_a_policy_hears_of_kv_events_first_tokens_and_ends() -> None:
    policy = KvAware()
    messages_of(cluster((0.0, 8, 6)), placement=policy)
    assert policy.calls == ["10.0: BlocksStored", "10.0: prefill of 0", "14.0: BlocksStored", "15.0: end of 0"]


def test_kv_events_are_produced_for_policies_that_consume_them_only() -> None:
    policy = OneAtATime()
    messages_of(cluster((0.0, 8, 6)), placement=policy)
    assert policy.calls == ["10.0: prefill of 0", "15.0: end of 0"]


def test_round_robin_takes_workers_and_their_ranks_in_turn() -> None:
    policy = RoundRobin()
    policy.worker_ready(1, (2, 3))
    policy.worker_ready(0, (0, 1))
    assert [_choice(policy) for _ in range(5)] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 0)]


def test_round_robin_keeps_its_position_when_workers_come_and_go() -> None:
    policy = RoundRobin()
    for worker_id in range(3):
        policy.worker_ready(worker_id, (worker_id,))
    assert [_choice(policy)[0] for _ in range(4)] == [0, 1, 2, 0]
    policy.worker_draining(2)
    assert [_choice(policy)[0] for _ in range(4)] == [1, 0, 1, 0]
    policy.worker_removed(2)
    policy.worker_ready(3, (3,))
    policy.worker_ready(4, (4,))
    assert [_choice(policy)[0] for _ in range(4)] == [1, 3, 4, 0]


def test_round_robin_without_a_worker_is_an_error() -> None:
    with pytest.raises(ReplayError, match="no active workers for round-robin placement"):
        _choice(RoundRobin())


def test_the_router_passes_changes_of_the_topology_on() -> None:
    router = start_actor("cooperative", Router, RoundRobin())

    def tell(message: object) -> list[Outgoing]:
        reply: Reply = router.ask(Envelope(1.0, 1, Phase.ADMISSION, 0, 0, "test", "router", message))
        return list(reply.outbox)

    tell(WorkerReady(0, (0,)))
    tell(WorkerReady(1, (1,)))
    tell(WorkerDraining(0))
    tell(WorkerRemoved(0))
    routed, dispatch = tell(PlaceRequest(REQUEST))
    router.stop()
    assert (routed.receiver, routed.message.worker_id) == ("collector", 1)
    assert (dispatch.receiver, dispatch.message) == ("worker-1", Dispatch(REQUEST, 0))


def _choice(policy: RoundRobin) -> tuple[int, int]:
    placement = policy.place(REQUEST, 0.0).placement
    assert placement is not None
    return placement.worker_id, placement.dp_rank
