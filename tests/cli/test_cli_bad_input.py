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
    (
        json.dumps({**GOOD, "engine": {"rank": {"backend": "tgi"}}}),
        'unknown backend "tgi"; expected "sglang" or "trtllm" or "vllm"',
    ),
    (
        json.dumps({**GOOD, "topology": {"kind": "star"}}),
        'unknown kind "star"; expected "aggregated" or "disaggregated"',
    ),
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


def test_validate_lists_faults_of_the_workload_beside_those_of_its_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "trace.jsonl").write_text('{"timestamp": 0}\n{}\n')
    path, timing = tmp_path / "spec.json", {"type": "external", "provider": "dynamo_profile"}
    document = {
        "topology": TOPOLOGY,
        "engine": {"rank": {"timing_model": {**timing, "config": {"path": "nowhere.npz"}}}},
        "workload": {"kind": "trace", "path": "trace.jsonl", "arrival_speedup_ratio": 0},
    }
    path.write_text(json.dumps(document))
    lines = errors_of(capsys, "validate", str(path))
    ratio = f"{path}: workload.arrival_speedup_ratio: expected a finite number > 0, got 0.0"
    profile = f"{tmp_path / 'nowhere.npz'}: no such file; give the path of a profile relative to the spec file"
    row = "hash_ids: missing; give one id per trace block of the prompt"
    assert lines == [ratio, *(f"{tmp_path / 'trace.jsonl'}:{number}: {row}" for number in (1, 2)), profile]
    lines = errors_of(capsys, "validate", str(path), "--set", "workload.path=nowhere.jsonl")
    assert lines == [
        ratio,
        f"{tmp_path / 'nowhere.jsonl'}: cannot read the trace: No such file or directory",
        profile,
    ]
    assert errors_of(capsys, "replay", str(path)) == [ratio]


@pytest.mark.parametrize("command", ["replay", "validate"])
def test_faults_of_a_generated_workload_name_the_spec(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    path = tmp_path / "spec.json"
    workload = {"kind": "synthetic", "input_tokens": 8, "output_tokens": 2, "request_count": 3, "request_rate": 1e-306}
    path.write_text(json.dumps({"topology": TOPOLOGY, "workload": workload}))
    (line,) = errors_of(capsys, command, str(path))
    assert line.startswith(f"{path}: workload.request_rate: leads to a time beyond the range of numbers")


@pytest.mark.parametrize("command", ["replay", "validate"])
def test_a_zero_byte_in_the_path_of_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps({"topology": TOPOLOGY, "workload": {"kind": "trace", "path": "a\0b"}}))
    (line,) = errors_of(capsys, command, str(path))
    assert line == f"{path}: workload: path: expected the name of a file, which holds no zero byte, got 'a\\x00b'"


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
        (
            ["replay", "--example", "zzz"],
            'unknown example "zzz"; available: aggregated, disaggregated, kv_router, planner, sglang',
        ),
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


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs a folder in which nobody can create files")
def test_overwrite_needs_an_output_directory(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = errors_of(capsys, "replay", str(spec), "--overwrite")
    assert line == "--overwrite is about the output directory: give --output-dir DIR too"


def test_output_directory_in_which_no_file_can_be_created(
    spec: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("actors.system.run", lambda *_, **__: pytest.fail("the run has begun"))
    (line,) = errors_of(capsys, "replay", str(spec), "--output-dir", "/proc/self/task", "--overwrite")
    assert line.startswith("/proc/self/task: cannot be used as output directory: ")


@pytest.mark.parametrize(
    ("name", "trace_name"), [("report.json", "trace.jsonl"), ("spec.json", "requests.jsonl"), ("s.json", "report.json")]
)
@pytest.mark.parametrize("folder", [".", "link"])
def test_output_files_must_not_replace_an_input(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    trace_name: str,
    folder: str,
) -> None:
    row = {"timestamp": 0, "input_length": 5, "output_length": 1, "hash_ids": [1]}
    document = {"topology": TOPOLOGY, "workload": {"kind": "trace", "path": trace_name}}
    contents = {name: json.dumps(document), trace_name: json.dumps(row)}
    (tmp_path / "link").symlink_to(".")
    for file, content in contents.items():
        (tmp_path / file).write_text(content)
    monkeypatch.chdir(tmp_path)
    replaced = name if name == "report.json" else trace_name
    for options in ([], ["--overwrite"]):
        (line,) = errors_of(capsys, "replay", name, "--output-dir", folder, *options)
        assert line == f"{Path(folder) / replaced}: --output-dir would replace an input of the replay"
    assert {path.name: path.read_text() for path in tmp_path.iterdir() if path.is_file()} == contents


@pytest.mark.parametrize("trace", ["out/report.json", "out/requests.jsonl", "out/../out/report.json"])
@pytest.mark.parametrize("exists", [False, True])
def test_trace_must_not_replace_an_output_file(
    spec: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    trace: str,
    exists: bool,
) -> None:
    monkeypatch.chdir(tmp_path)
    if exists:
        assert main(["replay", str(spec), "--output-dir", "out", "--quiet"]) == 0
    before = sorted(path.name for path in tmp_path.rglob("*"))
    (line,) = errors_of(capsys, "replay", str(spec), "--output-dir", "out", "--overwrite", "--trace", trace)
    assert line == f"{Path(trace)}: --trace would replace a file of --output-dir"
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_trace_must_not_replace_an_input(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (line,) = errors_of(capsys, "replay", str(spec), "--trace", str(spec))
    assert "would replace an input" in line
    assert json.loads(spec.read_text()) == GOOD
