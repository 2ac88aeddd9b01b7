"""The planner as a scaling policy: snapshots of the cluster in, pool sizes out."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from actors.planner import bootstrap, metadata
from actors.planner.bootstrap import BootstrapSession
from actors.planner.cadence import Cadence
from actors.planner.configuration import mode_faults
from actors.planner.fleet import EngineCapabilities, Role, build_fleet
from actors.planner.metrics import PassCache, in_order
from actors.planner.pipeline import Pipeline
from actors.planner.traffic import PendingTraffic
from actors.planner.warmup import load_windows
from messages.errors import InputError
from messages.planner import PlannerConfig
from messages.planner_report import (
    Effects,
    Observation,
    Observations,
    PassMetrics,
    PlannerDetails,
    PlannerTick,
    PoolTopology,
    RuntimeDecision,
    ScaleTo,
    ScalingEvent,
    ScheduledTick,
    TickInput,
    Topology,
    Traffic,
    WorkerCounts,
)


class Planner:
    """A scaling policy for one run, with the callbacks `initial_tick_ms` and `on_tick`.

    config: complete, of mode agg or disagg.
    decode, prefill: the engines of the pools; an aggregated cluster has no prefill.
    session: what bootstraps the performance model, for target sla.
    base_dir: where a relative path of a warm-up trace starts.

    Raises InputError if the mode does not fit the pools, the warm-up trace cannot be used, or the library of the
    predictor is missing while throughput scaling is on.
    """

    def __init__(
        self,
        config: PlannerConfig,
        *,
        decode: EngineCapabilities,
        prefill: EngineCapabilities | None = None,
        session: BootstrapSession | None = None,
        base_dir: Path = Path(),
    ) -> None:
        findings = mode_faults(config, "disagg" if prefill else "agg")
        if findings:
            raise InputError(*findings)
        self._config = config
        self._is_disaggregated = prefill is not None
        self._interval_s = config.scale_interval_s
        self._cadence = Cadence(config)
        fleet = build_fleet(config, decode, prefill)
        self._pipeline = Pipeline(config, fleet)
        self._pipeline.warm_up(load_windows(config, base_dir))
        self._metadata = metadata.describe(config, bootstrap.install(session, fleet, self._pipeline.models))
        self._caches: dict[Role, PassCache] = {"prefill": PassCache(), "decode": PassCache()}
        self._traffic = PendingTraffic()
        # The sizes last asked for, as long as the pools have not reached them.
        self._targets: dict[Role, int | None] = {"prefill": None, "decode": None}
        self._next_tick_s = self._interval_s
        self._ticks: list[PlannerTick] = []
        self._events: list[ScalingEvent] = []

    def initial_tick_ms(self) -> float:
        """Simulated time of the first tick."""
        return self._next_tick_s * 1000

    def on_tick(self, snapshot: Mapping[str, Any]) -> dict[str, Any]:
        """Decide on a snapshot: `target_prefill`, `target_decode` (None: as it is) and `next_tick_ms`."""
        now_s = self._next_tick_s
        tick = self._cadence.at(now_s)
        current: dict[Role, int] = {
            "prefill": snapshot["non_draining_prefill_count"],
            "decode": snapshot["non_draining_decode_count"],
        }
        counts = self._worker_counts(snapshot, current)
        self._caches["prefill"].update(snapshot["prefill_fpm_snapshots"], snapshot["active_prefill_ids"])
        self._caches["decode"].update(snapshot["decode_fpm_snapshots"], snapshot["active_decode_ids"])
        self._traffic.add(snapshot["traffic"])
        traffic = self._traffic.take() if tick.need_traffic_metrics else None
        passes: dict[Role, list[PassMetrics]] = {"prefill": [], "decode": []}
        if tick.need_worker_fpm:
            passes = {role: cache.passes for role, cache in self._caches.items()}

        scale_to, diagnostics = self._pipeline.run(tick, counts, traffic, passes)
        self._cadence.done(tick)
        for role, target in self._targets.items():
            if target == current[role]:
                self._targets[role] = None
        targets = self._issue(scale_to, current, now_s)
        self._next_tick_s = now_s + self._interval_s
        decision = RuntimeDecision(*targets, self._next_tick_s * 1000)
        effects = Effects(scale_to, self._cadence.at(self._next_tick_s), diagnostics)
        self._record(snapshot, tick, _tick_input(now_s, traffic, counts, passes), effects, decision)
        return {
            "target_prefill": decision.target_prefill,
            "target_decode": decision.target_decode,
            "next_tick_ms": decision.next_tick_ms,
        }

    def details(self) -> PlannerDetails:
        """Everything about the ticks so far."""
        return PlannerDetails(self._metadata, list(self._ticks), list(self._events), len(self._ticks))

    def _worker_counts(self, snapshot: Mapping[str, Any], current: Mapping[Role, int]) -> WorkerCounts:
        expected = {role: current[role] if target is None else target for role, target in self._targets.items()}
        moving = {role: target is not None and target != current[role] for role, target in self._targets.items()}
        two = self._is_disaggregated
        return WorkerCounts(
            ready_num_prefill=snapshot["active_prefill_count"] if two else None,
            ready_num_decode=snapshot["active_decode_count"],
            expected_num_prefill=expected["prefill"] if two else None,
            expected_num_decode=expected["decode"],
            prefill_scaling_in_progress=moving["prefill"],
            decode_scaling_in_progress=moving["decode"],
        )

    def _issue(
        self, scale_to: ScaleTo | None, current: Mapping[Role, int], now_s: float
    ) -> tuple[int | None, int | None]:
        """Turn the wish of the pipeline into targets of the pools, and remember what is new."""
        if scale_to is None:
            return None, None
        named: dict[Role, int | None] = {"prefill": scale_to.num_prefill, "decode": scale_to.num_decode}
        targets = {role: current[role] if wanted is None else wanted for role, wanted in named.items()}
        if targets == current:
            return None, None
        for role, wanted in named.items():
            if wanted is not None and wanted != current[role]:
                self._targets[role] = wanted
                self._events.append(
                    ScalingEvent(
                        now_s,
                        role if self._is_disaggregated else "agg",
                        current[role],
                        wanted,
                        "scale_up" if wanted > current[role] else "scale_down",
                    )
                )
        return targets["prefill"], targets["decode"]

    def _record(
        self,
        snapshot: Mapping[str, Any],
        tick: ScheduledTick,
        tick_input: TickInput,
        effects: Effects,
        decision: RuntimeDecision,
    ) -> None:
        topology = Topology(_pool(snapshot, "prefill"), _pool(snapshot, "decode"))
        ordinal, at_ms = snapshot["tick_ordinal"], snapshot["now_ms"]
        self._ticks.append(PlannerTick(ordinal, at_ms, tick, tick_input, topology, effects, decision))


def _tick_input(
    now_s: float, traffic: Traffic | None, counts: WorkerCounts, passes: Mapping[Role, list[PassMetrics]]
) -> TickInput:
    return TickInput(
        now_s, traffic, counts, Observations(_observations(passes["prefill"]), _observations(passes["decode"]))
    )


def _observations(passes: list[PassMetrics]) -> list[Observation] | None:
    return [Observation(metrics.worker_id, metrics.dp_rank, metrics) for metrics in in_order(passes)] or None


def _pool(snapshot: Mapping[str, Any], role: Role) -> PoolTopology:
    active, starting, draining = (list(snapshot[f"{state}_{role}_ids"]) for state in ("active", "starting", "draining"))
    return PoolTopology(active, len(active), starting, len(starting), draining, len(draining))
