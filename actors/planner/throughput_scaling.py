"""Scaling by the demand that is forecast: predictors of traffic, and workers enough for it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from actors.planner.budget import HOLD, clamp_pair, fit_pair, guard_pair, guard_single
from actors.planner.capacity import Demand, Sla
from actors.planner.fleet import Fleet, LowerBounds, Observed, Proposal, Role
from actors.planner.predictors.registry import build_predictor
from actors.planner.role_model import RoleModel
from messages.planner import PlannerConfig
from messages.planner_report import Diagnostics, Traffic, WorkerCounts

SCALE = "scale"
SET_LOWER_BOUND = "set_lower_bound"
NO_CHANGE = "no_change"
MODEL_NOT_READY = "model_not_ready"
PARTNER_NOT_READY = "partner_not_ready"
NO_TRAFFIC_DATA = "no_traffic_data"
PREDICT_FAILED = "predict_failed"


class PredictionError(Exception):
    """A predictor failed."""


class Forecast(NamedTuple):
    """Traffic expected in the next window: requests, mean lengths in tokens; how it was served in the last one."""

    num_req: float
    isl: float
    osl: float
    kv_hit_rate: float | None
    duration_s: float


class TrafficForecaster:
    """Three predictors, of the requests in a window and of their mean lengths. Raises InputError at construction where
    a library is missing.
    """

    def __init__(self, config: PlannerConfig) -> None:
        self._num_req = build_predictor(config)
        self._isl = build_predictor(config)
        self._osl = build_predictor(config)
        self._last_shape: tuple[float, float] | None = None

    def warm_up(self, windows: Iterable[Traffic]) -> None:
        """Learn windows of the past; the run begins as if no traffic had been seen yet."""
        for window in windows:
            self._add(window)
        self._last_shape = None
        for predictor in (self._num_req, self._isl, self._osl):
            predictor.begin_anew()

    def forecast(self, window: Traffic) -> Forecast:
        """Learn a window and forecast the next. Raises PredictionError if a predictor fails."""
        try:
            self._add(window)
            num_req, isl, osl = self._num_req.predict(), self._isl.predict(), self._osl.predict()
        except Exception as error:
            raise PredictionError(str(error)) from error
        return Forecast(num_req, isl, osl, window.kv_hit_rate, window.duration_s)

    def _add(self, window: Traffic) -> None:
        self._num_req.add(window.num_req)
        shape = (window.isl, window.osl)
        if window.num_req > 0:
            self._last_shape = shape
        elif self._last_shape is not None:
            shape = self._last_shape
        for predictor, length in zip((self._isl, self._osl), shape, strict=True):
            if math.isfinite(length):
                predictor.add(length)


class ThroughputScaling:
    """As many workers as the forecast needs, at once; with load scaling beside it only as a lower bound for that."""

    def __init__(
        self,
        config: PlannerConfig,
        fleet: Fleet,
        models: Mapping[Role, RoleModel],
        lower_bounds: LowerBounds,
        observed: Observed,
    ) -> None:
        self._config = config
        self._fleet = fleet
        self._models = models
        self._lower_bounds = lower_bounds
        self._observed = observed

    def propose(self, counts: WorkerCounts, forecast: Forecast | None, diagnostics: Diagnostics) -> Proposal | None:
        """Pool sizes to ask for, None to leave them; tells why in the diagnostics."""
        if forecast is None:
            diagnostics.throughput_decision_reason = NO_TRAFFIC_DATA
            return None
        if self._fleet.prefill is None:
            return self._propose_single(counts.ready_num_decode, forecast, diagnostics)
        return self._propose_pair(self._fleet.ready(counts), forecast, diagnostics)

    def _propose_single(self, ready: int, forecast: Forecast, diagnostics: Diagnostics) -> Proposal | None:
        fleet, floor = self._fleet, self._fleet.decode_floor
        rps = diagnostics.engine_rps_decode = self._rps("decode", forecast)
        wanted = self._stepwise(_workers(forecast, rps, floor) if rps else ready, ready, floor)
        final, budget = guard_single(ready, wanted, fleet.decode.gpus, fleet.bounds.ceiling_only, floor)
        reason = None if rps else MODEL_NOT_READY
        if self._config.enable_load_scaling:
            self._lower_bounds.decode = final
            diagnostics.throughput_decision_reason = reason or budget or SET_LOWER_BOUND
            return None
        final, held = guard_single(ready, final, fleet.decode.gpus, fleet.bounds, floor)
        unchanged = reason or held or budget or NO_CHANGE
        diagnostics.throughput_decision_reason = unchanged if final == ready else held or SCALE
        return None if final == ready else Proposal(None, final)

    def _propose_pair(self, ready: tuple[int, int], forecast: Forecast, diagnostics: Diagnostics) -> Proposal | None:
        fleet, costs = self._fleet, self._fleet.costs
        rates = (self._rps("prefill", forecast), self._rps("decode", forecast))
        diagnostics.engine_rps_prefill, diagnostics.engine_rps_decode = rates
        floors = (fleet.prefill_floor, fleet.decode_floor)
        prefill, decode = ready
        if rates[0] and rates[1]:
            prefill, decode = _workers(forecast, rates[0], floors[0]), _workers(forecast, rates[1], floors[1])
        wanted = (self._stepwise(prefill, ready[0], floors[0]), self._stepwise(decode, ready[1], floors[1]))
        is_below = fleet.is_below_floor(*ready)
        ceiling = fleet.bounds.ceiling_only
        final = clamp_pair(wanted, costs, ceiling) if is_below else fit_pair(ready, wanted, costs, ceiling)
        unready = _unready_reasons(rates)
        if self._config.enable_load_scaling:
            self._lower_bounds.prefill, self._lower_bounds.decode = final
            _tell(diagnostics, unready or (SET_LOWER_BOUND, SET_LOWER_BOUND), None)
            return None
        budget: str | None = None
        if is_below:
            final = clamp_pair(final, costs, fleet.bounds)
        else:
            final, budget = guard_pair(ready, final, costs, fleet.bounds)
        outcome = NO_CHANGE if final == ready else SCALE
        _tell(diagnostics, unready if unready and final == ready else (outcome, outcome), budget)
        return None if final == ready else Proposal(*final)

    def _rps(self, role: Role, forecast: Forecast) -> float | None:
        """Requests per second of one engine of a pool; None if unknown or none."""
        model = self._models[role]
        ttft_s, itl_s = self._config.ttft_ms / 1000, self._config.itl_ms / 1000
        engine = self._fleet.decode
        demand = Demand(
            forecast.isl,
            forecast.osl,
            None if model.role == "decode" else forecast.kv_hit_rate,
            1.0 if model.role == "prefill" else self._observed.accept_length(engine),
        )
        sla = Sla(None if model.role == "decode" else ttft_s, None if model.role == "prefill" else itl_s)
        found = model.capacity(demand, sla)
        return found.rps if found is not None and found.rps > 0 else None

    def _stepwise(self, desired: int, ready: int, floor: int) -> int:
        """At most so many workers more or less at once, but never fewer than the floor."""
        step = self._config.max_throughput_scaling_replicas
        return max(min(max(desired, max(0, ready - step)), ready + step), floor)


def _workers(forecast: Forecast, rps: float, floor: int) -> int:
    return max(math.ceil(forecast.num_req / forecast.duration_s / rps), floor)


def _unready_reasons(rates: tuple[float | None, float | None]) -> tuple[str, str] | None:
    if rates[0] and rates[1]:
        return None
    first, second = (PARTNER_NOT_READY if rate else MODEL_NOT_READY for rate in rates)
    return first, second


def _tell(diagnostics: Diagnostics, reasons: tuple[str, str], budget: str | None) -> None:
    diagnostics.throughput_decision_reason_prefill, diagnostics.throughput_decision_reason_decode = reasons
    joint = MODEL_NOT_READY if MODEL_NOT_READY in reasons else reasons[0]
    held = budget == HOLD and reasons[0] not in (MODEL_NOT_READY, PARTNER_NOT_READY)
    diagnostics.throughput_decision_reason = budget if budget and (held or budget != HOLD) else joint
