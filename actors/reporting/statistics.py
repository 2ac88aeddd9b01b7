"""Distributions: exact, and reproducible to the last bit because every sum runs from left to right."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]

PERCENTILES = {"median": 50, "p75": 75, "p90": 90, "p95": 95, "p99": 99}
_CHUNK = 1 << 15  # elements summed at a time, so that temporary arrays stay in the processor's cache
_FEW_REPEATS = 8
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
    picked = _pick(sample, None, _indices(count))
    mean, std = _mean_and_std(sample, None, count)
    return Distribution(count, mean=mean, std=std, **picked)


def gap_and_rate_distributions(gaps_ms: Floats, counts: Counts) -> tuple[Distribution, Distribution]:
    """Describe token gaps (ms, not negative), and the token rates 1000 / gap (1/s) of those above zero.

    `counts` says how often each gap occurs. A rate falls as its gap grows, so one order serves both.
    """
    count = int(counts.sum())
    if count == 0:
        return Distribution(0), Distribution(0)
    above = gaps_ms > 0.0
    rated = int(counts[above].sum())
    indices = {f"gap {name}": index for name, index in _indices(count).items()}
    if rated:
        indices |= {f"rate {name}": count - 1 - index for name, index in _indices(rated).items()}
    picked = _pick(gaps_ms, counts, indices)

    mean, std = _mean_and_std(gaps_ms, counts, count)
    elements = {name: picked[f"gap {name}"] for name in _indices(count)}
    gaps = Distribution(count, mean=mean, std=std, **elements)
    if not rated:
        return gaps, Distribution(0)
    mean, std = _mean_and_std(1000.0 / gaps_ms[above], counts[above], rated)
    elements = {name: 1000.0 / picked[f"rate {name}"] for name in _indices(rated)}
    return gaps, Distribution(rated, mean=mean, std=std, **elements)


def sum_left_to_right(values: Floats, total: float = 0.0) -> float:
    """Add up in order, one element after the other; numpy's own sum pairs them and differs in the last bits."""
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK].copy()
        chunk[0] += total
        total = float(np.add.accumulate(chunk, out=chunk)[-1])
    return total


def _indices(count: int) -> dict[str, int]:
    """Where the order statistics of an ascending sample stand."""
    percentiles = {name: percentile_index(count, percentile) for name, percentile in PERCENTILES.items()}
    return {"min": 0, "max": count - 1, **percentiles}


def _pick(values: Floats, counts: Counts | None, indices: dict[str, int]) -> dict[str, float]:
    """Elements of the sample in ascending order, in which values occur `counts` times, once without."""
    if counts is not None and counts.sum() > _FEW_REPEATS * len(values):
        order = np.argsort(values)
        up_to = np.cumsum(counts[order])
        positions = np.searchsorted(up_to, list(indices.values()), side="right")
        return dict(zip(indices, values[order[positions]].tolist(), strict=True))
    # Selecting is faster than sorting as long as the sample does not grow much by spelling it out.
    ordered = values.copy() if counts is None else values.repeat(counts)
    ordered.partition(sorted({*indices.values()}))
    return {name: float(ordered[index]) for name, index in indices.items()}


def _mean_and_std(values: Floats, counts: Counts | None, count: int) -> tuple[float, float]:
    total, squares = 0.0, 0.0
    for start in range(0, len(values), _CHUNK):
        chunk = values[start : start + _CHUNK]
        total = sum_left_to_right(chunk if counts is None else chunk * counts[start : start + _CHUNK], total)
    mean = total / count
    for start in range(0, len(values), _CHUNK):
        chunk = np.square(values[start : start + _CHUNK] - mean)
        squares = sum_left_to_right(chunk if counts is None else chunk * counts[start : start + _CHUNK], squares)
    return mean, float(np.sqrt(squares / count))
