"""Our planner on the reference's cluster and on ours, over the whole Mooncake conversation trace: all is equal.

The same object is the scaling policy of both. Figures that it was shown may differ in the last digits only.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors import replay
from actors.planner.build import build_scaling_policy
from actors.planner.policy import Planner
from actors.spec.loading import load_spec
from tests.comparison import assert_same_rows
from tests.parity.reference import Reference
from tests.planner.black_box import run_in_reference
from tests.scaling.comparison import assert_like, assert_same_operations

REQUESTS = 12_031
FIELDS = (
    "arrival_time_ms",
    "first_admit_ms",
    "terminal_time_ms",
    "first_token_ms",
    "last_token_ms",
    "input_length",
    "output_length",
    "reused_input_tokens",
    "decode_worker_idx",
    "terminal_status",
)
LONG_CONTEXT = {"max_model_len": 131_072}


def _aggregated(workers: int, startup_s: float, rank: dict[str, Any]) -> dict[str, Any]:
    return {
        "topology": {
            "kind": "aggregated",
            "workers": {"initial_workers": workers, "startup_delay_ms": startup_s * 1000},
        },
        "engine": {"rank": rank},
        "there": {
            "extra_engine_args": {"engine": rank, "startup_time": startup_s},
            "num_workers": workers,
            "trace_block_size": 512,
        },
    }


def _disaggregated(workers: int, startup_s: float, rank: dict[str, Any]) -> dict[str, Any]:
    pool = {"initial_workers": workers, "startup_delay_ms": startup_s * 1000}
    there: dict[str, Any] = {"trace_block_size": 512}
    for role in ("prefill", "decode"):
        there[f"{role}_engine_args"] = {"engine": {**rank, "worker_type": role}, "startup_time": startup_s}
        there[f"num_{role}_workers"] = workers
    return {
        "topology": {"kind": "disaggregated", "prefill": pool, "decode": pool},
        "engine": {"rank": rank},
        "there": there,
    }


BY_SLA = {
    "optimization_target": "sla",
    "load_predictor": "kalman",
    "enable_load_scaling": True,
    "throughput_adjustment_interval_seconds": 60,
    "ttft_ms": 2000,
    "itl_ms": 20,
    "max_gpu_budget": 12,
}
CASES = {
    "throughput": (
        _aggregated(1, 0.0, {}),
        {"optimization_target": "throughput", "load_adjustment_interval_seconds": 5, "max_gpu_budget": 8},
    ),
    "load": (
        _aggregated(1, 3.3, {"num_gpu_blocks": 6000}),
        {
            "optimization_target": "load",
            "decode_scale_up_kv_rate": 70,
            "decode_scale_down_kv_rate": 30,
            "max_gpu_budget": -1,
            "scheduling": {"scale_interval_seconds": 0.5},
        },
    ),
    "latency in two pools": (
        _disaggregated(2, 7.0, LONG_CONTEXT),
        {"optimization_target": "latency", "max_gpu_budget": 12},
    ),
    "sla": (_aggregated(2, 12.0, LONG_CONTEXT), {**BY_SLA, "itl_ms": 40}),
    "sla in two pools": (_disaggregated(2, 7.0, {}), BY_SLA),
}


@pytest.mark.parametrize(("cluster", "config"), CASES.values(), ids=CASES)
def test_decisions_and_timelines_of_the_whole_trace(
    cluster: dict[str, Any], config: dict[str, Any], reference: Reference, traces: Path, tmp_path: Path
) -> None:
    path = str(traces / "mooncake-conversation.jsonl")
    request = {"trace_path": path, "config": cluster["there"], "planner_config": config}
    theirs = run_in_reference(reference, request, tmp_path)
    assert theirs["summary"]["completed_requests"] == REQUESTS
    assert theirs["planner"]["scaling_events"]

    document = {
        "topology": cluster["topology"],
        "engine": cluster["engine"],
        "workload": {"kind": "trace", "path": path},
        "adapters": {"scaling": {"provider": "planner", "config": config}},
    }
    spec, base_dir = load_spec(document)
    planner = build_scaling_policy(spec, base_dir)
    assert isinstance(planner, Planner)
    report = replay(document, scaling_policy=planner)
    assert_same_rows(report, [{field: row[field] for field in FIELDS} for row in theirs["per_request"]])
    assert_same_operations(report, theirs["lifecycle_operations"])
    assert_like(msgspec.to_builtins(planner.details()), theirs["planner"], "planner")
