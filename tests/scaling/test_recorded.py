"""Recorded runs of the reference with scripted scaling: timelines, life of the workers, and what the policy saw."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from actors import replay
from messages.errors import ReplayError
from tests.comparison import assert_same_rows, assert_same_summary
from tests.scaling.comparison import assert_like, assert_same_operations
from tests.scaling.policies import Scripted

RUNS = sorted((Path(__file__).parent / "recorded").iterdir())


@pytest.mark.parametrize("step", [False, True], ids=["merged", "step"])
@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_recorded_run(path: Path, step: bool, tmp_path: Path) -> None:
    run = json.loads(path.read_text())
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in run["trace"]))
    (tmp_path / "spec.json").write_text(json.dumps(run["spec"]))
    policy, expected = Scripted(run["ticks"]), run["expected"]
    if "error" in expected:
        with pytest.raises(ReplayError) as raised:
            replay(tmp_path / "spec.json", scaling_policy=policy, step=step)
        assert str(raised.value) == expected["error"]
        return
    report = replay(tmp_path / "spec.json", scaling_policy=policy, step=step)
    assert_same_rows(report, expected["rows"])
    assert_same_summary(report, expected["summary"])
    if expected["operations"] is not None:
        assert_same_operations(report, expected["operations"])
    if expected["snapshots"] is not None:
        assert_like(policy.snapshots, expected["snapshots"], "snapshots")
