"""Which predictor a configuration names."""

from __future__ import annotations

from actors.planner.predictors.arima import ArimaPredictor
from actors.planner.predictors.kalman import KalmanPredictor
from actors.planner.predictors.predictor import ConstantPredictor, Predictor
from actors.planner.predictors.prophet import ProphetPredictor
from messages.planner import PlannerConfig


def build_predictor(config: PlannerConfig) -> Predictor:
    """A new predictor of the configured kind. Raises InputError if its library is not installed."""
    log1p = config.load_predictor_log1p
    match config.load_predictor:
        case "constant":
            return ConstantPredictor()
        case "kalman":
            return KalmanPredictor(
                config.kalman_q_level, config.kalman_q_trend, config.kalman_r, config.kalman_min_points, log1p
            )
        case "arima":
            return ArimaPredictor(log1p)
        case "prophet":
            interval_s = float(config.throughput_adjustment_interval_seconds)
            return ProphetPredictor(config.prophet_window_size, interval_s, log1p)
