"""Least squares with two regressors whose slopes must not be negative."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

Point = tuple[float, float]

_SMALLEST_PIVOT = 1e-12
_RIDGE = 1e-9
# In the order of preference where residuals are equal.
_AXIS_SUBSETS: tuple[tuple[int, ...], ...] = ((), (0,), (1,), (0, 1))


class Fit(NamedTuple):
    """A plane: value = intercept + sum of slope * (x - mean) / std over its two axes."""

    intercept: float
    slopes: tuple[float, float]
    means: tuple[float, float]
    stds: tuple[float, float]

    def at(self, point: Point) -> float:
        """Value of the plane."""
        value = self.intercept
        for x, slope, mean, std in zip(point, self.slopes, self.means, self.stds, strict=True):
            if slope:
                value += slope * (x - mean) / std
        return value


def fit(points: Sequence[Point], values: Sequence[float]) -> Fit | None:
    """Fit a plane to values over points, on standardised axes and with a free intercept.

    An axis on which the points do not differ is left out. None where the values do not rise along any axis.
    """
    count = len(points)
    columns = [[point[axis] for point in points] for axis in (0, 1)]
    means = (sum(columns[0]) / count, sum(columns[1]) / count)
    stds = tuple(
        math.sqrt(sum((x - mean) ** 2 for x in column) / count) for column, mean in zip(columns, means, strict=True)
    )
    active = [axis for axis in (0, 1) if stds[axis] > 1e-12 * max(1.0, abs(means[axis]))]
    scaled = {axis: [(x - means[axis]) / stds[axis] for x in columns[axis]] for axis in active}
    middle = sum(values) / count
    rest = [value - middle for value in values]
    best: tuple[float, tuple[float, float]] | None = None
    for subset in _AXIS_SUBSETS:
        if not set(subset) <= set(active):
            continue
        slopes = _solve([scaled[axis] for axis in subset], rest)
        if min(slopes, default=0.0) < 0.0:
            continue
        residual = sum(
            (y - sum(slope * scaled[axis][i] for slope, axis in zip(slopes, subset, strict=True))) ** 2
            for i, y in enumerate(rest)
        )
        if best is None or residual < best[0]:
            by_axis = dict(zip(subset, slopes, strict=True))
            best = residual, (by_axis.get(0, 0.0), by_axis.get(1, 0.0))
    assert best is not None  # the empty subset always fits
    slopes = best[1]
    if not active or (max(slopes) <= 0.0 and count > len(active)):
        return None
    return Fit(middle, slopes, means, (stds[0], stds[1]))


def _solve(columns: list[list[float]], values: list[float]) -> tuple[float, ...]:
    """Slopes of least squares without intercept; with a ridge where the columns say the same."""
    gram = [[sum(a * b for a, b in zip(one, other, strict=True)) for other in columns] for one in columns]
    moments = [sum(a * b for a, b in zip(column, values, strict=True)) for column in columns]
    solution = _eliminate(gram, moments)
    if solution is None:
        ridge = _RIDGE * max(1.0, sum(gram[i][i] for i in range(len(columns))))
        for i in range(len(columns)):
            gram[i][i] += ridge
        solution = _eliminate(gram, moments)
    return (0.0,) * len(columns) if solution is None else solution


def _eliminate(gram: list[list[float]], moments: list[float]) -> tuple[float, ...] | None:
    """Solve a system of up to two equations; None where it is singular."""
    if not moments:
        return ()
    if abs(gram[0][0]) < _SMALLEST_PIVOT:
        return None
    if len(moments) == 1:
        return (moments[0] / gram[0][0],)
    factor = gram[1][0] / gram[0][0]
    pivot = gram[1][1] - factor * gram[0][1]
    if abs(pivot) < _SMALLEST_PIVOT:
        return None
    second = (moments[1] - factor * moments[0]) / pivot
    return (moments[0] - gram[0][1] * second) / gram[0][0], second
