"""When load and throughput scaling are due."""

from __future__ import annotations

from messages.planner import PlannerConfig
from messages.planner_report import ScheduledTick

_TOLERANCE_S = 1e-9


class Cadence:
    """Ticks come every base interval; each kind of scaling runs at those that its own interval has passed at."""

    def __init__(self, config: PlannerConfig) -> None:
        self._load_s = float(config.load_adjustment_interval_seconds)
        self._throughput_s = float(config.throughput_adjustment_interval_seconds)
        self._by_throughput = config.enable_throughput_scaling
        self._is_sla = config.optimization_target == "sla"
        self._last_load_s = 0.0
        self._last_throughput_s = 0.0

    def at(self, at_s: float) -> ScheduledTick:
        """What is due at a time."""
        load = at_s - self._last_load_s >= self._load_s - _TOLERANCE_S
        throughput = self._by_throughput and at_s - self._last_throughput_s >= self._throughput_s - _TOLERANCE_S
        traffic_s = 0.0
        if throughput:
            traffic_s = self._throughput_s
        elif load and self._is_sla and not self._by_throughput:
            traffic_s = self._load_s
        return ScheduledTick(
            at_s=at_s,
            run_load_scaling=load,
            run_throughput_scaling=throughput,
            need_traffic_metrics=traffic_s > 0,
            use_full_traffic_metrics=throughput,
            traffic_metrics_duration_s=traffic_s,
            need_worker_states=True,
            need_worker_fpm=load,
            at_monotonic_s=at_s,
        )

    def done(self, tick: ScheduledTick) -> None:
        """A tick has run."""
        if tick.run_load_scaling:
            self._last_load_s = tick.at_s
        if tick.run_throughput_scaling:
            self._last_throughput_s = tick.at_s
