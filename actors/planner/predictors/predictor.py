"""What predictors have in common, and the one that repeats the last value."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod


class Predictor(ABC):
    """Forecasts the next value of a series of non-negative numbers.

    With fewer than `min_points` values the forecast is the last of them.
    """

    def __init__(self, min_points: int) -> None:
        self._min_points = min_points
        self._has_begun = False
        self.points: list[float] = []

    def add(self, value: float) -> None:
        """Take the next value. NaN counts as 0; zeros before the first other value are skipped."""
        value = 0.0 if math.isnan(value) else float(value)
        if value == 0.0 and not self._has_begun:
            return
        self._has_begun = True
        self.points.append(value)

    def begin_anew(self) -> None:
        """Keep what has been learned, but skip zeros again until the next other value."""
        self._has_begun = False

    def predict(self) -> float:
        """The next value, at least 0; 0 if there has been none. Asking again changes nothing."""
        if not self.points:
            return 0.0
        if len(self.points) < self._min_points:
            return self.points[-1]
        return max(0.0, self._forecast())

    @abstractmethod
    def _forecast(self) -> float:
        """The next value, where there are points enough."""


class ConstantPredictor(Predictor):
    """The next value is the last one."""

    def __init__(self) -> None:
        super().__init__(min_points=1)

    def _forecast(self) -> float:
        return self.points[-1]


def to_log(values: list[float]) -> list[float]:
    """log(1 + value), values below 0 counting as 0."""
    return [math.log1p(max(0.0, value)) for value in values]
