"""Linear interpolation of times measured at scattered points of two dimensions, curve by curve."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Surface:
    """Curves over x at some values of y: linear along x on each, then linear in y between the two nearest curves.

    Measured points are met exactly. Outside, the border segments continue where they rise, elsewhere the border value
    holds: less to do never takes longer there, and nothing takes less than 0. A curve of a single point rises as the
    nearest one that has several.

    points: (y, x) -> time in ms; at least one. proportional: the rise of curves along x is taken to be proportional to
    y, else to be the same, where one stands for another.
    """

    def __init__(self, points: Mapping[tuple[float, float], float], *, proportional: bool = False) -> None:
        self._proportional = proportional
        curves: dict[float, list[tuple[float, float]]] = {}
        for (y, x), time_ms in sorted(points.items()):
            curves.setdefault(y, []).append((x, time_ms))
        self._ys = list(curves)
        self._curves = [_Curve(*zip(*curve, strict=True)) for curve in curves.values()]
        self._several = [index for index, curve in enumerate(self._curves) if curve.points > 1]
        self._models = [self._model(index) for index in range(len(self._ys))]
        self.y_range = (self._ys[0], self._ys[-1])
        xs = [x for _, x in points]
        self.x_range = (min(xs), max(xs))

    def at(self, y: float, xs: Floats) -> Floats:
        """The times at points that share y."""
        ys = self._ys
        if y in ys:
            return self._along(ys.index(y), xs)
        if len(ys) == 1:
            return self._along(0, xs)
        high = min(max(sum(known < y for known in ys), 1), len(ys) - 1)
        low = high - 1
        below, above = self._along(low, xs), self._along(high, xs)
        slope = (above - below) / (ys[high] - ys[low])
        if y > ys[high]:
            return above + np.maximum(slope, 0.0) * (y - ys[high])
        if y < ys[low]:
            return np.maximum(below - np.maximum(slope, 0.0) * (ys[low] - y), 0.0)
        return below + slope * (y - ys[low])

    def _along(self, index: int, xs: Floats) -> Floats:
        """The times at points of a curve."""
        curve, model = self._curves[index], self._models[index]
        if model is None:
            return curve.at(xs)
        other = self._curves[model]
        factor = self._ys[index] / self._ys[model] if self._proportional else 1.0
        rise = factor * (other.at(xs) - other.at(np.array([curve.first_x])))
        return np.maximum(curve.first_ms + rise, 0.0)

    def _model(self, index: int) -> int | None:
        """The curve that one of a single point rises as, if it is one and there is any."""
        if self._curves[index].points > 1 or not self._several:
            return None
        return min(self._several, key=lambda other: abs(self._ys[other] - self._ys[index]))


class _Curve:
    """A line through points with ascending x."""

    def __init__(self, xs: tuple[float, ...], times_ms: tuple[float, ...]) -> None:
        self.points, self.first_x, self.first_ms = len(xs), xs[0], times_ms[0]
        self._xs = np.array(xs, np.float64)
        self._times = np.array(times_ms, np.float64)
        rises = np.maximum(np.diff(self._times) / np.diff(self._xs), 0.0).tolist() or [0.0]
        self._first_rise, self._last_rise = rises[0], rises[-1]

    def at(self, xs: Floats) -> Floats:
        times: Floats = np.interp(xs, self._xs, self._times)
        before, after = self._xs[0] - xs, xs - self._xs[-1]
        times = np.where(after > 0.0, times + self._last_rise * after, times)
        return np.where(before > 0.0, np.maximum(times - self._first_rise * before, 0.0), times)
