"""Passes that prefill and decode at once: added up, told as a whole by the model, scaled and adjusted."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.timing.adjusted import AdjustedModel
from engines.timing.contexts import TOLERANCE, ContextTables
from engines.timing.durations import Durations, scaled
from engines.timing.model import build_timing
from engines.timing.polynomial import PolynomialModel
from engines.timing.sums import NO_DECODE, NO_PREFILL, DecodeSums, PrefillSums
from messages.errors import InputError
from messages.spec import Adjustment, CalibratedTiming, FixedTiming, PolynomialTiming

PREFILL, DECODE = PrefillSums(2, 45, 30), DecodeSums(3, 40)
CAPACITY = 64


class Overlapping:
    """1 ms per new token, 0.1 ms per request that decodes, which costs a quarter of that beside a prompt."""

    tabulate = False

    def pass_ms(self, prefill: PrefillSums, decode: DecodeSums, capacity_tokens: int) -> float:
        return (prefill.isl - prefill.prefix) * 1.0 + decode.requests * 0.025

    def decode_ms(self, count: int, kv_tokens: int, capacity_tokens: int) -> float:
        return count * 0.1

    def decode_run_ms(self, count: int, kv_tokens: np.ndarray, capacity_tokens: int) -> np.ndarray:
        return np.full(len(kv_tokens), count * 0.1)


def test_prefill_and_decode_add_up_each_rounded() -> None:
    durations = Durations(PolynomialModel(), 1.0, 1.0, CAPACITY)
    prefill_ms = scaled(PolynomialModel().prefill_ms(2, 22, 15), 1.0)
    decode_ms = scaled(PolynomialModel().decode_ms(3, 40, CAPACITY), 1.0)
    assert durations.end_ms(0.1, PREFILL, DECODE) == (0.1 + prefill_ms) + decode_ms
    assert durations.end_ms(0.1, PREFILL, NO_DECODE) == 0.1 + prefill_ms
    assert durations.end_ms(0.1, NO_PREFILL, DECODE) == 0.1 + decode_ms
    assert durations.end_ms(0.1, NO_PREFILL, NO_DECODE) == 0.1


def test_a_model_may_tell_the_time_of_the_whole_pass() -> None:
    durations = Durations(Overlapping(), 1.0, 1.0, CAPACITY)
    assert durations.end_ms(0.0, PREFILL, DECODE) == scaled(15.075, 1.0)
    assert durations.end_ms(0.0, PREFILL, NO_DECODE) == durations.prefill_ms(*PREFILL) == 15.0
    assert durations.end_ms(0.0, NO_PREFILL, DECODE) == durations.decode_ms(*DECODE) == scaled(0.3, 1.0)


@pytest.mark.parametrize(
    ("prefill_ratio", "decode_ratio", "expected"),
    [
        (3.0, 1.0, 15.075 / 3.0),
        (0.0, 5.0, 15.075),
        (2.0, 1.5, 14.775 / 2.0 + 0.3 / 3.0),
        (2.0, 0.0, 14.775 / 2.0 + 0.3),
    ],
)
def test_speedup_ratios_of_a_whole_pass(prefill_ratio: float, decode_ratio: float, expected: float) -> None:
    durations = Durations(Overlapping(), prefill_ratio, decode_ratio, CAPACITY)
    assert durations.end_ms(0.0, PREFILL, DECODE) == pytest.approx(expected, abs=1e-6)


def test_an_adjustment_scales_what_each_part_adds() -> None:
    adjustment = Adjustment(prefill_scale=2.0, decode_scale=0.5, pass_overhead_ms=1.0)
    whole = AdjustedModel(Overlapping(), adjustment)
    assert whole.pass_ms(PREFILL, DECODE, CAPACITY) == pytest.approx(1.0 + 0.5 * 0.3 + 2.0 * (15.075 - 0.3))
    assert whole.pass_ms(PREFILL, NO_DECODE, CAPACITY) == 1.0 + 2.0 * 15.0
    assert whole.decode_ms(3, 40, CAPACITY) == 1.0 + 0.5 * (3 * 0.1)
    added = AdjustedModel(PolynomialModel(), adjustment)
    prefill_ms, decode_ms = PolynomialModel().prefill_ms(2, 22, 15), PolynomialModel().decode_ms(3, 40, CAPACITY)
    assert added.pass_ms(PREFILL, DECODE, CAPACITY) == 1.0 + (0.5 * decode_ms + 2.0 * prefill_ms)


def test_no_adjustment_is_the_plain_model(tmp_path: Path) -> None:
    assert isinstance(build_timing(PolynomialTiming(), tmp_path), PolynomialModel)
    assert isinstance(build_timing(PolynomialTiming(adjust=Adjustment()), tmp_path), AdjustedModel)


def test_a_calibration_adjusts_the_model_in_its_file(tmp_path: Path) -> None:
    fixed = {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0}
    document = {"timing_model": fixed, "adjust": {"decode_scale": 1.5, "pass_overhead_ms": 2.0}, "fitted_on": "even"}
    (tmp_path / "timing.json").write_text(json.dumps(document))
    model = build_timing(CalibratedTiming(path="timing.json"), tmp_path)
    assert model.decode_ms(3, 40, CAPACITY) == 3.5
    durations = Durations(model, 1.0, 1.0, CAPACITY)
    assert durations.end_ms(0.0, PREFILL, DECODE) == 13.5
    assert build_timing(FixedTiming(prefill_ms=10.0, decode_ms=1.0), tmp_path).decode_ms(3, 40, CAPACITY) == 1.0


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "no such file; give the path of a calibration relative to the spec file"),
        ("{", "is not a calibration: Input data was truncated"),
        ("{}", "is not a calibration: Object missing required field `timing_model`"),
        ('{"timing_model": {"type": "calibrated", "path": "x"}}', "is not a calibration: Invalid value 'calibrated'"),
        ('{"timing_model": {"type": "polynomial"}, "adjust": {"decode_scale": 0}}', "is not a calibration: Expected"),
    ],
)
def test_a_bad_calibration_is_refused(text: str | None, message: str, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "timing.json").write_text(text)
    with pytest.raises(InputError) as caught:
        build_timing(CalibratedTiming(path="timing.json"), tmp_path)
    assert str(caught.value).startswith(f"{tmp_path / 'timing.json'}: {message}")


def rough_ms(count: int, context: int) -> float:
    """A curve with a bend, a jump and noise at short contexts."""
    noise = (context * 7919 % 13) / 100.0 if context < 40 else 0.0
    return 5.0 + count * max(context - 700, 0) ** 1.1 * 1e-4 + (0.5 if context >= 3000 else 0.0) + noise


@given(count=st.integers(1, 200), context=st.integers(1, 5000))
def test_tables_of_contexts_are_nearly_exact(count: int, context: int) -> None:
    value = ContextTables(rough_ms).at(count, context)
    assert value == pytest.approx(rough_ms(count, context), rel=4 * TOLERANCE)


@given(calls=st.lists(st.tuples(st.integers(1, 3), st.integers(1, 1200), st.integers(1, 600)), max_size=8))
def test_tables_of_contexts_do_not_depend_on_the_order_of_questions(calls: list[tuple[int, int, int]]) -> None:
    forwards, backwards = ContextTables(rough_ms), ContextTables(rough_ms)
    answers = [forwards.run(*call).tolist() for call in calls]
    assert answers == [backwards.run(*call).tolist() for call in reversed(calls)][::-1]
    for (count, context, passes), answer in zip(calls, answers, strict=True):
        assert answer == [backwards.at(count, context + index) for index in range(passes)]


def test_tables_of_contexts_ask_seldom() -> None:
    asked = []

    def exact(count: int, context: int) -> float:
        asked.append((count, context))
        return 5.0 + 1e-3 * context

    ContextTables(exact).run(8, 1, 4000)
    assert len(asked) < 100
