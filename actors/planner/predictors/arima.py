"""ARIMA with an order found by pmdarima."""

from __future__ import annotations

import math
from typing import Any

from actors.planner.predictors.extras import load_extra, quiet
from actors.planner.predictors.predictor import Predictor, to_log


class ArimaPredictor(Predictor):
    """One order for the whole run, chosen at the first forecast; later values only update the model.

    A series that is best forecast by no more than differences is modelled by its logarithms instead. Where the model
    fails, the forecast is the last value.

    Raises InputError if pmdarima is not installed.
    """

    def __init__(self, log1p: bool) -> None:
        super().__init__(min_points=5)
        self._library = load_extra("pmdarima", "arima")
        self._wants_log = self._uses_log = log1p
        self._model: Any = None
        self._learned = 0

    def _forecast(self) -> float:
        if len(set(self.points)) == 1:
            return self.points[0]
        try:
            with quiet():
                return self._model_forecast()
        except Exception:  # whatever the library cannot do with a short or odd series
            return self.points[-1]

    def _model_forecast(self) -> float:
        if self._model is None:
            self._model = self._fitted()
            p, _, q = self._model.order
            if not self._wants_log and p == 0 and q == 0:
                self._uses_log = True
                self._model = self._fitted()
        elif self._learned < len(self.points):
            self._model.update(self._scaled(self.points[self._learned :]))
        self._learned = len(self.points)
        forecast = float(next(iter(self._model.predict(n_periods=1))))
        return math.expm1(forecast) if self._uses_log else forecast

    def _fitted(self) -> Any:
        return self._library.auto_arima(self._scaled(self.points), suppress_warnings=True, error_action="ignore")

    def _scaled(self, values: list[float]) -> list[float]:
        return to_log(values) if self._uses_log else list(values)
