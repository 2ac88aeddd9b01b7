"""Latencies of requests, measured or simulated, and how far the ones are from the others."""

from __future__ import annotations

import math

import msgspec
import numpy as np
from numpy.typing import NDArray

from actors.reporting.statistics import percentile_index
from messages.calibration import Comparison, PartErrors

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

STATISTICS = {"mean": None, "p50": 50, "p90": 90, "p99": 99}
"""Name and percentile; a percentile is an element of the sample, as in the report of a replay."""

_FITTED_BANDS = ((0.45, 0.55), (0.87, 0.93), (0.98, 1.0))
"""Parts of a sorted sample whose geometric means stand for p50, p90 and p99 in the fit, beside these elements
themselves, which alone would leave too much to chance."""

_LARGE_PERCENT = 10.0
"""Errors count by their square up to about this size, and linearly beyond."""


class Latencies(msgspec.Struct, frozen=True):
    """Of n requests: arrays of n times in ms. tpot_ms is NaN for those of a single token."""

    ttft_ms: Floats
    tpot_ms: Floats
    e2e_ms: Floats

    @classmethod
    def of(cls, ttft_ms: Floats, e2e_ms: Floats, output_tokens: NDArray[np.int64]) -> Latencies:
        """From times since the arrival and numbers of tokens."""
        gaps = np.where(output_tokens > 1, output_tokens - 1, 1)
        tpot = np.where(output_tokens > 1, (e2e_ms - ttft_ms) / gaps, np.nan)
        return cls(ttft_ms, tpot, e2e_ms)

    def part(self, rows: Flags) -> list[Floats]:
        """TTFT, TPOT and E2E of some rows, without those that have none."""
        chosen = (self.ttft_ms[rows], self.tpot_ms[rows], self.e2e_ms[rows])
        return [values[~np.isnan(values)] for values in chosen]


def compare(measured: float | None, simulated: float | None) -> Comparison:
    """Put two values side by side."""
    if not measured or simulated is None:
        return Comparison(measured, simulated, None)
    return Comparison(measured, simulated, (simulated / measured - 1.0) * 100.0)


def part_errors(measured: Latencies, simulated: Latencies, rows: Flags) -> PartErrors:
    """Compare the statistics of some rows."""
    tables = [
        {name: compare(_statistic(one, percentile), _statistic(other, percentile)) for name, percentile in _NAMED}
        for one, other in zip(measured.part(rows), simulated.part(rows), strict=True)
    ]
    return PartErrors(int(rows.sum()), *tables)


_NAMED = tuple(STATISTICS.items())


def _statistic(sample: Floats, percentile: int | None) -> float | None:
    if not len(sample):
        return None
    if percentile is None:
        return float(np.add.accumulate(sample)[-1]) / len(sample)
    return float(np.sort(sample)[percentile_index(len(sample), percentile)])


def typical_error(measured: Latencies, simulated: Latencies, rows: Flags) -> float:
    """The error in percent that a fit makes small: of the mean, p50, p90, p99 and their surroundings of all latencies.

    They count alike, as logarithms of ratios. The result is a root mean square in which large errors weigh less
    than by their squares, so that one statistic that no parameter can bring near does not decide about the others.
    """
    errors: list[float] = []
    for one, other in zip(measured.part(rows), simulated.part(rows), strict=True):
        if len(one):
            ratios = _summary(other) / _summary(one)
            errors += (100.0 * np.log(np.maximum(ratios, 1e-9))).tolist()
    squares = [2.0 * _LARGE_PERCENT**2 * (math.hypot(1.0, error / _LARGE_PERCENT) - 1.0) for error in errors]
    return math.sqrt(math.fsum(squares) / len(squares))


def chance_error(measured: Latencies, simulated: Latencies, rows: Flags) -> float:
    """How far in percent the typical error can be off by chance, as single requests differ from their measurement.

    It is the standard error of the means of TTFT, TPOT and E2E. What falls together with what in a pass is chance too;
    deviations that neighbours share, such as a queue that grows too slowly, are not.
    """
    errors = []
    for one, other in zip(measured.part(rows), simulated.part(rows), strict=True):
        if len(one):
            steps = np.diff(other - one)
            errors.append(math.sqrt(float(np.mean(steps * steps)) / 2.0 / len(one)) / float(np.mean(one)))
    return 100.0 * math.sqrt(math.fsum(error * error for error in errors) / len(errors))


def _summary(sample: Floats) -> Floats:
    ordered = np.maximum(np.sort(sample), 1e-9)
    count = len(ordered)
    values = [math.fsum(sample.tolist()) / count]
    values += [float(ordered[percentile_index(count, percentile)]) for percentile in STATISTICS.values() if percentile]
    for low, high in _FITTED_BANDS:
        logarithms = np.log(ordered[math.floor(low * count) : max(math.ceil(high * count), 1)]).tolist()
        values.append(math.exp(math.fsum(logarithms) / len(logarithms)))
    return np.array(values)
