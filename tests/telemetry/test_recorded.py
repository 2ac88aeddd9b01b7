"""Recorded runs of the reference with samples of telemetry."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from actors import replay

RUNS = sorted((Path(__file__).parent / "recorded").iterdir())


@pytest.mark.parametrize("step", [False, True], ids=["merged", "step"])
@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.stem)
def test_recorded_samples(path: Path, step: bool, tmp_path: Path) -> None:
    run = json.loads(path.read_text())
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in run["trace"]))
    (tmp_path / "spec.json").write_text(json.dumps(run["spec"]))
    report = replay(tmp_path / "spec.json", step=step)
    assert msgspec.to_builtins(report.telemetry) == run["samples"]
