"""The router actor and its policies, through a whole run and alone."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from actors.names import AGGREGATED
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

    def observe(
        self, worker_id: int, dp_rank: int, passes: int, events: Sequence[KvEvent], now_ms: float
    ) -> tuple[Placement, ...]:
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
    assert policy.calls == ["10.0: BlocksStored", "10.0: prefill of 0", "15.0: end of 0"]


class Scripted(RoundRobin):
    """Places requests on given workers; one may have to wait for the end of another."""

    follows_requests = True

    def __init__(self, workers: dict[int, int], waits_for: dict[int, int]) -> None:
        super().__init__()
        self._workers = workers
        self._waits_for = waits_for
        self._waiting: dict[int, Request] = {}

    def place(self, request: Request, now_ms: float) -> Decision:
        if request.ordinal in self._waits_for:
            self._waiting[self._waits_for[request.ordinal]] = request
            return Decision(None)
        return Decision(Placement(request, self._workers[request.ordinal], 0))

    def request_terminal(self, ordinal: int, now_ms: float) -> tuple[Placement, ...]:
        request = self._waiting.pop(ordinal, None)
        return () if request is None else (Placement(request, self._workers[request.ordinal], 0),)


@pytest.mark.parametrize("step", [False, True])
def test_a_release_to_a_worker_whose_run_ends_at_that_instant(step: bool) -> None:
    """Both runs end at 14 ms; the end of a, on worker 0, comes first and releases c to worker 1."""
    policy = Scripted({0: 0, 1: 1, 2: 1}, waits_for={2: 0})
    _, report = messages_of(cluster((0.0, 8, 5), (0.0, 8, 5), (1.0, 8, 2), workers=2), placement=policy, step=step)
    assert report.requests is not None
    assert [record.terminal_time_ms for record in report.requests] == [14.0, 14.0, 25.0]
    assert report.requests[2].first_admit_ms == 14.0


@pytest.mark.parametrize("step", [False, True])
@pytest.mark.parametrize(
    ("rejecting", "running", "admitted_ms"), [(0, 1, 12.0), (1, 0, 13.0)], ids=["lower worker", "higher worker"]
)
def test_a_release_in_the_start_phase_meets_a_boundary_of_a_run(
    rejecting: int, running: int, admitted_ms: float, step: bool
) -> None:
    """At 12 ms a pass of no duration rejects c, which releases b; the other worker is at a boundary of its run.

    Workers start by id: one with a higher id has not started its next pass yet, one with a lower id has.
    """
    policy = Scripted({0: running, 1: running, 2: rejecting}, waits_for={1: 2})
    spec = cluster((0.0, 8, 9), (5.0, 8, 1), (12.0, 400, 1), workers=2)
    _, report = messages_of(spec, placement=policy, step=step)
    assert report.requests is not None
    assert report.requests[2].terminal_status == "rejected"
    assert report.requests[1].first_admit_ms == admitted_ms


def test_kv_events_are_produced_for_policies_that_consume_them_only() -> None:
    policy = OneAtATime()
    messages_of(cluster((0.0, 8, 6)), placement=policy)
    assert policy.calls == ["10.0: prefill of 0", "15.0: end of 0"]


def test_round_robin_takes_workers_and_their_ranks_in_turn() -> None:
    policy = RoundRobin()
    policy.worker_ready(1, (2, 3))
    policy.worker_ready(0, (0, 1))
    assert [_choice(policy) for _ in range(5)] == [(0, 0), (1, 0), (0, 1), (1, 1), (0, 0)]


def test_a_request_may_ask_for_a_rank() -> None:
    spec = cluster((0.0, 8, 1), (0.0, 8, 1), (0.0, 8, 1), workers=1)
    spec["engine"]["dp_size"] = 2
    spec["requests"][0]["dp_rank"] = 1
    _, report = messages_of(spec)
    assert report.requests is not None
    # The rank that was asked for does not move the turn of the others.
    assert [record.routing_history[0].dp_rank for record in report.requests] == [1, 0, 1]
    assert [record.decode_worker_idx for record in report.requests] == [1, 0, 1]


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
    router = start_actor("cooperative", Router, AGGREGATED, RoundRobin())

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
