"""Comparing what a scaling policy saw and caused with what the reference tells of it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from messages.report import ReplayReport


def assert_like(ours: Any, theirs: Any, path: str = "") -> None:
    """Everything in `theirs` is equal; floats to 1e-9."""
    if isinstance(theirs, dict):
        for key, value in theirs.items():
            assert key in ours, f"{path}.{key}"
            assert_like(ours[key], value, f"{path}.{key}")
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), path
        for index, value in enumerate(theirs):
            assert_like(ours[index], value, f"{path}[{index}]")
    elif isinstance(theirs, float) and ours != theirs:
        assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-12), path
    else:
        assert ours == theirs, path


def assert_same_operations(report: ReplayReport, expected: list[dict[str, Any]]) -> None:
    """The life of the workers is the same; which requests a queue released is told by their histories."""
    assert report.planner is not None
    theirs = [
        {key: value for key, value in operation.items() if key != "topology_released_request_uuids"}
        for operation in expected
    ]
    assert_like(msgspec.to_builtins(report.planner.lifecycle_operations), theirs, "operations")
