"""Our planner decides about the reference's cluster, over the whole Mooncake conversation trace.

The decisions of the first case are recorded in `recorded/whole-trace.json`, as a run of our own must make them too.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.parity.reference import Reference
from tests.planner.black_box import ONE_POOL, WHOLE_TRACE, decisions, run_in_reference
from tests.planner.builders import recorded

REQUESTS = 12_031


def test_aggregated_by_throughput(reference: Reference, traces: Path, tmp_path: Path) -> None:
    answer = _whole_trace(
        reference,
        traces,
        tmp_path,
        **ONE_POOL,
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
        config={**roles, "num_prefill_workers": 2, "num_decode_workers": 2, "trace_block_size": 512},
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
    answer = run_in_reference(reference, {"trace_path": str(traces / WHOLE_TRACE), **request}, folder)
    assert answer["summary"]["completed_requests"] == REQUESTS
    assert answer["planner"]["total_ticks"] > 0
    return answer
