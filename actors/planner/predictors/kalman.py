"""Kalman filter of a level with a trend."""

from __future__ import annotations

import math

from actors.planner.predictors.predictor import Predictor, to_log

_FIRST_VARIANCE = 1000.0


class KalmanPredictor(Predictor):
    """State (level, trend), observed with noise `r`; level and trend drift with variances `q_level` and `q_trend`."""

    def __init__(self, q_level: float, q_trend: float, r: float, min_points: int, log1p: bool) -> None:
        super().__init__(min_points)
        self._q = (max(1e-12, q_level), max(1e-12, q_trend))
        self._r = max(1e-9, r)
        self._log1p = log1p
        self._level = 0.0
        self._trend = 0.0
        # The covariance is symmetric: variances of level and trend, and what they share.
        self._p00, self._p01, self._p11 = _FIRST_VARIANCE, 0.0, _FIRST_VARIANCE
        self._is_ahead = False

    def add(self, value: float) -> None:
        """Take the next value, as the base class does, and update the state by it."""
        before = len(self.points)
        super().add(value)
        if len(self.points) > before:
            self._update(self.points[-1])

    def _update(self, value: float) -> None:
        z = to_log([value])[0] if self._log1p else value
        if len(self.points) == 1:
            self._level, self._trend = z, 0.0
            return
        if not self._is_ahead:
            self._advance()
        self._is_ahead = False
        s = self._p00 + self._r
        k0, k1 = self._p00 / s, self._p01 / s
        y = z - self._level
        self._level += k0 * y
        self._trend += k1 * y
        # (I - KH) P (I - KH)' + K R K', which keeps the covariance positive whatever the rounding.
        keep = 1.0 - k0
        p00, p01, p11 = self._p00, self._p01, self._p11
        self._p00 = keep * keep * p00 + k0 * k0 * self._r
        self._p01 = keep * (p01 - k1 * p00) + k0 * k1 * self._r
        self._p11 = p11 - 2.0 * k1 * p01 + k1 * k1 * p00 + k1 * k1 * self._r

    def _forecast(self) -> float:
        if not self._is_ahead:
            self._advance()
            self._is_ahead = True
        return math.expm1(self._level) if self._log1p else self._level

    def _advance(self) -> None:
        """Move the state on to the next point."""
        self._level += self._trend
        p00, p01, p11 = self._p00, self._p01, self._p11
        self._p00 = p00 + 2.0 * p01 + p11 + self._q[0]
        self._p01 = p01 + p11
        self._p11 = p11 + self._q[1]
