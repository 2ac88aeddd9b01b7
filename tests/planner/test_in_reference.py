"""Our planner decides about the reference's cluster, over the whole Mooncake conversation trace.

The decisions of the first case are recorded in `recorded/whole-trace.json`, as a run of our own must make them too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.parity.reference import Reference
from tests.planner.black_box import run_in_reference
from tests.planner.builders import recorded

REQUESTS = 12_031


def test_aggregated_by_throughput(reference: Reference, traces: Path, tmp_path: Path) -> None:
    answer = _whole_trace(
        reference,
        traces,
        tmp_path,
        config={"extra_engine_args": {"engine": {}}, "num_workers": 1},
        planner_config={
            "optimization_target": "throughput",
            "load_adjustment_interval_seconds": 5,
            "max_gpu_budget": 8,
        },
    )
    assert decisions(answer["planner"]) == recorded("whole-trace")


def test_disaggregated_by_sla(reference: Reference, traces: Path, tmp_path: Path) -> None:
    roles = {
        f"{role}_engine_args": {"engine": {"worker_type": role}, "startup_time": 7.0} for role in ("prefill", "decode")
    }
    answer = _whole_trace(
        reference,
        traces,
        tmp_path,
        config={**roles, "num_prefill_workers": 2, "num_decode_workers": 2},
        planner_config={
            "optimization_target": "sla",
            "load_predictor": "kalman",
            "enable_load_scaling": True,
            "throughput_adjustment_interval_seconds": 60,
            "ttft_ms": 2000,
            "itl_ms": 20,
            "max_gpu_budget": 12,
        },
    )
    ticks = answer["planner"]["ticks"]
    reasons = {tick["effects"]["diagnostics"]["load_decision_reason"] for tick in ticks}
    assert {"scale_up", "scale_down", "scaling_in_progress", "scale_down_refused_consolidation"} <= reasons
    for tick in ticks:
        workers = [tick["topology"][role][state] for role in ("prefill", "decode") for state in ("active", "starting")]
        assert sum(map(len, workers)) <= 12


def _whole_trace(reference: Reference, traces: Path, folder: Path, **request: Any) -> dict[str, Any]:
    request["config"]["trace_block_size"] = 512
    answer = run_in_reference(reference, {"trace_path": str(traces / "mooncake-conversation.jsonl"), **request}, folder)
    assert answer["summary"]["completed_requests"] == REQUESTS
    assert answer["planner"]["total_ticks"] > 0
    return answer


def decisions(planner: dict[str, Any]) -> dict[str, Any]:
    """What a planner decided, tick by tick: [time in ms, prefill, decode, reason], without ticks of no change."""
    told = []
    for tick in planner["ticks"]:
        decision, reason = tick["runtime_decision"], tick["effects"]["diagnostics"]["load_decision_reason"]
        if reason != "no_change":
            told.append([tick["at_ms"], decision["target_prefill"], decision["target_decode"], reason])
    return {"total_ticks": planner["total_ticks"], "decisions": told}
