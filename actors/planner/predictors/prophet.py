"""Forecasts by Prophet."""

from __future__ import annotations

import logging
import math
from datetime import datetime, timedelta

from actors.planner.predictors.extras import load_extra, quiet
from actors.planner.predictors.predictor import Predictor, to_log

_FIRST_DAY = datetime(2024, 1, 1)


class ProphetPredictor(Predictor):
    """Fitted anew to the last `window` values at each forecast, as if they were `interval_s` seconds apart.

    Raises InputError if prophet is not installed.
    """

    def __init__(self, window: int, interval_s: float, log1p: bool) -> None:
        super().__init__(min_points=5)
        # They report a missing plot library and every fit on standard error.
        for name in ("prophet.plot", "cmdstanpy"):
            logging.getLogger(name).disabled = True
        self._library = load_extra("prophet", "prophet")
        self._frames = load_extra("pandas", "prophet")
        self._window = window
        self._interval_s = interval_s
        self._log1p = log1p
        self._forecasts: tuple[int, float] = (0, 0.0)

    def _forecast(self) -> float:
        if self._forecasts[0] != len(self.points):
            self._forecasts = len(self.points), self._fit_and_predict()
        return self._forecasts[1]

    def _fit_and_predict(self) -> float:
        first = max(0, len(self.points) - self._window)
        values = to_log(self.points[first:]) if self._log1p else self.points[first:]
        times = [_FIRST_DAY + timedelta(seconds=self._interval_s * (first + i)) for i in range(len(values) + 1)]
        with quiet():
            model = self._library.Prophet()
            model.fit(self._frames.DataFrame({"ds": times[:-1], "y": values}))
            forecast = float(model.predict(self._frames.DataFrame({"ds": times[-1:]}))["yhat"].iloc[0])
        return math.expm1(forecast) if self._log1p else forecast
