"""The two pykka runtimes carry the same actors with the same results, and both end a run cleanly."""

from __future__ import annotations

import threading
from typing import Any

import pykka
import pytest

from actors import replay
from actors.coordinator import Coordinator
from actors.runtime import Runtime, SimActor, handles, start_actor
from messages.envelope import NOTHING, Envelope, Outgoing, Phase, Reply
from messages.errors import ReplayError
from messages.requests import ReleaseArrivals
from messages.scaling import StartPool
from tests.scenario import cluster, messages_of

RUNTIMES: tuple[Runtime, ...] = ("cooperative", "threads")
WORKLOAD = cluster(
    (0.0, 30, 9),
    (0.0, 12, 20),
    (3.5, 18, 4),
    (3.5, 40, 1),
    (11.0, 25, 12),
    (12.0, 9, 0),
    (30.0, 11, 7),
    workers=2,
    blocks=16,
)


class Failing(SimActor):
    """Raises what it was told to raise."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    @handles(ReleaseArrivals)
    def fail(self, message: ReleaseArrivals, envelope: Envelope) -> Reply:
        raise self._error


class Recorder(SimActor):
    """Sends what it was told to send, once."""

    def __init__(self, outbox: list[Outgoing]) -> None:
        super().__init__()
        self._outbox = outbox
        self.seen: list[tuple[float, int]] = []

    @handles(StartPool)
    def send(self, message: StartPool, envelope: Envelope) -> Reply:
        return Reply(outbox=self._outbox)

    @handles(ReleaseArrivals)
    def take(self, message: ReleaseArrivals, envelope: Envelope) -> Reply:
        self.seen.append((envelope.at_ms, envelope.key))
        return NOTHING


def _run_one(runtime: Runtime, actor_class: type[SimActor], argument: Any, message: Any) -> pykka.ActorRef[Any]:
    coordinator = Coordinator()
    ref = start_actor(runtime, actor_class, argument)
    try:
        coordinator.register("subject", ref)
        coordinator.post("subject", message, Phase.ADMISSION)
        coordinator.run()
    finally:
        ref.stop(block=False)
    return ref


def test_message_logs_and_reports_are_the_same_on_both_runtimes() -> None:
    (cooperative, report), (threaded, other) = (messages_of(WORKLOAD, runtime=runtime) for runtime in RUNTIMES)
    assert cooperative == threaded
    assert report.requests == other.requests


def test_the_cooperative_runtime_starts_no_thread() -> None:
    seen: set[str] = set()
    replay(WORKLOAD, observe=lambda _: seen.update(thread.name for thread in threading.enumerate()))
    assert len(seen) == 1


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_no_actor_outlives_a_run(runtime: Runtime) -> None:
    replay(WORKLOAD, runtime=runtime)
    assert pykka.ActorRegistry.get_all() == []


@pytest.mark.parametrize("runtime", RUNTIMES)
def test_a_fault_in_a_handler_names_actor_message_and_time(runtime: Runtime) -> None:
    with pytest.raises(ReplayError) as raised:
        _run_one(runtime, Failing, KeyError("block 7"), ReleaseArrivals())
    assert str(raised.value) == "actor subject failed on ReleaseArrivals at 0.0 ms: KeyError: 'block 7'"


def test_an_interrupt_passes_through_the_cooperative_runtime() -> None:
    with pytest.raises(KeyboardInterrupt):
        _run_one("cooperative", Failing, KeyboardInterrupt(), ReleaseArrivals())


@pytest.mark.parametrize("at_ms", [float("inf"), float("nan"), -1.0])
def test_a_time_that_is_not_finite_or_past_is_refused(at_ms: float) -> None:
    outbox = [Outgoing("subject", ReleaseArrivals(), at_ms)]
    with pytest.raises(ReplayError, match=r"sent ReleaseArrivals for (inf|nan|-1.0) ms at 0.0 ms"):
        _run_one("cooperative", Recorder, outbox, StartPool())


def test_envelopes_due_at_one_time_are_released_by_phase_key_and_send_order() -> None:
    seen: list[tuple[float, str, int, int]] = []
    outbox = [
        Outgoing("subject", ReleaseArrivals(), 5.0, Phase.ADMISSION, 0),
        Outgoing("subject", ReleaseArrivals(), 5.0, Phase.COMPLETIONS, 2),
        Outgoing("subject", ReleaseArrivals(), 5.0, Phase.COMPLETIONS, 1),
        Outgoing("subject", ReleaseArrivals(), 5.0, Phase.COMPLETIONS, 1),
        Outgoing("subject", ReleaseArrivals(), 4.0, Phase.START, 9),
        Outgoing("subject", ReleaseArrivals()),
    ]
    coordinator = Coordinator(
        observe=lambda envelope: seen.append((envelope.at_ms, envelope.phase.name, envelope.key, envelope.seq_no))
    )
    ref = start_actor("cooperative", Recorder, outbox)
    coordinator.register("subject", ref)
    coordinator.post("subject", StartPool(), Phase.WORKER_READY)
    coordinator.run()
    ref.stop()
    assert seen == [
        (0.0, "WORKER_READY", 0, 0),
        (0.0, "WORKER_READY", 0, 6),
        (4.0, "START", 9, 5),
        (5.0, "COMPLETIONS", 1, 3),
        (5.0, "COMPLETIONS", 1, 4),
        (5.0, "COMPLETIONS", 2, 2),
        (5.0, "ADMISSION", 0, 1),
    ]
