"""The command `calibrate`: what it prints and writes, and how it refuses what it cannot use."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from actors.cli import main
from tests.calibration.builders import REQUESTS, write_measured, write_spec

POLYNOMIAL: dict[str, Any] = {"type": "polynomial"}
SCALED: dict[str, Any] = {"type": "polynomial", "adjust": {"prefill_scale": 1.25, "decode_scale": 1.25}}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A spec whose requests were measured to take a quarter longer."""
    return write_spec(tmp_path, POLYNOMIAL, gap_ms=90.0)


@pytest.fixture
def measured(tmp_path: Path) -> Path:
    return write_measured(tmp_path, SCALED, gap_ms=90.0)


def rows_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def error_of(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "Traceback" not in printed.err
    return printed.err


def test_a_calibration_is_used_by_its_name(
    spec: Path, measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    timing = tmp_path / "timing.json"
    assert main(["calibrate", str(spec), "--measured", str(measured), "--output", str(timing)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    assert f"Measured: {REQUESTS} of {REQUESTS} requests (measured, joined by request_id)" in printed.out
    assert "Errors on 60 rows held out (--fit even)" in printed.out
    assert 'names it with "timing_model": {"type": "calibrated", "path": "timing.json"}' in printed.out
    content = json.loads(timing.read_text())
    assert content["timing_model"] == {"type": "polynomial"}
    assert content["adjust"]["decode_scale"] == pytest.approx(1.25, rel=0.005)
    assert content["fit"]["parameters"] == ["scale"]

    document = json.loads(spec.read_text())
    document["engine"]["rank"]["timing_model"] = {"type": "calibrated", "path": "timing.json"}
    calibrated = tmp_path / "calibrated.json"
    calibrated.write_text(json.dumps(document))
    assert main(["replay", str(calibrated), "--json"]) == 0
    replayed = json.loads(capsys.readouterr().out)
    held_out = content["fit"]["after"]["held_out"]["ttft_ms"]["mean"]
    assert replayed["mean_ttft_ms"] == pytest.approx(held_out["simulated"], rel=0.1)
    # What is calibrated already is calibrated anew from its base.
    assert main(["calibrate", str(calibrated), "--measured", str(measured), "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert again["adjust"] == content["adjust"]
    assert again["before"] == content["fit"]["after"]


def test_json_is_the_report(spec: Path, measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", str(spec), "--measured", str(measured), "--json", "--fit", "all"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["after"]["held_out"] is None
    assert report["after"]["fitted"]["rows"] == REQUESTS
    assert report["after"]["makespan_ms"]["error_percent"] == pytest.approx(0.0, abs=1.0)
    assert [candidate["parameters"] for candidate in report["candidates"] if candidate["chosen"]] == [
        report["parameters"]
    ]


def test_rows_that_failed_are_left_out_and_counted(
    spec: Path, measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(measured)
    for row in rows[10:13]:
        row |= {"first_token_ms": None, "last_token_ms": None, "error": "timeout"}
    rows = rows[:-2]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    assert main(["calibrate", str(spec), "--measured", str(path), "--fit", "0.5"]) == 0
    out = capsys.readouterr().out
    assert f"Measured: {REQUESTS - 5} of {REQUESTS} requests (measured, joined by request_id); skipped: 3 failed" in out
    assert "Arrivals: as the spec says" in out


def test_a_spec_of_another_engine_is_suspected(spec: Path, measured: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["calibrate", str(spec), "--measured", str(measured), "--set", "engine.rank.max_num_seqs=64"]
    assert main(arguments) == 0
    error = capsys.readouterr().err
    assert error.startswith("warning: the fitted rows still have a typical error of ")
    assert "compare max_num_seqs, max_num_batched_tokens" in error


def test_lengths_have_to_agree(spec: Path, measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(measured)
    rows[4]["output_length"] += 1
    path = write_rows(tmp_path / "rows.jsonl", rows)
    found = error_of(["calibrate", str(spec), "--measured", str(path)], capsys)
    length = rows[4]["output_length"]
    assert found == (
        f"error: {path}: line 5: output_length is {length}, that of request 'r4' in the replay {length - 1}; "
        "give the workload the lengths that were measured\n"
    )


def test_rows_have_to_be_those_of_the_workload(
    spec: Path, measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = rows_of(measured)
    path = tmp_path / "rows.jsonl"
    arguments = ["calibrate", str(spec), "--measured", str(path)]
    write_rows(path, [*rows, {**rows[0], "request_id": "stranger"}])
    assert "line 121: request_id 'stranger' is no request of the spec's workload" in error_of(arguments, capsys)
    write_rows(path, [*rows, rows[0]])
    assert "line 121: request_id 'r0' occurs before, on line 1" in error_of(arguments, capsys)
    bare = [{key: value for key, value in row.items() if key != "request_id"} for row in rows]
    write_rows(path, bare[:-1])
    assert "holds 119 requests, the workload of the spec 120" in error_of(arguments, capsys)
    write_rows(path, [{**row, "row": number + 1} for number, row in enumerate(bare)])
    assert "line 120: row 120 is no request of the spec's workload" in error_of(arguments, capsys)
    write_rows(path, rows[:30])
    assert "15 rows that count are fitted with --fit even; at least 20 are needed" in error_of(arguments, capsys)


@pytest.mark.parametrize("fit", ["half", "0", "1.5", "nan"])
def test_the_part_to_fit_has_to_be_one(
    fit: str, spec: Path, measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = error_of(["calibrate", str(spec), "--measured", str(measured), "--fit", fit], capsys)
    assert found.startswith("error: --fit: expected even, odd, all or a share such as 0.5")


def test_inputs_are_not_replaced_and_nothing_half_written_stays(
    spec: Path, measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["calibrate", str(spec), "--measured", str(measured)]
    assert "--output would replace an input" in error_of([*arguments, "--output", str(measured)], capsys)
    write_rows(measured, rows_of(measured)[:30])
    error_of([*arguments, "--output", str(tmp_path / "timing.json")], capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["measured.jsonl", "spec.json"]


def test_times_of_nothing_cannot_be_scaled(measured: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    spec = write_spec(tmp_path, {"type": "fixed", "prefill_ms": 0.0, "decode_ms": 0.0}, gap_ms=90.0)
    found = error_of(["calibrate", str(spec), "--measured", str(measured)], capsys)
    assert found == "error: timing_model: its times are zero, which no scale can adjust; choose another model\n"


def test_pools_with_different_models_are_calibrated_one_at_a_time(
    spec: Path, measured: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    document = json.loads(spec.read_text())
    pool = {"initial_workers": 1}
    document["topology"] = {"kind": "disaggregated", "prefill": pool, "decode": pool}
    rank = {**document["engine"]["rank"], "timing_model": {"type": "fixed", "prefill_ms": 1.0, "decode_ms": 1.0}}
    document["engine"]["decode"] = {"rank": rank}
    spec.write_text(json.dumps(document))
    found = error_of(["calibrate", str(spec), "--measured", str(measured)], capsys)
    assert found == "error: engine: the pools have different timing models; calibrate one model at a time\n"


def test_without_scipy_the_extra_is_named(
    spec: Path, measured: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    real = importlib.import_module

    def without_scipy(name: str, package: str | None = None) -> Any:
        if name.startswith("scipy"):
            raise ImportError(name)
        return real(name, package)

    monkeypatch.setattr(importlib, "import_module", without_scipy)
    found = error_of(["calibrate", str(spec), "--measured", str(measured)], capsys)
    assert found == ("error: calibrate needs scipy, which is not installed: pip install 'aisim-actors[calibrate]'\n")
