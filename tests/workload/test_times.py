from __future__ import annotations

import math

from hypothesis import example, given
from hypothesis import strategies as st

from actors.workload.times import twice_rounded


@given(st.integers(-(10**15), 10**15), st.integers(0, 9))
def test_up_to_fifteen_digits_are_read_exactly(digits: int, decimals: int) -> None:
    value = float(f"{digits}e-{decimals}")
    assert twice_rounded(value) == value


@given(st.floats(-1e15, 1e15))
@example(9.179942932680245e-125)
def test_the_result_is_at_most_two_units_in_the_last_place_off(value: float) -> None:
    assert abs(twice_rounded(value) - value) <= 2.0 * math.ulp(value)


def test_seventeen_digits_are_rounded_as_an_integer_first() -> None:
    assert twice_rounded(112.47000762292527) == 11247000762292527 / 1e14
    assert twice_rounded(-112.47000762292527) == -(11247000762292527 / 1e14)
