"""Reading an output directory: everything that a run wrote, and clear words about what is not of a run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors import replay
from actors.reporting.results import Results, load_results, results_of
from actors.reporting.writers import OutputDirectory, spec_bytes
from actors.spec.loading import load_spec
from messages.errors import InputError
from tests.scenario import cluster

SPEC = {
    **cluster((0.0, 20, 5), (3.0, 2000, 9)),
    "telemetry": {"sample_interval_ms": 5.0},
    "adapters": {
        "placement": {"provider": "kv_router"},
        "scaling": {"provider": "planner", "config": {"optimization_target": "throughput", "max_gpu_budget": 8}},
    },
}


def written(folder: Path, spec: dict[str, Any]) -> Results:
    """Replay into a folder and return the results in memory."""
    loaded = load_spec(spec)
    report = replay(spec)
    OutputDirectory(folder, overwrite=False).write(report, loaded)
    return results_of(report, msgspec.json.decode(spec_bytes(loaded, folder)), str(folder))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    written(tmp_path / "out", SPEC)
    return tmp_path / "out"


@pytest.mark.parametrize("parts", [{}, {"record_per_request": False}, {"adapters": {}, "telemetry": None}])
def test_what_was_written_is_what_is_read(tmp_path: Path, parts: dict[str, Any]) -> None:
    in_memory = written(tmp_path / "out", {**SPEC, **parts})
    assert load_results(tmp_path / "out") == in_memory
    assert (in_memory.requests is None) == ("record_per_request" in parts)
    assert (in_memory.telemetry is None) == ("telemetry" in parts)
    (shortfall,) = in_memory.shortfalls
    assert (shortfall.status, shortfall.count) == ("rejected", 1)


def test_figures_by_name(folder: Path) -> None:
    results = load_results(folder)
    assert results.figure("num_requests") == 2
    assert results.figure("kv_eviction_policy") is None
    assert results.figure("power_w") is None
    assert results.figure("unheard of") is None


def test_files_that_a_run_need_not_have_may_be_missing(folder: Path) -> None:
    for name in ("requests.jsonl", "telemetry.jsonl", "planner.jsonl", "resolved_spec.json"):
        (folder / name).unlink()
    results = load_results(folder)
    assert (results.requests, results.telemetry, results.planner_ticks, results.spec) == (None,) * 4


def test_no_directory_of_a_run(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    for path, what in (("none", "no such directory"), ("file", "is a file"), ("", "holds no report.json")):
        with pytest.raises(
            InputError, match=f"{re.escape(str(tmp_path / path))}: {what}; give the output directory of"
        ):
            load_results(tmp_path / path)


def _change(name: str, change: Callable[[str], str]) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_text(change((folder / name).read_text())) and None


def _key(name: str, key: str, value: Any) -> Callable[[Path], None]:
    return _change(name, lambda text: json.dumps({**json.loads(text), key: value}))


@pytest.mark.parametrize(
    ("damage", "finding"),
    [
        (_change("report.json", lambda _: "{"), r"/report.json: input data was truncated; give the output directory"),
        (_change("report.json", lambda _: "[1]"), r"/report.json: expected `object`, got `array`; give the output"),
        (
            _change("report.json", lambda _: '{"a": 1}'),
            r"/report.json: is not the report of a replay, it has no `num_req",
        ),
        (_key("report.json", "num_requests", {}), r"/report.json: num_requests: expected a number, text or null"),
        (_key("report.json", "duration_ms", True), r"/report.json: duration_ms: expected a number, text or null"),
        (
            _key("report.json", "routing", {"agg": 1}),
            r"/report.json: expected `object`, got `int` - at `\$.routing\[...\]`",
        ),
        (
            _key("report.json", "num_requests", 1),
            r"/requests.jsonl: holds 2 requests, but report.json counts 1; the files",
        ),
        (
            _change("requests.jsonl", lambda text: text[:-20]),
            r"/requests.jsonl:2: input data was truncated; replay again",
        ),
        (
            _change("requests.jsonl", lambda text: "\n{}\n" + text),
            r"/requests.jsonl:2: .* missing required field `request_id`",
        ),
        (_change("telemetry.jsonl", lambda _: "null\n"), r"/telemetry.jsonl:1: expected `object`, got `null`; replay"),
        (_change("planner.jsonl", lambda _: "oops\n"), r"/planner.jsonl:1: JSON is malformed: invalid character"),
        (
            _key("resolved_spec.json", "topology", 3),
            r"/resolved_spec.json: expected `object`, got `int` - at `\$.topology`",
        ),
        (_change("resolved_spec.json", lambda _: "?"), r"/resolved_spec.json: JSON is malformed: invalid character"),
    ],
)
def test_what_is_wrong_is_named(folder: Path, damage: Callable[[Path], None], finding: str) -> None:
    damage(folder)
    with pytest.raises(InputError, match=finding) as raised:
        load_results(folder)
    assert len(raised.value.findings) == 1
    assert "\n" not in str(raised.value)


def test_a_file_that_cannot_be_read_is_named(folder: Path) -> None:
    (folder / "requests.jsonl").unlink()
    (folder / "requests.jsonl").mkdir()
    with pytest.raises(InputError, match=r"/requests.jsonl: cannot be read: Is a directory"):
        load_results(folder)


def test_text_that_is_not_utf8_is_refused(folder: Path) -> None:
    (folder / "requests.jsonl").write_bytes((folder / "requests.jsonl").read_bytes().replace(b'"a"', b'"\xff"'))
    with pytest.raises(InputError, match=r"/requests.jsonl:1: .*UTF-8"):
        load_results(folder)
