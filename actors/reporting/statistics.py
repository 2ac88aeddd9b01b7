"""Distributions: exact, and reproducible to the last bit because every sum runs from left to right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

PERCENTILES = {"median": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
STATISTICS = ("mean", "min", "max", *PERCENTILES, "std")
_CHUNK = 1 << 16  # elements summed at a time, so that temporary arrays stay in the processor's cache


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
    indices = {name: percentile_index(count, percentile) for name, percentile in PERCENTILES.items()}
    ordered = np.partition(sample, sorted({0, count - 1, *indices.values()}))
    return _described(sample, ordered, {"min": 0, "max": count - 1, **indices})


def gap_and_rate_distributions(gaps_ms: Floats) -> tuple[Distribution, Distribution]:
    """Describe token gaps (ms, not negative), and the token rates 1000 / gap (1/s) of those above zero.

    A rate falls as its gap grows, so one selection serves the percentiles of both.
    """
    count = len(gaps_ms)
    if count == 0:
        return Distribution(0), Distribution(0)
    zeros = count - int(np.count_nonzero(gaps_ms))
    positive = count - zeros
    gap_indices = {"min": 0, "max": count - 1}
    gap_indices |= {name: percentile_index(count, percentile) for name, percentile in PERCENTILES.items()}
    rate_indices: dict[str, int] = {}
    if positive:
        rate_indices = {"min": count - 1, "max": zeros}
        for name, percentile in PERCENTILES.items():
            rate_indices[name] = count - 1 - percentile_index(positive, percentile)
    ordered = np.partition(gaps_ms, sorted({*gap_indices.values(), *rate_indices.values()}))
    gaps = _described(gaps_ms, ordered, gap_indices)
    if not positive:
        return gaps, Distribution(0)
    picked = {name: float(ordered[index]) for name, index in rate_indices.items()}
    del ordered
    rates = 1000.0 / (gaps_ms[gaps_ms > 0.0] if zeros else gaps_ms)
    mean, std = _mean_and_std(rates)
    return gaps, Distribution(positive, mean=mean, std=std, **{name: 1000.0 / gap for name, gap in picked.items()})


def sum_left_to_right(values: Floats) -> float:
    """Add up in order, one element after the other; numpy's own sum pairs them and differs in the last bits."""
    total = 0.0
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK].copy()
        chunk[0] += total
        total = float(np.add.accumulate(chunk)[-1])
    return total


def _described(sample: Floats, ordered: Floats, indices: dict[str, int]) -> Distribution:
    mean, std = _mean_and_std(sample)
    picked = {name: float(ordered[index]) for name, index in indices.items()}
    return Distribution(len(sample), mean=mean, std=std, **picked)


def _mean_and_std(values: Floats) -> tuple[float, float]:
    count = len(values)
    mean = sum_left_to_right(values) / count
    squares = 0.0
    for start in range(0, count, _CHUNK):
        chunk = values[start : start + _CHUNK] - mean
        chunk *= chunk
        chunk[0] += squares
        squares = float(np.add.accumulate(chunk)[-1])
    return mean, float(np.sqrt(squares / count))
