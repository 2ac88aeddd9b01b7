"""From a ReplaySpec to its actors, and from their run to the report."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pykka

from actors.collector import Collector
from actors.coordinator import Coordinator
from actors.handoff import HandoffActor, TransferModel
from actors.handoff_worker import DecodeWorker, PrefillWorker
from actors.interrupts import noted_interrupts
from actors.names import AGGREGATED, CLIENT, COLLECTOR, DECODE, HANDOFF, PREFILL, SAMPLER, SCALER, PoolNames
from actors.pool import Pool
from actors.reporting.scaling import with_planner
from actors.routing.placement import PlacementPolicy
from actors.routing.round_robin import PoolRoundRobin, RoundRobin
from actors.routing.router import Router
from actors.runtime import Runtime, SimActor, start_actor
from actors.sampler import Sampler
from actors.scaler import Scaler, ScalingPolicy
from actors.worker import Worker
from actors.workload.client import Client
from actors.workload.loading import load_workload
from actors.workload.source import Workload
from engines.engine import EngineOptions, Role
from engines.schedulers import build_engine
from engines.timing.adjusted import model_warnings
from engines.timing.durations import Durations
from engines.timing.model import AnyTimingModel, build_timing, request_overhead_ms
from messages.envelope import Envelope, Phase
from messages.errors import InputError, PolicyError
from messages.kv_router import KvRouterConfig
from messages.report import ConcludeRun, ReplayReport
from messages.requests import ReleaseArrivals
from messages.scaling import StartPool
from messages.spec import DisaggregatedTopology, KvRouterPlacement, NoScaling, PoolSpec, ReplaySpec, RoleSpec
from messages.telemetry import ReportSamples

if TYPE_CHECKING:
    from actors.planner.bootstrap import BootstrapSession
    from actors.timeline.observer import Timeline

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
    scaling_policy: ScalingPolicy | None = None,
    planner_bootstrap: BootstrapSession | None = None,
    observe: Callable[[Envelope], None] | None = None,
    timeline: Timeline | None = None,
    progress: Callable[[Progress], None] | None = None,
    workload: Workload | None = None,
) -> ReplayReport:
    """Replay a spec.

    base_dir: directory that relative paths in the spec start from.
    runtime: one thread for all actors ("cooperative") or one each ("threads"); results are the same.
    step: run every pass by itself instead of merging runs of identical decode passes; results are the same.
    placement: a policy of the caller's own instead of the one that the spec names; for aggregated clusters.
    scaling_policy: decides how many workers there are, instead of what the spec names.
    planner_bootstrap: tells a planner with target sla how long passes take.
    observe: called with every delivered message, in order.
    timeline: sees every delivered message too, and what ranks hold; results are the same.
    workload: what to replay instead of the workload that the spec names.

    Raises:
        Exception: whatever a scaling policy raises.
        InputError: the workload, the timing profile or the router policy cannot be used, or a policy is given for
            two pools.
        ReplayError: the run failed.
    """
    started = time.perf_counter()
    if placement is not None and isinstance(spec.topology, DisaggregatedTopology):
        raise InputError("placement: a policy of your own is for an aggregated topology; this spec has two pools")
    if scaling_policy is None and not isinstance(spec.adapters.scaling, NoScaling):
        from actors.planner.build import build_scaling_policy

        scaling_policy = build_scaling_policy(spec, base_dir, planner_bootstrap)
    if workload is None:
        workload = load_workload(spec, base_dir)
    options = EngineOptions(
        merge_passes=not step,
        horizon_ms=spec.max_sim_time_ms,
        strict=spec.strict,
        capture_metrics=scaling_policy is not None or spec.telemetry is not None,
    )
    total = sum(len(session.turns) for session in workload.sessions)
    report_progress = None
    if progress is not None:
        tell = progress

        def report_progress(done: int, now_ms: float) -> None:
            tell(Progress(done, total, now_ms))

    topology = spec.topology
    pools: dict[str, Callable[[int], None]] = {}
    coordinator = Coordinator(
        disaggregated=isinstance(topology, DisaggregatedTopology),
        gives_up=isinstance(topology, DisaggregatedTopology) and not spec.strict,
        max_sim_time_ms=spec.max_sim_time_ms,
        observe=_observers(observe, timeline),
        progress=report_progress,
        start_worker=lambda pool, worker_id: pools[pool](worker_id),
        scaler=SCALER if scaling_policy is not None else None,
        sampler=SAMPLER if spec.telemetry is not None else None,
    )
    with _actors(runtime, coordinator) as start:
        policies = _Policies(spec, base_dir, placement)
        start(
            CLIENT,
            Client,
            workload,
            disaggregated=isinstance(topology, DisaggregatedTopology),
            # Requests enter where their prompts are built.
            overhead_ms=request_overhead_ms(spec.ranks[0].timing_model, base_dir),
        )
        cluster = _Cluster(start, coordinator, options, base_dir, pools, tell_gauges=timeline is not None)
        prefill_gpus = 0
        if isinstance(topology, DisaggregatedTopology):
            prefill, decode = spec.engine.role(spec.engine.prefill), spec.engine.role(spec.engine.decode)
            transfers = TransferModel(prefill.rank, topology.handoff_latency_ms)
            start(
                HANDOFF,
                HandoffActor,
                transfers,
                destination_first=prefill.rank.backend == "sglang",
                tell_routers=policies.follow_requests,
            )
            cluster.add_pool(PREFILL, topology.prefill, prefill, Role.PREFILL, policies.of_pool(PREFILL, prefill))
            cluster.add_pool(DECODE, topology.decode, decode, Role.DECODE, policies.of_pool(DECODE, decode))
            prefill_gpus, gpus = _gpus(prefill), _gpus(decode)
        else:
            engine = spec.engine.role()
            policy = policies.of_pool(AGGREGATED, engine)
            cluster.add_pool(AGGREGATED, topology.workers, engine, Role.AGGREGATED, policy)
            gpus = _gpus(engine)
        names = (PREFILL, DECODE) if isinstance(topology, DisaggregatedTopology) else (AGGREGATED,)
        if scaling_policy is not None:
            start(SCALER, Scaler, scaling_policy, names)
        if spec.telemetry is not None:
            start(SAMPLER, Sampler, spec.telemetry.sample_interval_ms, names)
        start(
            COLLECTOR,
            Collector,
            gpus_per_worker=gpus,
            prefill_gpus_per_worker=prefill_gpus,
            sla=spec.sla,
            record_per_request=spec.record_per_request,
            speculates=any(rank.aic_nextn is not None for rank in spec.ranks),
            scales=scaling_policy is not None,
            samples=spec.telemetry is not None,
            retracts=frozenset(
                pool.label for pool, rank in zip(names, spec.ranks, strict=True) if rank.backend == "sglang"
            ),
        )
        coordinator.post(CLIENT, ReleaseArrivals(), Phase.ADMISSION)
        # An interrupt in the middle of a message could leave the lock of an actor's inbox taken for good.
        with noted_interrupts(coordinator.interrupt):
            try:
                coordinator.run()
            except PolicyError as error:
                raise error.error from None
        conclude = ConcludeRun(
            worker_seconds=coordinator.worker_seconds(AGGREGATED.pool) + coordinator.worker_seconds(DECODE.pool),
            prefill_worker_seconds=coordinator.worker_seconds(PREFILL.pool),
            wall_time_ms=(time.perf_counter() - started) * 1000.0,
            warnings=(*workload.warnings, *cluster.timing_warnings()),
        )
        report: ReplayReport = coordinator.call(COLLECTOR, conclude)
        if spec.telemetry is not None:
            report = msgspec.structs.replace(report, telemetry=coordinator.call(SAMPLER, ReportSamples()))
        details = getattr(scaling_policy, "details", None)
        return report if details is None else with_planner(report, details())


def _observers(
    observe: Callable[[Envelope], None] | None, timeline: Timeline | None
) -> Callable[[Envelope], None] | None:
    """One observer for both."""
    if observe is None or timeline is None:
        return observe or timeline
    first, second = observe, timeline

    def observe_both(envelope: Envelope) -> None:
        first(envelope)
        second(envelope)

    return observe_both


class _Policies:
    """The placement policies of a run: one of the caller's own, or what the spec names.

    Attributes:
        follow_requests: whether the policies of two pools hear of the ends of requests.
    """

    def __init__(self, spec: ReplaySpec, base_dir: Path, own: PlacementPolicy | None) -> None:
        self._own = own
        self._config: KvRouterConfig | None = None
        placement = spec.adapters.placement
        if own is None and isinstance(placement, KvRouterPlacement):
            from actors.routing.kv.settings import load_router_config

            self._config = load_router_config(placement.config, base_dir)
        self.follow_requests = self._config is not None

    def of_pool(self, names: PoolNames, engine: RoleSpec) -> PlacementPolicy:
        """The policy for a pool of such workers."""
        if self._own is not None:
            return self._own
        if self._config is None:
            return RoundRobin() if names is AGGREGATED else PoolRoundRobin()
        from actors.routing.kv.policy import KvRouter
        from actors.routing.kv.settings import router_options

        return KvRouter(router_options(self._config, engine.rank, names))


class _Cluster:
    """Starts the actors around pools of workers."""

    def __init__(
        self,
        start: Callable[..., None],
        coordinator: Coordinator,
        options: EngineOptions,
        base_dir: Path,
        pools: dict[str, Callable[[int], None]],
        *,
        tell_gauges: bool,
    ) -> None:
        self._pools = pools
        self._tell_gauges = tell_gauges
        self._start = start
        self._coordinator = coordinator
        self._options = options
        self._base_dir = base_dir
        self._timing_models: list[AnyTimingModel] = []

    def timing_warnings(self) -> list[str]:
        """What the timing models of the pools have to say after the run."""
        return list(dict.fromkeys(text for model in self._timing_models for text in model_warnings(model)))

    def add_pool(self, names: PoolNames, pool: PoolSpec, engine: RoleSpec, role: Role, policy: PlacementPolicy) -> None:
        """Start a pool's own actor, its router and its workers; `pools` then knows how to start more of these."""
        worker_class = {Role.AGGREGATED: Worker, Role.PREFILL: PrefillWorker, Role.DECODE: DecodeWorker}[role]
        timing_model = build_timing(engine.rank.timing_model, self._base_dir)
        self._timing_models.append(timing_model)
        durations = Durations.of_rank(engine.rank, timing_model)
        self._start(
            names.router, Router, names, policy, reserves=role is Role.DECODE, holds_sources=role is Role.PREFILL
        )
        self._start(names.pool, Pool, names, pool.initial_workers, engine.dp_size, pool.startup_delay_ms)
        options = msgspec.structs.replace(
            self._options,
            role=role,
            capture_kv_events=policy.consumes_kv_events,
            show_first_tokens=policy.follows_requests,
        )
        tell_router = policy.follows_requests or policy.consumes_kv_events

        def start_worker(worker_id: int) -> None:
            group = build_engine(engine, durations, msgspec.structs.replace(options, worker_id=worker_id))
            if options.capture_metrics:
                # Nobody knows yet when the first tick will be.
                group.run_until(self._coordinator.now_ms)
            name = names.worker(worker_id)
            ids = tuple(range(worker_id * engine.dp_size, (worker_id + 1) * engine.dp_size))
            self._start(
                name,
                worker_class,
                names,
                worker_id,
                ids,
                group,
                tell_router=tell_router,
                capture_metrics=options.capture_metrics,
                tell_gauges=self._tell_gauges,
            )
            self._coordinator.expect_offers(name, names.starts, worker_id)

        self._pools[names.pool] = start_worker
        for worker_id in range(pool.initial_workers):
            start_worker(worker_id)
        self._coordinator.post(names.pool, StartPool(), Phase.WORKER_READY)


def _gpus(engine: RoleSpec) -> int:
    """GPUs of a logical worker."""
    return engine.tensor_parallel_size * engine.dp_size


@contextlib.contextmanager
def _actors(runtime: Runtime, coordinator: Coordinator) -> Iterator[Callable[..., None]]:
    """Start actors inside the block, under the names they are given; they are stopped at its end, however it ends."""
    started: list[pykka.ActorRef[SimActor]] = []

    def start(name: str, actor_class: type[SimActor], *args: Any, **kwargs: Any) -> None:
        ref = start_actor(runtime, actor_class, *args, **kwargs)
        started.append(ref)
        coordinator.register(name, ref)

    try:
        yield start
    finally:
        for ref in started:
            with contextlib.suppress(pykka.Timeout):
                ref.stop(timeout=_STOP_SECONDS)
