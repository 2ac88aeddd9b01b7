"""The command `aisim-actors`: what it prints, what it writes, how it ends."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from actors import cli
from actors.cli import main
from messages.errors import ReplayError

COMMAND = [sys.executable, "-m", "actors.cli"]
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])}
HOST_TIME = ("wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s")


def row(identity: str, **parts: Any) -> dict[str, Any]:
    return {"id": identity, "arrival_time_ms": 0.0, "input_tokens": 100, "output_tokens": 3, **parts}


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A spec of two small requests."""
    return write(tmp_path / "spec.json", requests=[row("a"), row("b", arrival_time_ms=5.0)])


def write(path: Path, **parts: Any) -> Path:
    document = {"topology": {"kind": "aggregated", "workers": {"initial_workers": 1}}, **parts}
    path.write_text(json.dumps(document))
    return path


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_replay_prints_a_table(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(spec)]) == 0
    printed = capsys.readouterr()
    assert "Time to First Token (ms)" in printed.out
    assert "Wall Time (ms)" in printed.out
    assert "Prefix Cache Reused Ratio" in printed.out
    assert printed.err == ""


def test_json_and_report_file_are_the_same_bytes(
    spec: Path, tmp_path: Path, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    out = tmp_path / "out"
    assert main(["replay", str(spec), "--json", "--output-dir", str(out)]) == 0
    printed = capfdbinary.readouterr()
    assert printed.out == (out / "report.json").read_bytes()
    assert printed.err == b""
    assert json.loads(printed.out)["completed_requests"] == 2
    assert [record["request_id"] for record in json_lines(out / "requests.jsonl")] == ["a", "b"]


def test_places_of_the_files_are_told(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["replay", str(spec), "--output-dir", str(out), "--trace", str(out / "messages.jsonl")]) == 0
    printed = capsys.readouterr().out
    for name in ("report.json", "requests.jsonl", "messages.jsonl"):
        assert f"Saved: {out / name}" in printed
    assert names_in(out) == ["messages.jsonl", "report.json", "requests.jsonl", "resolved_spec.json"]
    assert {"at_ms", "kind", "seq_no"} <= set(json_lines(out / "messages.jsonl")[0])


def test_trace_through_a_link_leaves_the_link(spec: Path, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("messages.jsonl")
    for _ in range(2):
        assert main(["replay", str(spec), "--quiet", "--trace", str(tmp_path / "link")]) == 0
        assert (tmp_path / "link").is_symlink()
        assert len(json_lines(tmp_path / "messages.jsonl")) > 10
    assert names_in(tmp_path) == ["link", "messages.jsonl", "spec.json"]


def test_quiet_prints_nothing(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(spec), "--quiet"]) == 0
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("options", [["--step"], ["--runtime", "threads"], ["--no-progress"]])
def test_results_do_not_depend_on_how_it_is_run(
    spec: Path, options: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    reports = []
    for extra in ([], options):
        assert main(["replay", str(spec), "--json", *extra]) == 0
        report = json.loads(capsys.readouterr().out)
        reports.append({key: value for key, value in report.items() if key not in HOST_TIME})
    assert reports[0] == reports[1]


def test_set_changes_the_run(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    timing = 'engine.rank.timing_model={"type": "fixed", "prefill_ms": 7, "decode_ms": 1}'
    assert main(["replay", str(spec), "--json", "--set", timing, "--set", "requests.1.arrival_time_ms=100"]) == 0
    assert json.loads(capsys.readouterr().out)["duration_ms"] == 109.0


def test_built_in_example(capsys: pytest.CaptureFixture[str]) -> None:
    start = time.perf_counter()
    assert main(["replay", "--example", "aggregated", "--json"]) == 0
    assert time.perf_counter() - start < 5.0
    report = json.loads(capsys.readouterr().out)
    assert report["completed_requests"] == report["num_requests"] == 300
    assert 0 < report["goodput_completed_requests"] < 300
    assert report["prefix_cache_reused_ratio"] > report["first_admission_prefix_cache_reused_ratio"] > 0.3


@pytest.mark.parametrize("name", ["sglang", "disaggregated", "kv_router", "planner"])
def test_further_examples(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Each can be copied and replayed, and meets its SLA for some of its requests."""
    assert main(["examples", name, "--output-dir", str(tmp_path / "mine")]) == 0
    capsys.readouterr()
    assert main(["replay", str(tmp_path / "mine" / "spec.json"), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["completed_requests"] == report["num_requests"] > 200
    assert 0 < report["goodput_completed_requests"] <= report["num_requests"]
    assert ("planner" in report) == (name == "planner")
    assert ("routing" in report) == (name == "kv_router")


def test_examples_are_listed_and_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["examples"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert names == ["aggregated", "disaggregated", "kv_router", "planner", "sglang"]
    assert main(["examples", "planner", "--output-dir", str(tmp_path)]) == 2
    assert "exists already; choose another place with --output-dir DIR" in capsys.readouterr().err
    assert main(["examples", "--output-dir", str(tmp_path / "mine")]) == 2
    assert capsys.readouterr() == ("", "error: --output-dir is where a copy goes: give NAME too\n")


def test_empty_list_of_requests_succeeds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(write(tmp_path / "spec.json", requests=[])), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["num_requests"] == 0


def test_no_completed_request_is_a_failure_with_complete_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = write(tmp_path / "spec.json", engine={"rank": {"num_gpu_blocks": 1}}, requests=[row("a"), row("b")])
    assert main(["replay", str(path), "--output-dir", str(tmp_path / "out")]) == 1
    printed = capsys.readouterr()
    assert "Not Completed: 2 of 2 requests: 2 rejected" in printed.out
    assert printed.err.startswith("error: no request completed: 2 rejected")
    assert len(printed.err.splitlines()) == 1
    assert names_in(tmp_path / "out") == ["report.json", "requests.jsonl", "resolved_spec.json"]


def test_some_rejected_requests_are_no_failure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    requests = [row("a"), row("b", input_tokens=1000)]
    path = write(tmp_path / "spec.json", engine={"rank": {"num_gpu_blocks": 4}}, requests=requests)
    assert main(["replay", str(path)]) == 0
    assert "Not Completed: 1 of 2 requests: 1 rejected" in capsys.readouterr().out


def test_warnings_go_to_standard_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace = {"timestamp": 0, "input_length": 3, "output_length": 1, "hash_ids": [1, 2, 3]}
    (tmp_path / "trace.jsonl").write_text(json.dumps(trace))
    path = write(tmp_path / "spec.json", workload={"kind": "trace", "path": "trace.jsonl"})
    assert main(["replay", str(path), "--json"]) == 0
    assert capsys.readouterr().err.startswith("warning: ")
    assert main(["replay", str(path), "--json", "--quiet"]) == 0
    assert capsys.readouterr().err == ""
    assert main(["validate", str(path)]) == 0
    assert capsys.readouterr().err.startswith("warning: ")


def failing(error: BaseException) -> Any:
    def run(*_: object, **options: Any) -> None:
        options["observe"]
        raise error

    return run


@pytest.mark.parametrize(
    ("error", "code", "line"),
    [
        (ReplayError("worker 0 is stuck"), 1, "error: worker 0 is stuck"),
        (ZeroDivisionError("division\nby zero"), 1, "error: ZeroDivisionError: division by zero"),
        (KeyboardInterrupt(), 130, "error: interrupted"),
    ],
)
def test_failed_or_interrupted_run_leaves_nothing_behind(
    spec: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: BaseException,
    code: int,
    line: str,
) -> None:
    monkeypatch.setattr("actors.system.run", failing(error))
    out = tmp_path / "out"
    options = ["--output-dir", str(out), "--trace", str(tmp_path / "messages.jsonl")]
    assert main(["replay", str(spec), *options]) == code
    assert capsys.readouterr() == ("", f"{line}\n")
    assert names_in(tmp_path) == ["spec.json"]


def test_help_and_version(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in ([], ["--help"]):
        assert main(arguments) == 0
        printed = capsys.readouterr().out
        assert all(name in printed for name in ("replay", "validate", "schema"))
    assert main(["replay", "--help"]) == 0
    assert "aggregated" in capsys.readouterr().out
    assert main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("aisim-actors ")


def test_schema_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out)["$ref"] == "#/$defs/ReplaySpec"


def test_validate_says_so(spec: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate", str(spec)]) == 0
    assert capsys.readouterr().out == f"{spec}: valid\n"


def test_foreign_package_of_the_same_name_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "messages" / "__init__.py"
    foreign.parent.mkdir()
    foreign.write_text("")
    real = importlib.util.find_spec

    def find(name: str) -> Any:
        return type("Found", (), {"origin": str(foreign)}) if name == "messages" else real(name)

    monkeypatch.setattr("importlib.util.find_spec", find)
    assert main(["schema"]) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert re.fullmatch(rf"error: {re.escape(str(foreign))} is not the package `messages` of aisim-actors; .*", line)


def test_command_as_a_process_ends_quietly_when_its_reader_is_gone(spec: Path) -> None:
    read, written = os.pipe()
    os.close(read)
    with os.fdopen(written, "wb") as pipe:
        ended = subprocess.run(
            [*COMMAND, "replay", str(spec)],
            stdout=pipe,
            stderr=subprocess.PIPE,
            env=ENVIRONMENT,
            check=False,
            timeout=60,
        )
    assert ended.returncode == 1
    assert ended.stderr == b""


def shell(script: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the command as `"$@"` of a shell script."""
    command = ["sh", "-c", script, "sh", *COMMAND, *arguments]
    return subprocess.run(command, capture_output=True, text=True, env=ENVIRONMENT, check=False, timeout=60)


@pytest.mark.parametrize("option", ["--json", "--no-progress"])
def test_closed_standard_output_only_loses_what_is_printed(spec: Path, tmp_path: Path, option: str) -> None:
    ended = shell('"$@" >&-', "replay", str(spec), option, "--output-dir", str(tmp_path / "out"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
    assert names_in(tmp_path / "out") == ["report.json", "requests.jsonl", "resolved_spec.json"]
    assert len(json_lines(tmp_path / "out" / "requests.jsonl")) == 2


def test_closed_standard_error_sends_no_error_to_standard_output(tmp_path: Path) -> None:
    ended = shell('"$@" 2>&-', "replay", str(tmp_path / "none.json"))
    assert (ended.returncode, ended.stdout, ended.stderr) == (2, "", "")


@pytest.mark.skipif(not Path("/proc/self/fd/1").exists(), reason="needs the names of open files")
def test_trace_on_standard_output_comes_before_the_table(spec: Path, tmp_path: Path) -> None:
    """The name of standard output leads to the file that it is redirected to, which nothing may take the place of."""
    ended = shell(f'"$@" > {tmp_path}/printed', "replay", str(spec), "--trace", "/proc/self/fd/1")
    assert (ended.returncode, ended.stderr) == (0, "")
    lines = (tmp_path / "printed").read_text().splitlines()
    assert json.loads(lines[0])["seq_no"] == 0
    last = max(number for number, line in enumerate(lines) if line.startswith("{"))
    assert all("kind" in json.loads(line) for line in lines[: last + 1])
    assert "Time to First Token (ms)" in "".join(lines[last + 1 :])
    assert lines[-1] == "Saved: /proc/self/fd/1"
