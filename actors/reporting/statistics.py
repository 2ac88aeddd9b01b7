"""Distributions: exact, and reproducible to the last bit because every sum runs from left to right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

PERCENTILES = {"median": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
STATISTICS = ("mean", "min", "max", *PERCENTILES, "std")


@dataclass(frozen=True, slots=True)
class Distribution:
    """Statistics of a sample; each is None where the sample is empty. `std` is the population deviation."""

    count: int
    mean: float | None = None
    min: float | None = None
    max: float | None = None
    median: float | None = None
    p75: float | None = None
    p90: float | None = None
    p95: float | None = None
    p99: float | None = None
    std: float | None = None

    def value(self, statistic: str) -> float | None:
        """Return one of `STATISTICS` by name."""
        value: float | None = getattr(self, statistic)
        return value


def percentile_index(count: int, percentile: int) -> int:
    """Index of a percentile in an ascending sample: (count - 1) * percentile / 100, halves rounded up."""
    return (2 * (count - 1) * percentile + 100) // 200


def distribution(sample: Floats) -> Distribution:
    """Describe a sample. Percentiles are elements of it, see `percentile_index`."""
    count = len(sample)
    if count == 0:
        return Distribution(0)
    indices = _indices(count)
    ordered = np.partition(sample, sorted({*indices.values()}))
    mean, std = _mean_and_std(sample, None, count)
    return Distribution(count, mean=mean, std=std, **{name: float(ordered[index]) for name, index in indices.items()})


def gap_and_rate_distributions(gaps_ms: Floats, counts: Counts) -> tuple[Distribution, Distribution]:
    """Describe token gaps (ms, not negative), and the token rates 1000 / gap (1/s) of those above zero.

    `counts` says how often each gap occurs. A rate falls as its gap grows, so one order serves both.
    """
    count = int(counts.sum())
    if count == 0:
        return Distribution(0), Distribution(0)
    order = np.argsort(gaps_ms)
    ordered, up_to = gaps_ms[order], np.cumsum(counts[order])

    def element(index: int) -> float:
        return float(ordered[np.searchsorted(up_to, index, side="right")])

    mean, std = _mean_and_std(gaps_ms, counts, count)
    gaps = Distribution(count, mean=mean, std=std, **{name: element(index) for name, index in _indices(count).items()})
    above = gaps_ms > 0.0
    rated = int(counts[above].sum())
    if rated == 0:
        return gaps, Distribution(0)
    mean, std = _mean_and_std(1000.0 / gaps_ms[above], counts[above], rated)
    picked = {name: 1000.0 / element(count - 1 - index) for name, index in _indices(rated).items()}
    return gaps, Distribution(rated, mean=mean, std=std, **picked)


def sum_left_to_right(values: Floats) -> float:
    """Add up in order, one element after the other; numpy's own sum pairs them and differs in the last bits."""
    return float(np.add.accumulate(values)[-1]) if len(values) else 0.0


def _indices(count: int) -> dict[str, int]:
    """Where the order statistics of an ascending sample stand."""
    percentiles = {name: percentile_index(count, percentile) for name, percentile in PERCENTILES.items()}
    return {"min": 0, "max": count - 1, **percentiles}


def _mean_and_std(values: Floats, counts: Counts | None, count: int) -> tuple[float, float]:
    mean = sum_left_to_right(values if counts is None else values * counts) / count
    squares = np.square(values - mean)
    return mean, float(np.sqrt(sum_left_to_right(squares if counts is None else squares * counts) / count))
