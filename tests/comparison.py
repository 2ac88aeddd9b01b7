"""Comparing a report with rows and a summary of the reference."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from typing import Any

import msgspec
import pytest

from messages.report import ReplayReport

POOLED = ("itl_ms", "output_token_throughput_per_user")
"""Statistics over all token gaps. The reference estimates their percentiles (ours are exact, within 0.2 % of its) and
updates mean and deviation gap by gap, which rounds a few million times."""
PERCENTILES = ("median", "p75", "p90", "p95", "p99")
HOST_TIME = ("wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s")


def simulated_figures(report: ReplayReport) -> dict[str, Any]:
    """The summary without what depends on the host's clock."""
    return {key: value for key, value in report.summary.items() if key not in HOST_TIME}


def assert_same_rows(report: ReplayReport, expected: Iterable[dict[str, Any]]) -> None:
    """Every recorded field of every request is equal, floats to the last bit; rows match as multisets."""
    expected = list(expected)
    assert report.requests is not None
    assert len(report.requests) == len(expected)
    ours = [msgspec.to_builtins(record) for record in report.requests]
    models = {key: max((row[key] for row in expected), key=_size) for key in (expected[0] if expected else ())}
    theirs = Counter(json.dumps({key: row[key] for key in models}, sort_keys=True) for row in expected)
    found = Counter(
        json.dumps({key: _like(row[key], model) for key, model in models.items()}, sort_keys=True) for row in ours
    )
    differing = (*(theirs - found), "ours:", *(found - theirs))
    assert differing == ("ours:",), "\n".join(differing[:6])


def _size(value: Any) -> int:
    return len(value) if isinstance(value, list) else 0


def _like(value: Any, model: Any) -> Any:
    """`value` without the parts of nested objects that the recording does not have."""
    if isinstance(model, list) and model and isinstance(model[0], dict):
        return [{key: entry[key] for key in model[0]} for entry in value]
    return value


def assert_same_summary(report: ReplayReport, expected: dict[str, Any]) -> None:
    """Every figure that the reference reports is equal as far as it defines it exactly."""
    for key, theirs in expected.items():
        if key in HOST_TIME:
            continue
        ours = report.summary[key]
        if isinstance(theirs, float):
            tolerance, absolute = 1e-12, 1e-9
            if key.endswith(POOLED):
                tolerance = 2e-3 if key.startswith(PERCENTILES) else 1e-10
                if key.startswith("std"):
                    # A deviation far below the mean is made of rounding.
                    absolute = 1e-7 * (report.summary[key.replace("std", "mean")] or 0.0)
            assert (ours or 0.0) == pytest.approx(theirs, rel=tolerance, abs=absolute), key
        else:
            assert ours == theirs, key
