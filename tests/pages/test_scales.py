"""Numbers on axes."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.pages.scales import (
    Scale,
    duration_text,
    linear_ticks,
    log_ticks,
    number,
    percent,
    round_up,
    scale_for,
    significant,
    tick_texts,
    time_unit,
)

POSITIVE = st.floats(min_value=1e-9, max_value=1e12)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.0, 10.0, [0, 2, 4, 6, 8, 10]),
        (0.0, 1.0, [0, 0.2, 0.4, 0.6, 0.8, 1.0]),
        (3.0, 17.0, [5, 10, 15]),
        (-1.0, 1.0, [-1, -0.5, 0, 0.5, 1]),
        (0.0, 0.003, [0, 0.001, 0.002, 0.003]),
        (5.0, 5.0, [5]),
    ],
)
def test_linear_ticks(low: float, high: float, ticks: list[float]) -> None:
    assert linear_ticks(low, high) == ticks


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (1.0, 1000.0, [1, 10, 100, 1000]),
        (3.0, 40.0, [5, 10, 20]),
        (0.5, 4.0, [0.5, 1, 2]),
        (1e-6, 1e6, [1e-6, 1e-4, 1e-2, 1, 100, 1e4, 1e6]),
        (3.0, 4.0, [3, 4]),
    ],
)
def test_log_ticks(low: float, high: float, ticks: list[float]) -> None:
    assert log_ticks(low, high) == pytest.approx(ticks)


@given(POSITIVE, POSITIVE)
def test_ticks_are_few_ascending_and_inside(one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    if high > low * (1 + 1e-6):
        for ticks in (linear_ticks(low, high), log_ticks(low, high)):
            assert ticks == sorted(ticks)
            assert len(ticks) <= 11
            assert all(low * 0.99999 - 1e-6 * high <= tick <= high * 1.00001 for tick in ticks)


@given(POSITIVE)
def test_round_up_is_round_and_not_below(value: float) -> None:
    rounded = round_up(value)
    assert value * (1 - 1e-8) <= rounded <= 2.5 * value * (1 + 1e-8)
    assert f"{rounded:.3e}"[0] in "125"


def test_scale_maps_ends_to_ends() -> None:
    assert Scale(0.0, 10.0, 100.0, 200.0)([0.0, 5.0, 10.0]).tolist() == [100.0, 150.0, 200.0]
    log = Scale(1.0, 100.0, 0.0, 100.0, log=True)
    assert log([1.0, 10.0, 100.0, 0.0]).tolist() == [0.0, 50.0, 100.0, 0.0]
    assert log.grid(3).tolist() == pytest.approx([1.0, 10.0, 100.0])


@pytest.mark.parametrize("log", [False, True])
@pytest.mark.parametrize("values", [[], [0.0], [5.0], [5.0, 5.0], [math.nan], [math.inf, 1.0], [0.0, 1.0], [-3.0, 3.0]])
def test_a_scale_is_never_empty(values: list[float], log: bool) -> None:
    for from_zero in (False, True):
        scale = scale_for(np.array(values), 0.0, 100.0, log=log, from_zero=from_zero)
        assert scale.high > scale.low
        assert np.isfinite(scale(values if np.isfinite(values).all() else [1.0])).all()
        assert len(scale.ticks()) >= 2


def test_an_axis_from_zero_ends_at_a_round_number() -> None:
    scale = scale_for(np.array([3.0, 17.0]), 0.0, 1.0, log=False, from_zero=True)
    assert (scale.low, scale.high) == (0.0, 20.0)


def test_numbers_are_written_for_readers() -> None:
    assert tick_texts([0.0, 0.5, 1.0]) == ["0", "0.5", "1"]
    assert tick_texts([0.0, 5000.0]) == ["0", "5,000"]
    assert tick_texts([0.0, 10_000.0, 2_500_000.0]) == ["0", "10k", "2.5M"]
    assert tick_texts([1.0, 1000.0], short=True) == ["1", "1k"]
    assert [number(value) for value in (12, 1234.5, None, math.nan, "lru")] == [
        "12",
        "1,234.50",
        "\u2013",
        "\u2013",
        "lru",
    ]
    texts = [significant(value) for value in (0.0, 12345.6, 1.23456, 0.000012345, 2e9, 0.5, None)]
    assert texts == ["0", "12,346", "1.235", "1.23e-05", "2e+09", "0.5", "\u2013"]
    assert [percent(share) for share in (0.5, 0.99949, None)] == ["50.0 %", "99.9 %", "\u2013"]
    assert [duration_text(ms) for ms in (0.0, 12.5, 2500.0, 600_000.0)] == ["0 ms", "12.5 ms", "2.5 s", "10 min"]
    assert [time_unit(ms)[0] for ms in (0.0, 4999.0, 5000.0, 3_600_000.0)] == ["ms", "ms", "s", "min"]
