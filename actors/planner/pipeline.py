"""One tick of the planner: learn, forecast, propose, project."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from actors.planner.estimator import EngineRole
from actors.planner.fleet import Fleet, LowerBounds, Observed, Proposal, Role
from actors.planner.load_scaling import LoadScaling, Passes
from actors.planner.projection import project
from actors.planner.role_model import RoleModel
from actors.planner.throughput_scaling import (
    PREDICT_FAILED,
    Forecast,
    PredictionError,
    ThroughputScaling,
    TrafficForecaster,
)
from messages.planner import PlannerConfig
from messages.planner_report import Diagnostics, ScaleTo, ScheduledTick, Traffic, WorkerCounts


class Pipeline:
    """The algorithms and all that they remember from tick to tick.

    Raises InputError at construction if the library of the configured predictor is missing and needed.
    """

    def __init__(self, config: PlannerConfig, fleet: Fleet) -> None:
        self._config = config
        self._fleet = fleet
        self._is_sla = config.optimization_target == "sla"
        self.models: Mapping[Role, RoleModel] = _models(config, fleet) if self._is_sla else {}
        self._lower_bounds = LowerBounds()
        self._observed = Observed(config)
        parts = (config, fleet, self.models, self._lower_bounds, self._observed)
        self._load = LoadScaling(*parts)
        self._throughput = ThroughputScaling(*parts)
        self._forecaster = TrafficForecaster(config) if config.enable_throughput_scaling else None

    def warm_up(self, windows: Iterable[Traffic]) -> None:
        """Let the predictors learn windows of the past."""
        if self._forecaster is not None:
            self._forecaster.warm_up(windows)

    def run(
        self, tick: ScheduledTick, counts: WorkerCounts, traffic: Traffic | None, passes: Passes
    ) -> tuple[ScaleTo | None, Diagnostics]:
        """Decide. `traffic`, `passes`: what the tick needs of them; passes are empty at ticks without load scaling."""
        diagnostics = Diagnostics()
        if tick.run_load_scaling:
            for role, model in self.models.items():
                model.learn(passes[role])
        if traffic is not None:
            self._observed.note(traffic.kv_hit_rate, traffic.accept_length)
        try:
            forecast = self._forecast(tick, traffic, diagnostics)
        except PredictionError:
            diagnostics.throughput_decision_reason = PREDICT_FAILED
            diagnostics.execute_action = "skip_short_circuit"
            diagnostics.short_circuit_reason = PREDICT_FAILED
            self._note_lower_bounds(diagnostics)
            return None, diagnostics
        proposal: Proposal | None = None
        if tick.run_throughput_scaling:
            proposal = self._throughput.propose(counts, forecast, diagnostics)
        if tick.run_load_scaling:
            proposal = self._load.propose(counts, passes, diagnostics) or proposal
        self._note_lower_bounds(diagnostics)
        return project(proposal, counts, self._fleet), diagnostics

    def _forecast(self, tick: ScheduledTick, traffic: Traffic | None, diagnostics: Diagnostics) -> Forecast | None:
        if self._forecaster is None or not tick.run_throughput_scaling or traffic is None:
            return None
        forecast = self._forecaster.forecast(traffic)
        diagnostics.predicted_num_req = forecast.num_req
        diagnostics.predicted_isl = forecast.isl
        diagnostics.predicted_osl = forecast.osl
        diagnostics.predicted_kv_hit_rate = forecast.kv_hit_rate
        return forecast

    def _note_lower_bounds(self, diagnostics: Diagnostics) -> None:
        diagnostics.throughput_lower_bound_prefill = self._lower_bounds.prefill
        diagnostics.throughput_lower_bound_decode = self._lower_bounds.decode


def _models(config: PlannerConfig, fleet: Fleet) -> dict[Role, RoleModel]:
    role: EngineRole = "decode" if fleet.prefill else "aggregated"
    models: dict[Role, RoleModel] = {}
    if fleet.prefill:
        models["prefill"] = RoleModel("prefill", fleet.prefill.limits, config)
    models["decode"] = RoleModel(role, fleet.decode.limits, config)
    return models
