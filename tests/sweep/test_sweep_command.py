"""The command as a user has it: files, table, JSON, exit codes, and what is run again."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from actors import replay
from actors.cli import main
from tests.sweep.documents import BLOCKS, ONE_REQUEST, WORKERS, lines, trace_spec, write_sweep, write_trace

HOST_KEYS = {"wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s"}


def sweep(folder: Path, document: dict[str, Any], *options: str) -> int:
    return main(["sweep", str(write_sweep(folder, document)), *options])


def test_results_are_those_of_replays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trace(tmp_path)
    document = {
        "base": trace_spec(),
        "axes": {WORKERS: [1, 2], BLOCKS: [20, 100]},
        "objective": {"key": "p99_ttft_ms", "goal": "min"},
        "constraints": [{"key": "gpu_hours", "op": "<", "value": 0.0006}],
    }
    assert sweep(tmp_path, document, "--workers", "2") == 0
    folder = tmp_path / "sweep-results"
    assert sorted(path.name for path in folder.iterdir()) == [
        "journal.jsonl",
        "results.jsonl",
        "sweep.html",
        "timings.jsonl",
    ]
    results, timings = lines(folder / "results.jsonl"), lines(folder / "timings.jsonl")
    assert [(result["point"], result["axes"][WORKERS], result["axes"][BLOCKS]) for result in results] == [
        (0, 1, 20),
        (1, 1, 100),
        (2, 2, 20),
        (3, 2, 100),
    ]
    for result, timing in zip(results, timings, strict=True):
        spec = trace_spec()
        spec["topology"]["workers"]["initial_workers"] = result["axes"][WORKERS]
        spec["engine"] = {"rank": {"num_gpu_blocks": result["axes"][BLOCKS]}}
        spec["workload"]["path"] = str(tmp_path / "trace.jsonl")
        expected = {key: value for key, value in replay(spec).summary.items() if key not in HOST_KEYS}
        assert result["summary"] == expected
        assert (result["status"], result["error"]) == ("ok", None)
        assert result["feasible"] is (expected["gpu_hours"] < 0.0006)
        assert timing.keys() == {"point", *HOST_KEYS}
        assert timing["wall_time_ms"] > 0.0

    printed = capsys.readouterr().out
    feasible = [result for result in results if result["feasible"]]
    best = min(feasible, key=lambda result: result["summary"]["p99_ttft_ms"])
    assert 0 < len(feasible) < 4
    assert f"Best: point {best['point']} ({WORKERS}={best['axes'][WORKERS]}, " in printed
    assert f"{len(feasible)} of 4 points feasible" in printed
    assert printed.count("violates gpu_hours < 0.0006") == 4 - len(feasible)
    assert f"Saved: {folder / 'results.jsonl'}" in printed

    assert sweep(tmp_path, document, "--json") == 0
    captured = capsys.readouterr()
    again = json.loads(captured.out)
    assert again["best"] == best["point"]
    assert [objective["key"] for objective in again["objectives"]] == ["p99_ttft_ms", "gpu_hours"]
    assert again["results"] == results
    assert captured.err == f"note: 4 of 4 points are finished already, in {folder}\n"


def test_only_what_changed_is_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trace(tmp_path)
    document = {"base": trace_spec(), "axes": {BLOCKS: [50, 100]}}
    out = tmp_path / "out"
    options = ("--output-dir", str(out), "--workers", "1")
    assert sweep(tmp_path, document, *options, "--quiet") == 0
    assert capsys.readouterr() == ("", "")
    first = (out / "results.jsonl").read_bytes()

    document["axes"] = {BLOCKS: [25, 50, 100]}
    assert sweep(tmp_path, document, *options) == 0
    assert capsys.readouterr().err == f"note: 2 of 3 points are finished already, in {out}\n"
    assert [line["summary"] for line in lines(out / "results.jsonl")][1:] == [
        json.loads(line)["summary"] for line in first.splitlines()
    ]

    trace = tmp_path / "trace.jsonl"
    trace.write_text(trace.read_text().replace('"output_length": 20', '"output_length": 40'))
    assert sweep(tmp_path, document, *options) == 0
    assert capsys.readouterr().err == ""
    assert [line["summary"]["total_output_tokens"] for line in lines(out / "results.jsonl")] == [320] * 3

    trace.write_text(trace.read_text().replace('"output_length": 40', '"output_length": 20'))
    assert sweep(tmp_path, document, *options) == 0
    assert capsys.readouterr().err == f"note: 3 of 3 points are finished already, in {out}\n"
    assert sweep(tmp_path, document, *options, "--fresh") == 0
    assert capsys.readouterr().err == ""


def test_a_failed_point_is_a_result_and_the_sweep_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = {
        "base": ONE_REQUEST,
        "axes": {BLOCKS: [16, 100], "strict": [False, True]},
        "objective": {"key": "gpu_hours", "goal": "min"},
    }
    for note in ("", "note: 4 of 4 points are finished already, in " + str(tmp_path / "sweep-results") + "\n"):
        assert sweep(tmp_path, document) == 1
        captured = capsys.readouterr()
        assert captured.err.startswith(note + "error: 2 of 4 points failed; point 0: no request completed: 1 rejected")
        assert "Best: point 2" in captured.out
        assert "failed: no request completed" in captured.out
    results = lines(tmp_path / "sweep-results" / "results.jsonl")
    assert [(result["status"], result["feasible"]) for result in results] == [
        ("failed", False),
        ("failed", False),
        ("ok", True),
        ("ok", True),
    ]
    assert results[0]["summary"]["num_requests"] == 1
    assert results[1]["summary"] is None
    assert lines(tmp_path / "sweep-results" / "timings.jsonl")[1]["wall_time_ms"] is None


def test_no_feasible_point_is_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = {
        "base": ONE_REQUEST,
        "axes": {BLOCKS: [100]},
        "objective": {"key": "gpu_hours", "goal": "min"},
        "constraints": [{"key": "p99_ttft_ms", "op": "<", "value": 0}],
    }
    assert sweep(tmp_path, document) == 1
    captured = capsys.readouterr()
    assert captured.err == "error: no point keeps all constraints\n"
    assert "Best: none; 0 of 1 points feasible" in captured.out


def test_warnings_of_points_are_told_once(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trace(tmp_path)
    base = trace_spec()
    base["workload"]["arrival_speedup_ratio"] = 2.0
    assert sweep(tmp_path, {"base": base, "axes": {"max_in_flight": [2, 3]}}) == 0
    (warning,) = capsys.readouterr().err.splitlines()
    assert warning.startswith("warning: point 0 and 1 more: workload.arrival_speedup_ratio: 2.0 has no effect")


def test_a_folder_of_something_else_is_left_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = {"base": ONE_REQUEST, "axes": {BLOCKS: [100]}}
    assert sweep(tmp_path, document, "--output-dir", str(tmp_path)) == 2
    assert "the output directory is not empty (it holds sweep.json) and of no sweep" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.json"]
    assert sweep(tmp_path, document, "--output-dir", str(tmp_path / "sweep.json")) == 2
    assert "is a file; expected a directory" in capsys.readouterr().err


def test_results_never_replace_an_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "journal.jsonl").touch()
    write_trace(out, name="results.jsonl")
    base = trace_spec()
    base["workload"]["path"] = "out/results.jsonl"
    before = (out / "results.jsonl").read_bytes()
    assert sweep(tmp_path, {"base": base, "axes": {BLOCKS: [100]}}, "--output-dir", str(out)) == 2
    assert "results.jsonl: --output-dir would replace an input of the sweep" in capsys.readouterr().err
    assert (out / "results.jsonl").read_bytes() == before


def test_bad_input_leaves_nothing_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_trace(tmp_path, [{"timestamp": 0, "input_length": 0, "output_length": 1, "hash_ids": [1]}])
    out = tmp_path / "deep" / "out"
    assert sweep(tmp_path, {"base": trace_spec(), "axes": {BLOCKS: [1]}}, "--output-dir", str(out)) == 2
    assert "trace.jsonl:1: input_length" in capsys.readouterr().err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sweep.json", "trace.jsonl"]


def test_the_built_in_example(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples", "aggregated", "--output-dir", str(tmp_path / "mine")]) == 0
    capsys.readouterr()
    assert main(["sweep", str(tmp_path / "mine" / "sweep.json"), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["best"] in document["front"]
    assert 0 < sum(result["feasible"] for result in document["results"]) < len(document["results"]) == 12


def test_progress_is_for_terminals_only(tmp_path: Path) -> None:
    """On a pseudo-terminal the bar counts points, and is gone at the end; a pipe gets nothing."""
    path = write_sweep(tmp_path, {"base": ONE_REQUEST, "axes": {BLOCKS: [100, 200]}})
    shown = {}
    for option in ("--progress", "--no-progress"):
        ours, theirs = pty.openpty()
        command = [sys.executable, "-m", "actors.cli", "sweep", str(path), "--json", "--fresh", option]
        environment = {**os.environ, "TERM": "xterm", "PYTHONPATH": str(Path(__file__).parents[2])}
        subprocess.run(command, stdout=subprocess.DEVNULL, stderr=theirs, timeout=120, check=True, env=environment)
        os.close(theirs)
        shown[option] = b"".join(iter(partial(_read, ours), b""))
        os.close(ours)
    assert b"2/2" in shown["--progress"]
    assert b"points" in shown["--progress"]
    assert shown["--no-progress"] == b""


def _read(descriptor: int) -> bytes:
    """What a pseudo-terminal has; nothing once its other side is closed."""
    try:
        return os.read(descriptor, 65536)
    except OSError:
        return b""
