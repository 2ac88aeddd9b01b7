"""Whole recorded runs with the reference's planner, replayed: what it saw, decided and caused is the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors import replay
from tests.parity.reference import Reference, as_spec
from tests.planner.builders import LinearSession
from tests.scaling.comparison import assert_like

RUNS = (
    "throughput-agg",
    "load-agg",
    "latency-disagg",
    "sla-throughput-disagg",
    "sla-mixed-disagg",
    "sla-load-agg",
)
INPUT = ("worker_counts", "traffic")


@pytest.mark.parametrize("name", RUNS)
def test_planner_run(name: str, reference: Reference, shared: Path, tmp_path: Path) -> None:
    from run_reference import load_case

    path = shared / "spec" / "examples" / f"planner-run-{name}.json"
    document: dict[str, Any] = msgspec.json.decode(path.read_bytes())
    report = replay(as_spec(load_case(path)[0], tmp_path), planner_bootstrap=LinearSession())
    assert report.planner is not None
    assert report.planner_ticks is not None
    assert len(report.planner_ticks) == document["total_ticks"]
    for ours, theirs in zip(report.planner_ticks, document["ticks"], strict=True):
        tick = msgspec.to_builtins(ours)
        at = f"tick {theirs['ordinal']}"
        assert tick["at_ms"] == theirs["at_ms"]
        assert_like(tick["input"], {key: theirs[key] for key in INPUT if key in theirs}, at)
        assert_like(tick["effects"]["scale_to"], theirs["scale_to"], f"{at}.scale_to")
        assert_like(tick["effects"]["diagnostics"], theirs["diagnostics"], f"{at}.diagnostics")
        assert_like(tick["runtime_decision"], theirs["runtime_decision"], f"{at}.decision")
        for pool in ("prefill", "decode"):
            assert_like(tick["topology"][pool], theirs["topology"][pool], f"{at}.{pool}")
    assert_like(msgspec.to_builtins(report.planner.scaling_events), document["scaling_events"], "events")
    operations = [
        {
            "at_ms": operation.at_ms,
            "pool": operation.pool,
            "cause": operation.cause,
            "tick": operation.planner_tick_ordinal,
            "transitions": [[change.worker_id, change.transition] for change in operation.transitions],
            "state_after": operation.state_after_batch,
        }
        for operation in report.planner.lifecycle_operations
    ]
    theirs_operations = [
        {**operation, "transitions": [change[:2] for change in operation["transitions"]]}
        for operation in document["lifecycle_operations"]
    ]
    assert_like(operations, theirs_operations, "operations")
