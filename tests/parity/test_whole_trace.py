"""The whole Mooncake conversation trace, run here and on the reference in the same test: every timeline is equal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import replay
from tests.comparison import assert_same_rows, assert_same_summary, simulated_figures
from tests.parity.reference import Reference

FIELDS = (
    "session_id",
    "turn_index",
    "arrival_time_ms",
    "first_admit_ms",
    "terminal_time_ms",
    "first_token_ms",
    "last_token_ms",
    "input_length",
    "requested_output_length",
    "output_length",
    "reused_input_tokens",
    "decode_worker_idx",
    "admission_count",
    "readmission_count",
    "terminal_status",
)


@pytest.mark.parametrize(
    ("workers", "rank", "max_in_flight"),
    [
        (1, {}, None),
        (4, {}, None),
        (8, {}, None),
        (4, {"num_gpu_blocks": 2000}, None),
        (4, {}, 64),
        (4, {"backend": "trtllm"}, None),
    ],
    ids=[
        "1 worker",
        "4 workers",
        "8 workers",
        "4 workers with 2000 blocks",
        "4 workers with 64 in flight",
        "4 TensorRT-LLM workers",
    ],
)
def test_every_request_of_the_trace(
    workers: int, rank: dict[str, Any], max_in_flight: int | None, reference: Reference, traces: Path
) -> None:
    path = traces / "mooncake-conversation.jsonl"
    config: dict[str, Any] = {"num_workers": workers, "extra_engine_args": {"engine": rank}, "trace_block_size": 512}
    if max_in_flight is not None:
        config["replay_concurrency"] = max_in_flight
    theirs = reference.answer({"entry": "trace", "config": config, "trace_path": str(path)})
    assert "error" not in theirs

    report = replay(
        {
            "topology": {"kind": "aggregated", "workers": {"initial_workers": workers}},
            "engine": {"rank": rank},
            "workload": {"kind": "trace", "path": str(path)},
            "max_in_flight": max_in_flight,
        }
    )
    rows = [{field: row[field] for field in FIELDS} for row in theirs["per_request"]]
    assert len(rows) == 12_031
    assert_same_rows(report, rows)
    assert_same_summary(report, theirs["summary"])
    if "num_gpu_blocks" in rank:
        assert sum(row["readmission_count"] for row in rows) == 353


@pytest.mark.parametrize("blocks", [16_384, 2_000])
def test_stepping_through_every_pass_changes_nothing(blocks: int, traces: Path) -> None:
    spec = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 4}},
        "engine": {"rank": {"num_gpu_blocks": blocks}},
        "workload": {"kind": "trace", "path": str(traces / "mooncake-conversation.jsonl")},
    }
    merged, stepped = (replay(spec, step=step) for step in (False, True))
    assert merged.requests == stepped.requests
    assert simulated_figures(merged) == simulated_figures(stepped)
