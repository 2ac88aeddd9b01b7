"""Recorded runs of the reference, replayed: every timeline is equal to the last bit."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors import replay
from messages.errors import ReplayError
from tests.comparison import assert_same_rows, assert_same_summary

CASES = sorted((Path(__file__).parent / "cases").iterdir())


@pytest.mark.parametrize("step", [False, True], ids=["merged", "step"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_recorded_run(case: Path, step: bool) -> None:
    expected = json.loads((case / "expected.json").read_text())
    if "error" in expected:
        with pytest.raises(ReplayError) as raised:
            replay(case / "spec.json", step=step)
        assert str(raised.value) == expected["error"]
        return
    report = replay(case / "spec.json", step=step)
    assert_same_rows(report, expected["rows"])
    if expected["summary"]:
        assert_same_summary(report, expected["summary"])
