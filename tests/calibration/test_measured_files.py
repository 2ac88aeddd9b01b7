"""Reading measured requests: our rows, AIPerf's records, results of vllm bench serve."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors.calibration.measured import read_measured
from messages.calibration import MeasuredRequest
from messages.errors import InputError


def lines(folder: Path, *rows: dict[str, Any]) -> Path:
    path = folder / "measured.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def whole(folder: Path, result: dict[str, Any]) -> Path:
    path = folder / "bench.json"
    path.write_text(json.dumps(result, indent=1))
    return path


def finding(path: Path, form: str = "auto") -> str:
    with pytest.raises(InputError) as raised:
        read_measured(path, form)
    return str(raised.value).removeprefix(f"{path}:").removeprefix(" ")


OWN = {
    "row": 0,
    "input_length": 10,
    "output_length": 3,
    "queued_ms": 5.0,
    "first_token_ms": 25.0,
    "last_token_ms": 45.0,
}


def record(number: int, start_ns: float, **parts: Any) -> dict[str, Any]:
    """A record as AIPerf writes it, with some of its fields."""
    return {
        "metadata": {
            "session_num": number,
            "x_request_id": f"id-{number}",
            "turn_index": 0,
            "request_start_ns": start_ns,
            "request_end_ns": start_ns + 5e7,
            "benchmark_phase": "profiling",
            "was_cancelled": False,
            **parts.pop("metadata", {}),
        },
        "metrics": {
            "input_sequence_length": {"value": 550, "unit": "tokens"},
            "output_sequence_length": {"value": 9, "unit": "tokens"},
            "time_to_first_token": {"value": 20.0, "unit": "ms"},
            "request_latency": {"value": 50_000_000, "unit": "ns"},
            "inter_chunk_latency": {"value": [3.0, 4.0], "unit": "ms"},
            **parts.pop("metrics", {}),
        },
        "error": parts.pop("error", None),
    }


BENCH = {
    "backend": "vllm",
    "request_throughput": 1.5,
    "input_lens": [10, 20, 30],
    "output_lens": [3, 1, 0],
    "ttfts": [0.5, 0.25, 0.0],
    "itls": [[0.25, 0.25], [], []],
    "start_times": [100.0, 101.5, 102.0],
    "errors": ["", "", "Connection refused"],
}


def test_our_own_rows(tmp_path: Path) -> None:
    path = lines(tmp_path, OWN, {**OWN, "row": 1, "first_token_ms": None, "error": "out of memory"})
    assert read_measured(path) == (
        [
            MeasuredRequest(
                place="line 1", row=0, input_length=10, output_length=3, arrival_ms=5.0, ttft_ms=20.0, e2e_ms=40.0
            ),
            MeasuredRequest(place="line 2", row=1, input_length=10, output_length=3, arrival_ms=5.0, skipped="failed"),
        ],
        "measured",
    )


def test_requests_of_a_replay_are_rows_too(tmp_path: Path) -> None:
    row = {"request_id": "a", "arrival_time_ms": 1.0, "first_token_ms": 3.0, "last_token_ms": 9.0, "worker": 4}
    rejected = {**row, "request_id": "b", "first_token_ms": None, "last_token_ms": None, "terminal_status": "rejected"}
    found, _ = read_measured(lines(tmp_path, {**row, "terminal_status": "completed"}, rejected))
    assert [(request.request_id, request.ttft_ms, request.skipped) for request in found] == [
        ("a", 2.0, None),
        ("b", 0.0, "rejected"),
    ]


def test_records_of_aiperf_are_put_in_order(tmp_path: Path) -> None:
    path = lines(
        tmp_path,
        record(1, 2e9),
        record(0, 1e9, metrics={"request_latency": {"value": 0.04, "unit": "s"}}),
        record(7, 0.0, metadata={"benchmark_phase": "warmup"}),
        record(2, 3e9, error={"code": 500, "message": "no"}),
        record(3, 4e9, metadata={"was_cancelled": True}),
    )
    rows, form = read_measured(path)
    assert form == "aiperf"
    assert [(row.place, row.row, row.arrival_ms, row.ttft_ms, row.e2e_ms, row.skipped) for row in rows] == [
        ("line 2", 0, 1000.0, 20.0, 40.0, None),
        ("line 1", 1, 2000.0, 20.0, 50.0, None),
        ("line 4", 2, 3000.0, 0.0, 0.0, "failed"),
        ("line 5", 3, 4000.0, 0.0, 0.0, "cancelled"),
    ]
    assert (rows[0].input_length, rows[0].output_length) == (550, 9)


def test_turns_of_aiperf_come_session_by_session(tmp_path: Path) -> None:
    turns = [(0, 0, 1e9), (1, 0, 2e9), (0, 1, 3e9), (1, 1, 4e9)]
    path = lines(tmp_path, *(record(number, at_ns, metadata={"turn_index": turn}) for number, turn, at_ns in turns))
    rows, _ = read_measured(path)
    assert [(row.arrival_ms, row.row) for row in rows] == [
        (1000.0, None),
        (3000.0, None),
        (2000.0, None),
        (4000.0, None),
    ]


def test_result_of_vllm_bench(tmp_path: Path) -> None:
    rows, form = read_measured(whole(tmp_path, BENCH))
    assert form == "vllm-bench"
    assert [(row.row, row.arrival_ms, row.ttft_ms, row.e2e_ms, row.skipped) for row in rows] == [
        (0, 100_000.0, 500.0, 1000.0, None),
        (1, 101_500.0, 250.0, 250.0, None),
        (2, 102_000.0, 0.0, 0.0, "failed"),
    ]
    del BENCH_WITHOUT_STARTS["start_times"]
    rows, _ = read_measured(whole(tmp_path, BENCH_WITHOUT_STARTS))
    assert [row.arrival_ms for row in rows] == [None, None, None]


BENCH_WITHOUT_STARTS = dict(BENCH)


@pytest.mark.parametrize(
    ("row", "text"),
    [
        ({**OWN, "first_token_ms": 5.0}, "1: the first token came 0 ms after the arrival; expected a time above 0"),
        ({**OWN, "last_token_ms": 10.0}, "1: the last token came 5 ms after the arrival, before the first at 20 ms"),
        ({"row": 0, "queued_ms": 1.0, "last_token_ms": 4.0}, "1: first_token_ms: missing"),
        ({**OWN, "last_token_ms": 1e300}, "1: the last token came 1e+300 ms after the arrival; expected at most "),
        (
            {**OWN, "queued_ms": 1e300, "first_token_ms": 2e300, "last_token_ms": 3e300},
            "1: the last token came 2e+300 ms after the arrival; expected at most ",
        ),
        ({"row": 0, "first_token_ms": 1.0, "last_token_ms": 4.0}, "1: queued_ms: missing"),
        ({**OWN, "row": -1}, "1: row: expected an integer >= 0, got -1"),
        (record(0, 0.0, metrics={"time_to_first_token": {"value": 2, "unit": "weeks"}}), "1: metrics.time_to_first_"),
        (record(0, 0.0, metrics={"request_latency": {"value": "fast", "unit": "ms"}}), "1: metrics.request_latency.v"),
    ],
)
def test_bad_rows_are_told(tmp_path: Path, row: dict[str, Any], text: str) -> None:
    assert finding(lines(tmp_path, row)).startswith(text)


def test_bad_results_of_vllm_bench_are_told(tmp_path: Path) -> None:
    without_details = {"ttfts": [0.1]}
    assert "missing required field `itls`; expected the result of" in finding(whole(tmp_path, without_details))
    assert finding(whole(tmp_path, {**BENCH, "itls": []})) == "itls: expected 3 entries, as in ttfts, got 0"
    path = tmp_path / "two.json"
    path.write_text(json.dumps(BENCH) + "\n" + json.dumps(BENCH) + "\n")
    text = finding(path)
    assert text.endswith("a file of several results (--append-result) has to be split")
    assert text.count("JSON is malformed") == 1


@pytest.mark.parametrize("indent", [None, 2])
def test_a_result_of_vllm_bench_without_details_is_known_as_one(tmp_path: Path, indent: int | None) -> None:
    path = tmp_path / "bench.json"
    path.write_text(json.dumps({"backend": "vllm", "completed": 300, "mean_ttft_ms": 7.5}, indent=indent))
    assert finding(path) == (
        "Object missing required field `ttfts`; expected the result of vllm bench serve --save-result --save-detailed"
    )


def test_a_file_without_requests_is_told(tmp_path: Path) -> None:
    path = tmp_path / "measured.jsonl"
    assert finding(path) == "no such file; give the measured requests"
    path.write_text("\n")
    assert finding(path) == "is empty; expected measured requests"
    assert finding(lines(tmp_path, record(0, 0.0, metadata={"benchmark_phase": "warmup"}))) == (
        "holds no measured requests"
    )
