"""The pages that the command writes: `report DIR` and `replay --html`."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from actors.cli import main


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    requests = [
        {"id": f"request {index}", "arrival_time_ms": 5.0 * index, "input_tokens": 100, "output_tokens": 3}
        for index in range(3)
    ]
    return write(tmp_path / "spec.json", requests=requests, telemetry={"sample_interval_ms": 10.0})


def write(path: Path, **parts: Any) -> Path:
    path.write_text(json.dumps({"topology": {"kind": "aggregated", "workers": {"initial_workers": 1}}, **parts}))
    return path


@pytest.fixture
def run(spec: Path, tmp_path: Path) -> Path:
    """The output directory of a run without a page."""
    assert main(["replay", str(spec), "--output-dir", str(tmp_path / "out"), "--quiet"]) == 0
    return tmp_path / "out"


def test_report_writes_a_page_into_the_directory(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run)]) == 0
    assert capsys.readouterr() == (f"Saved: {run / 'report.html'}\n", "")
    page = (run / "report.html").read_text(encoding="utf-8")
    assert page.startswith("<!DOCTYPE html>")
    assert "request 2" in page
    assert main(["report", str(run)]) == 0
    assert (run / "report.html").read_text(encoding="utf-8") == page


def test_page_of_replay_is_that_of_report(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["replay", str(spec), "--output-dir", str(out), "--html"]) == 0
    assert f"Saved: {out / 'report.html'}" in capsys.readouterr().out
    page = (out / "report.html").read_bytes()
    assert main(["report", str(out), "--output", str(tmp_path / "page.html")]) == 0
    assert (tmp_path / "page.html").read_bytes() == page


def test_warnings_and_shortfalls_are_kept_with_the_report(tmp_path: Path) -> None:
    rows = [{"timestamp": 0, "input_length": length, "output_length": 1, "hash_ids": [1, 2, 3]} for length in (3, 1500)]
    (tmp_path / "trace.jsonl").write_text("\n".join(map(json.dumps, rows)))
    engine = {"rank": {"num_gpu_blocks": 8}}
    spec = write(tmp_path / "spec.json", workload={"kind": "trace", "path": "trace.jsonl"}, engine=engine)
    out = tmp_path / "out"
    assert main(["replay", str(spec), "--output-dir", str(out), "--html", "--quiet"]) == 0
    report = json.loads((out / "report.json").read_text())
    assert len(report["warnings"]) == 1
    assert [(one["status"], one["count"]) for one in report["shortfalls"]] == [("rejected", 1)]
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "Please note" in page
    assert "hash_ids" in page
    assert "Not completed" in page


def test_page_of_a_run_without_a_completed_request_is_written(tmp_path: Path) -> None:
    request = {"id": "a", "arrival_time_ms": 0.0, "input_tokens": 1000, "output_tokens": 3}
    spec = write(tmp_path / "spec.json", engine={"rank": {"num_gpu_blocks": 1}}, requests=[request])
    assert main(["replay", str(spec), "--output-dir", str(tmp_path / "out"), "--html", "--quiet"]) == 1
    assert "the cache has 1" in (tmp_path / "out" / "report.html").read_text(encoding="utf-8")


def test_a_page_needs_a_directory(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(spec), "--html"]) == 2
    assert (
        capsys.readouterr().err == "error: --html writes a page into the output directory: give --output-dir DIR too\n"
    )


def test_a_page_of_an_earlier_run_does_not_stay(spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["replay", str(spec), "--output-dir", str(out), "--html", "--quiet"]) == 0
    assert main(["replay", str(spec), "--output-dir", str(out), "--overwrite", "--quiet"]) == 0
    assert not (out / "report.html").exists()


@pytest.mark.parametrize("name", ["report.json", "requests.jsonl", "telemetry.jsonl", "planner.jsonl"])
def test_files_of_the_run_are_never_replaced(run: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path.name: path.read_bytes() for path in run.iterdir()}
    assert main(["report", str(run), "--output", str(run / name)]) == 2
    assert f"--output would replace {name} of the run" in capsys.readouterr().err
    assert {path.name: path.read_bytes() for path in run.iterdir()} == before


def test_other_files_are_not_replaced_by_a_page(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = tmp_path / "notes.txt"
    notes.write_text("mine")
    assert main(["report", str(run), "--output", str(notes)]) == 2
    assert capsys.readouterr().err == f"error: {notes}: exists and is not a page of aisim-actors; choose another file\n"
    assert notes.read_text() == "mine"
    notes.write_text("")
    assert main(["report", str(run), "--output", str(notes)]) == 0


def test_what_is_no_run_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([str(tmp_path / "none")], [str(tmp_path)], [str(tmp_path), "--output", str(tmp_path / "p.html")]):
        assert main(["report", *arguments]) == 2
        assert "give the output directory of `aisim-actors replay" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_page_of_many_requests_is_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    workload = {
        "kind": "synthetic",
        "input_tokens": 300,
        "output_tokens": 20,
        "request_count": 8000,
        "request_rate": 40.0,
    }
    topology = {"kind": "aggregated", "workers": {"initial_workers": 16}}
    spec = write(
        tmp_path / "spec.json",
        workload=workload,
        topology=topology,
        engine={"rank": {"timing_model": {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 5.0}}},
        telemetry={"sample_interval_ms": 100.0},
        sla={"ttft_ms": 50.0},
    )
    out = tmp_path / "out"
    assert main(["replay", str(spec), "--output-dir", str(out), "--html", "--quiet"]) == 0
    assert (out / "report.html").stat().st_size < 400_000
    start = time.process_time()
    assert main(["report", str(out)]) == 0
    assert time.process_time() - start < 10.0
