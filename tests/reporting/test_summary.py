"""The summary of small runs, and of recorded ones."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.reporting.latencies import derive_latencies, token_gaps
from actors.reporting.report import build_report
from actors.reporting.statistics import STATISTICS
from actors.reporting.timeline import RequestTimeline, RunFigures, Timelines
from messages.report import Shortfall
from messages.requests import Status
from messages.spec import Sla

Make = Callable[..., Any]


def summary_of(timelines: Timelines, figures: RunFigures) -> dict[str, Any]:
    return build_report(timelines, figures).summary


def test_keys_come_in_the_documented_order(timelines: Make, figures: Make) -> None:
    goodput = ["goodput_completed_requests", "goodput_request_throughput_rps", "goodput_output_throughput_tok_s"]
    suffixes = ["ttft_ms", "ttst_ms", "tpot_ms", "itl_ms", "e2e_latency_ms", "output_token_throughput_per_user"]
    expected = [
        "kv_eviction_policy", "committed_prefill_tokens", "num_requests", "completed_requests", "total_input_tokens",
        "total_output_tokens", "duration_ms", "wall_time_ms", "request_throughput_rps", "input_throughput_tok_s",
        "output_throughput_tok_s", "total_throughput_tok_s", "prefill_worker_seconds", "decode_worker_seconds",
        "prefill_gpus_per_worker", "decode_gpus_per_worker", "gpu_hours", *goodput, "power_w", "power_coverage",
        "processed_tokens", "processed_tokens_per_s", "processed_output_tokens_per_s", "prefix_cache_reused_ratio",
        "first_admission_prefix_cache_reused_ratio", "num_ttft_samples", "num_tpot_samples",
        "num_e2e_latency_samples", "num_ttst_samples", "num_itl_samples",
        *(f"{statistic}_{suffix}" for suffix in suffixes for statistic in STATISTICS),
    ]  # fmt: skip
    assert list(summary_of(timelines(), figures(sla=Sla(ttft_ms=1.0)))) == expected
    assert list(summary_of(timelines(), figures())) == [key for key in expected if key not in goodput]


def test_run_without_requests_has_zero_counts_and_null_statistics(timelines: Make, figures: Make) -> None:
    summary = summary_of(timelines(), figures())
    assert summary["num_requests"] == 0
    assert summary["request_throughput_rps"] == 0.0
    assert summary["prefix_cache_reused_ratio"] == 0.0
    assert summary["mean_ttft_ms"] is None
    assert summary["p99_itl_ms"] is None


def test_two_requests(request_timeline: Make, timelines: Make, figures: Make) -> None:
    run = timelines(
        (request_timeline(0, input_length=100, terminal_ms=40.0, reused=(20, 60)), [10.0, 30.0, 40.0]),
        (request_timeline(1, input_length=50, arrival_ms=5.0, terminal_ms=50.0), [50.0]),
    )
    summary = summary_of(run, figures(committed_prefill_tokens=170, worker_seconds=0.1, gpus_per_worker=4))
    assert summary["total_output_tokens"] == 4
    assert summary["duration_ms"] == 50.0
    assert summary["request_throughput_rps"] == 2 / 0.05
    assert summary["decode_worker_seconds"] == 0.1
    assert summary["gpu_hours"] == 0.1 * 4 / 3600.0
    assert summary["processed_tokens_per_s"] == 154 / 2.0 * 1000.0
    assert summary["prefix_cache_reused_ratio"] == 60 / 150
    assert summary["first_admission_prefix_cache_reused_ratio"] == 20 / 150
    assert [summary[f"num_{name}_samples"] for name in ("ttft", "ttst", "tpot", "itl", "e2e_latency")] == [
        2,
        1,
        1,
        2,
        2,
    ]
    assert (summary["min_ttft_ms"], summary["max_ttft_ms"]) == (10.0, 45.0)
    assert summary["mean_ttst_ms"] == 20.0
    assert summary["mean_tpot_ms"] == 15.0
    assert (summary["min_itl_ms"], summary["max_itl_ms"]) == (10.0, 20.0)
    assert summary["max_output_token_throughput_per_user"] == 100.0
    assert summary["std_e2e_latency_ms"] == 2.5


def test_only_completed_requests_count(request_timeline: Make, timelines: Make, figures: Make) -> None:
    run = timelines(
        (request_timeline(0, status=Status.REJECTED, terminal_ms=9.0, reused=(8,), reason="too long"), [1.0, 5.0]),
        (request_timeline(1, terminal_ms=4.0), [2.0, 4.0]),
        (request_timeline(2, status=None), [3.0]),
        (request_timeline(3, status=Status.REJECTED, terminal_ms=9.0, reused=(), reason="too long"), []),
        (request_timeline(4, status=Status.FAILED, terminal_ms=9.0, reason="dead end"), [6.0, 7.0]),
    )
    report = build_report(run, figures())
    assert report.summary["num_requests"] == 5
    assert report.summary["completed_requests"] == 1
    assert report.summary["total_output_tokens"] == 2
    assert report.summary["duration_ms"] == 4.0
    assert report.summary["num_itl_samples"] == 1
    assert report.summary["prefix_cache_reused_ratio"] == 0.0
    assert report.shortfalls == [
        Shortfall("rejected", 2, ["too long"]),
        Shortfall("failed", 1, ["dead end"]),
        Shortfall("unfinished", 1, []),
    ]


@pytest.mark.parametrize(
    ("sla", "good", "tokens"),
    [
        (Sla(ttft_ms=10.0), 2, 4),
        (Sla(ttft_ms=9.9), 1, 1),
        (Sla(ttft_ms=10.0, itl_ms=14.9), 1, 1),
        (Sla(itl_ms=15.0), 2, 4),
        (Sla(e2e_ms=40.0), 3, 4),
        (Sla(e2e_ms=30.0), 2, 1),
    ],
)
def test_goodput_bounds_are_inclusive_and_tokenless_requests_are_judged_by_e2e_alone(
    request_timeline: Make, timelines: Make, figures: Make, sla: Sla, good: int, tokens: int
) -> None:
    run = timelines(
        (request_timeline(0, terminal_ms=40.0), [10.0, 30.0, 40.0]),
        (request_timeline(1, terminal_ms=5.0), [5.0]),
        (request_timeline(2, arrival_ms=70.0, terminal_ms=100.0), []),
    )
    summary = summary_of(run, figures(sla=sla))
    assert summary["goodput_completed_requests"] == good
    assert summary["goodput_request_throughput_rps"] == good / 0.1
    assert summary["goodput_output_throughput_tok_s"] == tokens / 0.1


def test_gaps_stay_within_counted_requests(request_timeline: Make, timelines: Make) -> None:
    rng = np.random.default_rng(3)
    runs: list[tuple[RequestTimeline, list[float]]] = []
    for ordinal in range(200):
        times = np.cumsum(rng.random(rng.integers(0, 5))).tolist()
        status = Status.COMPLETED if rng.random() < 0.7 else Status.REJECTED
        runs.append((request_timeline(ordinal, status=status, terminal_ms=1.0), times))
    counted = np.array([request.counted for request, _ in runs])
    expected = [
        later - earlier for request, times in runs if request.counted for earlier, later in itertools.pairwise(times)
    ]
    gaps, counts = token_gaps(timelines(*runs), counted)
    assert gaps.tolist() == expected
    assert counts.tolist() == [1] * len(expected)


def test_requests_that_share_passes_share_their_gaps(request_timeline: Make) -> None:
    requests = [request_timeline(ordinal, terminal_ms=9.0) for ordinal in range(3)]
    requests[2].status = Status.REJECTED
    # One log of six passes; the first request is preempted for two of them, the last does not count.
    times = np.array([1.0, 3.0, 4.0, 7.0, 12.0, 20.0])
    stretches = np.array([(0, 0, 2), (0, 4, 6), (1, 1, 5), (2, 0, 6)])
    timelines = Timelines(requests, times, *stretches.T)
    gaps, counts = token_gaps(timelines, np.array([request.counted for request in requests]))
    assert list(zip(gaps.tolist(), counts.tolist(), strict=True)) == [
        (2.0, 1),
        (1.0, 1),
        (3.0, 1),
        (5.0, 1),
        (8.0, 1),
        (9.0, 1),
    ]
    latencies = derive_latencies(timelines)
    assert latencies.tokens.tolist() == [4, 4, 6]
    assert latencies.first_ms.tolist() == [1.0, 3.0, 1.0]
    assert latencies.ttst_ms.tolist() == [2.0, 1.0, 2.0]
    assert latencies.last_ms.tolist() == [20.0, 12.0, 20.0]


RECORDED = (
    "workload-17-goodput-ttft-itl",
    "workload-18-goodput-e2e",
    "workload-19-max-sim-time",
    "workload-20-rejected-turn",
    "workload-21-preemption-reuse",
)


@pytest.mark.parametrize("name", RECORDED)
def test_request_level_figures_of_recorded_runs(
    recorded_examples: Path, request_timeline: Make, timelines: Make, figures: Make, name: str
) -> None:
    """The recorded rows hold first, second and last token times; token gaps between those are not compared."""
    example = json.loads((recorded_examples / f"{name}.json").read_text())
    expected = example["expected_summary"]
    runs = []
    for ordinal, row in enumerate(example["expected_per_request"]):
        reused = (row["reused_input_tokens"],) * row["admission_count"]
        request = request_timeline(
            ordinal,
            arrival_ms=row["arrival_time_ms"],
            input_length=row["input_length"],
            terminal_ms=row["terminal_time_ms"],
            status=Status(row["terminal_status"]),
            reused=reused,
        )
        runs.append((request, token_times(row)))
    missing = expected["num_requests"] - len(runs)
    runs += [(request_timeline(len(runs) + index, status=None), []) for index in range(missing)]
    config = example["config"]
    sla = Sla(**{bound: config.get(f"sla_{bound}") for bound in ("ttft_ms", "itl_ms", "e2e_ms")})
    summary = summary_of(
        timelines(*runs),
        figures(
            sla=sla,
            committed_prefill_tokens=expected["committed_prefill_tokens"],
            worker_seconds=expected["decode_worker_seconds"],
            gpus_per_worker=expected["decode_gpus_per_worker"],
        ),
    )
    unrecorded = ("itl", "throughput_per_user", "wall", "processed_tokens_per_s", "first_admission")
    compared = [key for key in expected if not any(part in key for part in unrecorded) or key.startswith("goodput")]
    assert len(compared) > 50
    for key in compared:
        found = 0.0 if summary[key] is None and expected[key] is not None else summary[key]
        if isinstance(expected[key], float):
            assert math.isclose(found, expected[key], rel_tol=1e-12, abs_tol=1e-9), key
        else:
            assert found == expected[key], key


def token_times(row: dict[str, Any]) -> list[float]:
    """Token times that agree with what a row tells; the last token is exact."""
    count = row["output_length"]
    if count == 0:
        return []
    second = [row["first_token_ms"] + row["ttst_ms"]] if count > 2 else []
    between = [row["last_token_ms"]] * (count - 1 - len(second))
    return [row["first_token_ms"], *second, *between]


def test_latencies_of_requests_with_few_tokens(request_timeline: Make, timelines: Make) -> None:
    latencies = derive_latencies(
        timelines(
            (request_timeline(0, arrival_ms=1.0), []),
            (request_timeline(1, arrival_ms=1.0), [4.0]),
            (request_timeline(2, arrival_ms=1.0), [4.0, 6.0]),
        )
    )
    nan = math.nan
    np.testing.assert_array_equal(latencies.tokens, [0, 1, 2])
    np.testing.assert_array_equal(latencies.ttft_ms, [nan, 3.0, 3.0])
    np.testing.assert_array_equal(latencies.ttst_ms, [nan, nan, 2.0])
    np.testing.assert_array_equal(latencies.tpot_ms, [nan, nan, 2.0])
    np.testing.assert_array_equal(latencies.e2e_ms, [nan, 3.0, 5.0])
