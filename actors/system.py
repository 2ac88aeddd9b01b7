"""From a ReplaySpec to its actors, and from their run to the report."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import msgspec
import pykka

from actors.collector import Collector
from actors.coordinator import Coordinator
from actors.names import CLIENT, COLLECTOR, POOL, ROUTER, worker_name
from actors.pool import Pool
from actors.routing.placement import PlacementPolicy
from actors.routing.round_robin import RoundRobin
from actors.routing.router import Router
from actors.runtime import Runtime, SimActor, start_actor
from actors.worker import Worker
from actors.workload.client import Client
from actors.workload.loading import load_workload
from engines.engine import EngineOptions
from engines.schedulers import build_engine
from engines.timing.durations import Durations
from engines.timing.model import build_timing
from messages.envelope import Envelope, Phase
from messages.report import ConcludeRun, ReplayReport
from messages.requests import ReleaseArrivals
from messages.scaling import StartPool
from messages.spec import ReplaySpec

_STOP_SECONDS = 1.0
"""How long to wait for an actor's thread that is still at work when a run is interrupted."""


class Progress(msgspec.Struct, frozen=True):
    """How far a run has come: requests ended, requests in all, virtual time in ms."""

    done: int
    total: int
    now_ms: float


def run(
    spec: ReplaySpec,
    base_dir: Path,
    *,
    runtime: Runtime = "cooperative",
    step: bool = False,
    placement: PlacementPolicy | None = None,
    observe: Callable[[Envelope], None] | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> ReplayReport:
    """Replay a spec.

    base_dir: directory that relative paths in the spec start from.
    runtime: one thread for all actors ("cooperative") or one each ("threads"); results are the same.
    step: run every pass by itself instead of merging runs of identical decode passes; results are the same.
    placement: a policy of the caller's own instead of the one that the spec names.
    observe: called with every delivered message, in order.

    Raises:
        InputError: the workload or the timing profile cannot be used.
        ReplayError: the run failed.
    """
    started = time.perf_counter()
    workload = load_workload(spec, base_dir)
    policy = placement or RoundRobin()
    options = EngineOptions(
        merge_passes=not step,
        horizon_ms=spec.max_sim_time_ms,
        strict=spec.strict,
        capture_kv_events=policy.consumes_kv_events,
    )
    rank = spec.engine.rank
    durations = Durations.of_rank(rank, build_timing(rank.timing_model, base_dir))
    total = sum(len(session.turns) for session in workload.sessions)
    report_progress = None
    if progress is not None:
        tell = progress

        def report_progress(done: int, now_ms: float) -> None:
            tell(Progress(done, total, now_ms))

    coordinator = Coordinator(max_sim_time_ms=spec.max_sim_time_ms, observe=observe, progress=report_progress)
    with _actors() as start:
        pool = spec.topology.workers
        dp_size = spec.engine.dp_size
        workers = [
            tuple(range(worker_id * dp_size, (worker_id + 1) * dp_size)) for worker_id in range(pool.initial_workers)
        ]
        coordinator.register(CLIENT, start(runtime, Client, workload))
        coordinator.register(ROUTER, start(runtime, Router, policy))
        coordinator.register(POOL, start(runtime, Pool, workers))
        collector = start(
            runtime,
            Collector,
            gpus_per_worker=spec.engine.tensor_parallel_size * dp_size,
            sla=spec.sla,
            record_per_request=spec.record_per_request,
        )
        coordinator.register(COLLECTOR, collector)
        tell_router = policy.follows_requests or policy.consumes_kv_events
        for worker_id, scheduler_ids in enumerate(workers):
            engine = build_engine(spec.engine, durations, msgspec.structs.replace(options, worker_id=worker_id))
            worker = start(runtime, Worker, worker_id, scheduler_ids, engine, tell_router=tell_router)
            coordinator.register(worker_name(worker_id), worker, offer_key=worker_id)

        coordinator.post(POOL, StartPool(), Phase.WORKER_READY)
        coordinator.post(CLIENT, ReleaseArrivals(), Phase.ADMISSION)
        with _interrupts_between_messages(coordinator):
            coordinator.run()
        wall_time_ms = (time.perf_counter() - started) * 1000.0
        conclude = ConcludeRun(coordinator.worker_seconds, wall_time_ms, tuple(workload.warnings))
        report: ReplayReport = coordinator.call(COLLECTOR, conclude)
        return report


@contextlib.contextmanager
def _interrupts_between_messages(coordinator: Coordinator) -> Iterator[None]:
    """Have Ctrl-C wait for the end of the message under way.

    An interrupt in the middle of one could leave the lock of an actor's inbox taken for good. A second one gets
    through at once.
    """

    def handle(signal_number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        coordinator.interrupt()

    in_main_thread = threading.current_thread() is threading.main_thread()
    if not in_main_thread or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, handle)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@contextlib.contextmanager
def _actors() -> Iterator[Callable[..., pykka.ActorRef[SimActor]]]:
    """Start actors inside the block; they are stopped at its end, however it ends."""
    started: list[pykka.ActorRef[SimActor]] = []

    def start(runtime: Runtime, actor_class: type[SimActor], *args: Any, **kwargs: Any) -> pykka.ActorRef[SimActor]:
        ref = start_actor(runtime, actor_class, *args, **kwargs)
        started.append(ref)
        return ref

    try:
        yield start
    finally:
        for ref in started:
            with contextlib.suppress(pykka.Timeout):
                ref.stop(timeout=_STOP_SECONDS)
