"""The KV router here and on the reference, which breaks ties at random: cases without ties, costs, and means."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from actors import replay
from tests.comparison import assert_same_rows, simulated_figures
from tests.parity.cases import compare
from tests.parity.plain_router import PlainRouter
from tests.parity.reference import Reference, as_spec
from tests.parity.router_cases import lone_worker_case, several_workers_case

KV_ROUTER = {"placement": {"provider": "kv_router"}}
PAGES_OF_64 = {"backend": "sglang", "block_size": 64}
CHOICE = ("decode_worker_idx", "prefill_worker_idx")


def trace_spec(path: Path, workers: int, **rank: Any) -> dict[str, Any]:
    return {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": workers}},
        "engine": {"rank": rank},
        "adapters": KV_ROUTER,
        "workload": {"kind": "trace", "path": str(path)},
    }


@pytest.mark.parametrize(
    ("backend", "topology"),
    [
        ("vllm", "aggregated"),
        ("trtllm", "aggregated"),
        ("sglang", "aggregated"),
        ("vllm", "disaggregated"),
        ("trtllm", "disaggregated"),
        ("sglang", "disaggregated"),
    ],
)
def test_cases_without_a_choice(
    backend: str, topology: str, reference: Reference, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Overlaps, queue times and timelines of one worker per pool."""
    first, count = request.config.getoption("--fuzz-first"), request.config.getoption("--fuzz-count") // 2
    cases = [lone_worker_case(backend, seed, topology) for seed in range(first, first + count)]
    assert compare(reference, cases, tmp_path, seconds=2.0) > count // 2


@pytest.mark.parametrize("backend", ["vllm", "trtllm", "sglang"])
def test_cases_with_several_workers(
    backend: str, reference: Reference, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """Compared where only workers that never had a request tie: then only their numbers depend on the draw."""
    first, count = request.config.getoption("--fuzz-first"), request.config.getoption("--fuzz-count") // 4
    cases = [several_workers_case(backend, seed) for seed in range(first, first + count)]
    equal = 0
    for case, theirs in zip(cases, reference.answers(cases, 4.0), strict=True):
        spec = as_spec(case, tmp_path)
        plain = PlainRouter(spec["topology"]["workers"]["initial_workers"], spec["engine"]["rank"]["block_size"])
        stepped = replay(spec, step=True, observe=plain)
        report = replay(spec)
        assert report.requests == stepped.requests
        if not plain.interchangeable:
            continue
        rows = [{key: value for key, value in row.items() if key not in CHOICE} for row in theirs["per_request"]]
        for row in rows:
            for entry in row["routing_history"]:
                del entry["logical_worker_id"], entry["scheduler_id"]
        assert_same_rows(report, rows)
        equal += 1
    assert equal > count // 2


@pytest.mark.parametrize(
    ("workers", "rank"),
    [(4, {"num_gpu_blocks": 1500}), (4, {**PAGES_OF_64, "num_gpu_blocks": 1500})],
    ids=["vLLM", "SGLang"],
)
def test_every_choice_of_500_requests_has_the_lowest_cost(
    workers: int, rank: dict[str, Any], traces: Path, tmp_path: Path
) -> None:
    with (traces / "mooncake-conversation.jsonl").open() as lines:
        (tmp_path / "trace.jsonl").write_text("".join(islice(lines, 500)))
    _check_every_choice(trace_spec(tmp_path / "trace.jsonl", workers, **rank), workers, 500)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("workers", "rank"), [(4, {}), (16, {}), (4, PAGES_OF_64)], ids=["vLLM x4", "vLLM x16", "SGLang x4"]
)
def test_every_choice_of_the_trace_has_the_lowest_cost(workers: int, rank: dict[str, Any], traces: Path) -> None:
    _check_every_choice(trace_spec(traces / "mooncake-conversation.jsonl", workers, **rank), workers, 12_031)


def _check_every_choice(spec: dict[str, Any], workers: int, requests: int) -> None:
    plain = PlainRouter(workers, 64)
    stepped = replay(spec, step=True, observe=plain)
    assert plain.checked == requests
    merged = replay(spec)
    assert merged.requests == stepped.requests
    assert (simulated_figures(merged), merged.routing) == (simulated_figures(stepped), stepped.routing)


@pytest.mark.parametrize(("workers", "mean_ttft_ms"), [(4, 463.0), (16, 192.3)])
def test_mean_times_of_the_trace_are_those_of_the_reference(workers: int, mean_ttft_ms: float, traces: Path) -> None:
    """Means of 8 runs of the reference, each of which is within half a percent of them."""
    report = replay(trace_spec(traces / "mooncake-conversation.jsonl", workers))
    assert report.summary["mean_ttft_ms"] == pytest.approx(mean_ttft_ms, rel=0.01)
