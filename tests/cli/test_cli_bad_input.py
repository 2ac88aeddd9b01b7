"""Bad input ends with exit code 2, one clear line per finding, and nothing written."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors.cli import main

TOPOLOGY = {"kind": "aggregated", "workers": {"initial_workers": 1}}
GOOD = {"topology": TOPOLOGY, "requests": []}


def errors_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[str]:
    """Run a command that must end with 2 and print nothing but errors; return these without `error: `."""
    assert main(list(arguments)) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    lines = printed.err.splitlines()
    assert all(line.startswith("error: ") for line in lines)
    assert "Traceback" not in printed.err
    return [line.removeprefix("error: ") for line in lines]


CONTENTS: list[tuple[str, str]] = [
    ("", "is empty"),
    ("{", "column 2: JSON is malformed"),
    ("plain text", "column 1: JSON is malformed"),
    ("[]", "expected a JSON object, got a list"),
    ("null", "expected a JSON object, got null"),
    (json.dumps({**GOOD, "max_sim_time_ms": float("nan")}), "expected a finite number, got NaN"),
    (json.dumps({**GOOD, "engin": {}}), 'engin: unknown key; did you mean "engine"?'),
    (json.dumps({**GOOD, "engine": {"rank": {"backend": "tgi"}}}), 'unknown backend "tgi"; expected "vllm"'),
    (json.dumps({**GOOD, "topology": {"kind": "star"}}), 'unknown kind "star"; expected "aggregated"'),
    (
        json.dumps({"topology": TOPOLOGY, "workload": {"kind": "trace", "path": "t", "format": "csv"}}),
        'unknown format "csv"; expected "applied_compute_agentic" or "mooncake"',
    ),
    (
        json.dumps({**GOOD, "topology": {"kind": "aggregated", "workers": {"initial_workers": 0}}}),
        "topology.workers.initial_workers: expected an integer >= 1, got 0",
    ),
    (
        json.dumps({"topology": TOPOLOGY, "workload": {"kind": "trace", "path": "nowhere.jsonl"}}),
        "nowhere.jsonl",
    ),
    (
        json.dumps(
            {**GOOD, "engine": {"rank": {"timing_model": {"type": "external", "provider": "dynamo_profile",
                                                          "config": {"path": "nowhere.npz"}}}}}
        ),
        "nowhere.npz",
    ),
]  # fmt: skip


@pytest.mark.parametrize("command", ["replay", "validate"])
@pytest.mark.parametrize(("content", "text"), CONTENTS, ids=[text[:40] for _, text in CONTENTS])
def test_unusable_spec(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, content: str, text: str
) -> None:
    path = tmp_path / "spec.json"
    path.write_text(content)
    (line,) = errors_of(capsys, command, str(path))
    assert text in line
    assert str(tmp_path) in line


def test_nothing_is_written_for_a_bad_spec(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.json"
    workload = {"kind": "trace", "path": "nowhere.jsonl"}
    path.write_text(json.dumps({"topology": TOPOLOGY, "workload": workload}))
    out, trace = tmp_path / "out", tmp_path / "messages.jsonl"
    errors_of(capsys, "replay", str(path), "--output-dir", str(out), "--trace", str(trace))
    assert sorted(tmp_path.iterdir()) == [path]


def test_validate_lists_every_bad_row_of_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[dict[str, Any]] = [
        {"timestamp": 0, "output_length": 1},
        {"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]},
        {"timestamp": 0, "input_length": 5, "hash_ids": [1]},
    ]
    (tmp_path / "trace.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"topology": TOPOLOGY, "workload": {"kind": "trace", "path": "trace.jsonl"}}))
    lines = errors_of(capsys, "validate", str(path))
    assert [line.removeprefix(f"{tmp_path / 'trace.jsonl'}:")[:2] for line in lines] == ["1:", "3:"]


def test_many_findings_are_cut_off(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"topology": TOPOLOGY, "requests": [5] * 150}))
    lines = errors_of(capsys, "validate", str(path))
    assert len(lines) == 101
    assert lines[-1] == "and 50 more findings"


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["replay"], "give either SPEC or --example NAME"),
        (["replay", "spec.json", "--example", "aggregated"], "give either SPEC or --example NAME"),
        (["replay", "--example", "agregated"], 'unknown example "agregated"; did you mean "aggregated"?'),
        (["replay", "--example", "zzz"], 'unknown example "zzz"; available: aggregated'),
        (["replay", "--bogus"], "No such option: --bogus"),
        (["replay", "--runtime", "green"], "'green' is not one of 'cooperative', 'threads'"),
        (["replay", "nowhere.json"], "nowhere.json: no such file"),
        (["replay", "--example", "aggregated", "--set", "x"], "--set x: expected PATH=VALUE"),
        (["validate"], "Missing argument"),
        (["bogus"], "No such command 'bogus'"),
    ],
)
def test_usage_errors(capsys: pytest.CaptureFixture[str], arguments: list[str], text: str) -> None:
    (line,) = errors_of(capsys, *arguments)
    assert text in line


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(GOOD))
    return path


def test_output_directory_in_use(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "notes.txt").write_text("mine")
    (line,) = errors_of(capsys, "replay", str(spec), "--output-dir", str(out))
    assert "is not empty" in line
    assert main(["replay", str(spec), "--output-dir", str(out), "--overwrite", "--quiet"]) == 0
    assert (out / "notes.txt").read_text() == "mine"


def test_trace_that_cannot_be_created(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = errors_of(capsys, "replay", str(spec), "--trace", str(tmp_path / "none" / "messages.jsonl"))
    assert "cannot be created" in line


def test_trace_must_not_replace_an_input(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = errors_of(capsys, "replay", str(spec), "--trace", str(spec))
    assert "would replace an input" in line
    assert json.loads(spec.read_text()) == GOOD
