"""Distributions against a plain re-computation, element by element."""

from __future__ import annotations

import math
from decimal import ROUND_HALF_UP, Decimal

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from actors.reporting.statistics import (
    PERCENTILES,
    STATISTICS,
    Distribution,
    distribution,
    gap_and_rate_distributions,
    percentile_index,
    sum_left_to_right,
)

times_ms = st.floats(0.0, 1e9, allow_subnormal=False)
gaps_ms = st.one_of(st.just(0.0), st.floats(1e-9, 1e7))


def added_up(values: list[float]) -> float:
    total = 0.0
    for value in values:
        total += value
    return total


def plain(values: list[float]) -> dict[str, float | None]:
    if not values:
        return dict.fromkeys(STATISTICS)
    ordered = sorted(values)
    mean = added_up(values) / len(values)
    described = {
        name: ordered[int((Decimal((len(values) - 1) * percentile) / 100).quantize(Decimal(1), ROUND_HALF_UP))]
        for name, percentile in PERCENTILES.items()
    }
    std = math.sqrt(added_up([(value - mean) * (value - mean) for value in values]) / len(values))
    return {"mean": mean, "min": ordered[0], "max": ordered[-1], **described, "std": std}


def named(sample: Distribution) -> dict[str, float | None]:
    return {name: sample.value(name) for name in STATISTICS}


@given(st.lists(times_ms, max_size=300))
def test_distribution_equals_plain_arithmetic_to_the_bit(values: list[float]) -> None:
    found = distribution(np.array(values, np.float64))
    assert found.count == len(values)
    assert named(found) == plain(values)


@given(st.lists(gaps_ms, max_size=300))
@example([0.0, 0.0])
@example([0.0, 3.0])
def test_gaps_and_rates_equal_plain_arithmetic_to_the_bit(values: list[float]) -> None:
    gaps, rates = gap_and_rate_distributions(np.array(values, np.float64), np.ones(len(values), np.int64))
    assert named(gaps) == plain(values)
    assert named(rates) == plain([1000.0 / gap for gap in values if gap > 0.0])
    assert (gaps.count, rates.count) == (len(values), sum(gap > 0.0 for gap in values))


@given(st.lists(st.tuples(gaps_ms, st.integers(1, 5)), min_size=1, max_size=60))
def test_a_gap_that_occurs_several_times_counts_as_often(counted: list[tuple[float, int]]) -> None:
    gaps, counts = np.array([gap for gap, _ in counted]), np.array([count for _, count in counted])
    once = np.ones(int(counts.sum()), np.int64)
    together, apart = gap_and_rate_distributions(gaps, counts), gap_and_rate_distributions(gaps.repeat(counts), once)
    for found, expected in zip(together, apart, strict=True):
        assert found.count == expected.count
        if found.count:
            # Sums are rounded in another place; a deviation far below the mean is made of such rounding.
            assert found.mean is not None
            assert found.mean == pytest.approx(expected.mean, rel=1e-9)
            assert found.std == pytest.approx(expected.std, rel=1e-9, abs=1e-6 * found.mean)
        order_statistics = ("min", "max", *PERCENTILES)
        assert [found.value(name) for name in order_statistics] == [expected.value(name) for name in order_statistics]


def test_sums_run_from_left_to_right() -> None:
    values = np.random.default_rng(1).random(200_001) * 1e6
    assert sum_left_to_right(values) == added_up(values.tolist())
    assert sum_left_to_right(np.empty(0)) == 0.0


@pytest.mark.parametrize(
    ("count", "percentile", "index"),
    [(1, 99, 0), (2, 50, 1), (3, 50, 1), (3, 75, 2), (4, 50, 2), (11, 75, 8), (101, 99, 99), (4097, 99, 4055)],
)
def test_percentile_index_rounds_halves_up(count: int, percentile: int, index: int) -> None:
    assert percentile_index(count, percentile) == index


def test_empty_sample_has_no_statistics() -> None:
    assert named(distribution(np.empty(0))) == dict.fromkeys(STATISTICS)
