"""Prefill and decode pools here and on the reference: random cases, and the whole Mooncake conversation trace."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import replay
from tests.comparison import assert_same_rows, assert_same_summary
from tests.parity.cases import compare
from tests.parity.generator import reference_cases, wider_pools_case
from tests.parity.reference import Reference
from tests.parity.test_whole_trace import FIELDS

MILESTONES = (
    "prefill_admit_ms",
    "source_held_ms",
    "destination_reserved_ms",
    "destination_activated_ms",
    "source_released_ms",
)


@pytest.mark.parametrize("ranks", ["one", "several"])
@pytest.mark.parametrize("backend", ["vllm", "sglang", "trtllm"])
def test_cases_of_the_references_generator(
    backend: str, ranks: str, reference: Reference, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    first, count = request.config.getoption("--fuzz-first"), request.config.getoption("--fuzz-count")
    # On one in ten or so the reference fails or goes on for ever.
    if ranks == "several":
        count //= 2
    cases = reference_cases(backend, first, 2 * count, ranks=ranks, topology="disaggregated")
    assert compare(reference, cases, tmp_path, seconds=2.0) >= count


@pytest.mark.parametrize("backend", ["vllm", "sglang", "trtllm"])
def test_cases_of_our_own_generator(
    backend: str, reference: Reference, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    first, count = request.config.getoption("--fuzz-first"), request.config.getoption("--fuzz-count")
    count //= 2
    cases = [wider_pools_case(backend, seed) for seed in range(first, first + count)]
    # Caches and limits are so tight that the reference fails or goes on for ever on many.
    assert compare(reference, cases, tmp_path, seconds=2.0) >= count // 2


@pytest.mark.parametrize("link", [{}, {"kv_transfer_bytes_per_token": 131_072, "kv_transfer_bandwidth": 40.0}])
@pytest.mark.parametrize("workers", [2, 4])
def test_every_request_of_the_trace(workers: int, link: dict[str, Any], reference: Reference, traces: Path) -> None:
    _compare_the_trace(workers, link, reference, traces)


@pytest.mark.parametrize("pages", [{"block_size": 1, "num_gpu_blocks": 1_048_576}, {"block_size": 64}])
def test_every_request_of_the_trace_with_sglang(pages: dict[str, Any], reference: Reference, traces: Path) -> None:
    _compare_the_trace(2, {"backend": "sglang", "num_gpu_blocks": 16_384, **pages}, reference, traces)


def _compare_the_trace(workers: int, rank: dict[str, Any], reference: Reference, traces: Path) -> None:
    path = traces / "mooncake-conversation.jsonl"
    config = {
        "num_prefill_workers": workers,
        "num_decode_workers": workers,
        "prefill_engine_args": {"engine": {**rank, "worker_type": "prefill"}},
        "decode_engine_args": {"engine": {**rank, "worker_type": "decode"}},
        "trace_block_size": 512,
    }
    theirs = reference.answer({"entry": "trace", "config": config, "trace_path": str(path)})
    assert "error" not in theirs
    report = replay(
        {
            "topology": {
                "kind": "disaggregated",
                "prefill": {"initial_workers": workers},
                "decode": {"initial_workers": workers},
            },
            "engine": {"rank": rank},
            "workload": {"kind": "trace", "path": str(path)},
        }
    )
    rows = [
        {field: row[field] for field in (*FIELDS, *MILESTONES, "prefill_worker_idx")} for row in theirs["per_request"]
    ]
    assert len(rows) == 12_031
    assert_same_rows(report, rows)
    assert_same_summary(report, theirs["summary"])
