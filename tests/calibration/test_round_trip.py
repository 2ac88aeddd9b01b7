"""What was measured is a replay with a known adjustment: calibration finds it again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.calibration.calibrate import calibrate
from actors.spec.loading import load_spec
from messages.calibration import CalibrationReport
from tests.calibration.builders import largest_error, write_measured, write_spec

POLYNOMIAL: dict[str, Any] = {"type": "polynomial"}


def calibrated(folder: Path, adjust: dict[str, float], base: dict[str, Any] | None = None, **options: float) -> Any:
    base = POLYNOMIAL if base is None else base
    measured = write_measured(folder, {**base, "adjust": adjust}, **options)
    return calibrate(load_spec(write_spec(folder, base, **options)), measured)


def assert_close(report: CalibrationReport, percent: float) -> None:
    assert report.after.held_out is not None
    assert largest_error(report.after.held_out) < percent
    assert report.after.makespan_ms.error_percent == pytest.approx(0.0, abs=percent)


def test_one_scale_is_found_and_nothing_else_is_fitted(tmp_path: Path) -> None:
    report = calibrated(tmp_path, {"prefill_scale": 1.4, "decode_scale": 1.4}, gap_ms=90.0)
    assert report.parameters == ("scale",)
    assert report.adjust.prefill_scale == report.adjust.decode_scale == pytest.approx(1.4, rel=0.005)
    assert (report.adjust.pass_overhead_ms, report.adjust.request_overhead_ms) == (0.0, 0.0)
    assert_close(report, 1.0)
    assert report.before.held_out is not None
    assert largest_error(report.before.held_out) > 20.0


def test_a_scale_of_its_own_for_prompts_is_found(tmp_path: Path) -> None:
    report = calibrated(tmp_path, {"prefill_scale": 1.8, "decode_scale": 0.9}, gap_ms=150.0)
    assert "prefill_scale" in report.parameters
    assert report.adjust.prefill_scale == pytest.approx(1.8, rel=0.05)
    assert report.adjust.decode_scale == pytest.approx(0.9, rel=0.02)
    assert_close(report, 5.0)


def test_time_between_arrival_and_queue_is_found(tmp_path: Path) -> None:
    report = calibrated(tmp_path, {"request_overhead_ms": 25.0}, gap_ms=250.0)
    assert report.parameters == ("scale", "request_overhead_ms")
    assert report.adjust.request_overhead_ms == pytest.approx(25.0, rel=0.1)
    assert report.adjust.decode_scale == pytest.approx(1.0, rel=0.01)
    assert_close(report, 4.0)


def test_fixed_times_can_be_adjusted_too(tmp_path: Path) -> None:
    base = {"type": "fixed", "prefill_ms": 40.0, "decode_ms": 10.0}
    report = calibrated(tmp_path, {"prefill_scale": 2.0, "decode_scale": 2.0}, base, gap_ms=90.0)
    assert report.adjust.decode_scale == pytest.approx(2.0, rel=0.01)
    assert_close(report, 2.0)


def test_the_same_inputs_give_the_same_report(tmp_path: Path) -> None:
    adjust = {"decode_scale": 1.2}
    assert calibrated(tmp_path, adjust) == calibrated(tmp_path, adjust)
