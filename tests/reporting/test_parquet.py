"""`requests.parquet`: the same rows as `requests.jsonl`, in columns of fixed types."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import msgspec
import pyarrow
import pyarrow.parquet
import pytest

from actors import replay
from actors.cli import main
from actors.reporting.parquet import parquet_bytes
from messages.report import RequestRecord


def table_of(content: bytes) -> pyarrow.Table:
    return pyarrow.parquet.read_table(io.BytesIO(content))


def rows_of(table: pyarrow.Table) -> list[dict[str, Any]]:
    rows = table.to_pylist()
    for row in rows:
        row["metadata"] = None if row["metadata"] is None else json.loads(row["metadata"])
    return rows


def json_lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def spec(tmp_path: Path) -> Path:
    """A spec of three requests: with metadata, in a session, and too long for the cache."""
    requests = [
        {"id": "a", "arrival_time_ms": 0, "input_tokens": 100, "output_tokens": 3, "metadata": {"team": ["x", 1.5]}},
        {"id": "b", "arrival_time_ms": 5, "input_tokens": 9, "output_tokens": 1, "session_id": "s", "turn_index": 0},
        {"id": "é", "arrival_time_ms": 6, "input_tokens": 9000, "output_tokens": 1},
    ]
    document = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"rank": {"num_gpu_blocks": 64}},
        "requests": requests,
    }
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("name", ["aggregated", "sglang", "disaggregated", "kv_router", "planner"])
def test_every_value_is_that_of_the_records(name: str, tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert main(["replay", "--example", name, "--quiet", "--output-dir", str(out), "--parquet"]) == 0
    table = table_of((out / "requests.parquet").read_bytes())
    assert table.column_names == list(RequestRecord.__struct_fields__)
    assert rows_of(table) == json_lines(out / "requests.jsonl")


def test_values_that_few_requests_have(spec: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["replay", str(spec), "--output-dir", str(out), "--parquet"]) == 0
    assert f"Saved: {out / 'requests.parquet'}" in capsys.readouterr().out
    rows = rows_of(table_of((out / "requests.parquet").read_bytes()))
    assert rows == json_lines(out / "requests.jsonl")
    assert [row["metadata"] for row in rows] == [{"team": ["x", 1.5]}, None, None]
    assert [row["session_id"] for row in rows] == [None, "s", None]
    assert [row["terminal_status"] for row in rows] == ["completed", "completed", "rejected"]


def test_types_do_not_depend_on_the_data(spec: Path) -> None:
    records = replay(spec).requests
    assert records is not None
    schema = table_of(parquet_bytes(records)).schema
    assert table_of(parquet_bytes([])).schema == schema
    types = {field.name: (str(field.type), field.nullable) for field in schema}
    assert types["request_id"] == ("string", False)
    assert types["metadata"] == ("string", True)
    assert types["ttft_ms"] == types["dispatched_at_ms"] == ("double", True)
    assert types["input_length"] == ("int64", False)
    assert types["decode_reused_input_tokens"] == ("int64", True)
    assert types["pressure_record_ordinals"] == ("list<element: int64 not null>", False)
    histories = {name: schema.field(name).type.value_type for name in ("routing_history", "admission_history")}
    assert [field.name for field in histories["routing_history"]][:2] == ["pool", "outcome"]
    assert {str(field.type) for field in histories["admission_history"]} == {"int64", "string", "double", "bool"}


def test_the_same_records_give_the_same_bytes(spec: Path) -> None:
    one, other = replay(spec).requests, replay(spec).requests
    assert one is not None
    assert other is not None
    assert parquet_bytes(one) == parquet_bytes(other)


def test_an_earlier_file_does_not_outlive_its_run(spec: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    options = ["replay", str(spec), "--quiet", "--output-dir", str(out)]
    assert main([*options, "--parquet"]) == 0
    assert main([*options, "--overwrite"]) == 0
    assert sorted(path.name for path in out.iterdir()) == ["report.json", "requests.jsonl", "resolved_spec.json"]


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ([], "error: --parquet writes into the output directory: give --output-dir DIR too"),
        (
            ["--output-dir", "OUT", "--set", "record_per_request=false"],
            "error: --parquet: the spec says record_per_request: false, so that there are no records to write",
        ),
    ],
)
def test_nothing_to_write_or_nowhere(
    spec: Path, tmp_path: Path, options: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    options = [option.replace("OUT", str(tmp_path / "out")) for option in options]
    assert main(["replay", str(spec), "--parquet", *options]) == 2
    assert capsys.readouterr().err == f"{line}\n"
    assert not (tmp_path / "out").exists()


def test_without_pyarrow_the_run_does_not_begin(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    monkeypatch.setattr("actors.system.run", lambda *_, **__: pytest.fail("the run began"))
    assert main(["replay", str(spec), "--parquet", "--output-dir", str(tmp_path / "out")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: --parquet needs pyarrow, which cannot be imported")
    assert line.endswith('pip install "aisim-actors[parquet]"')
    assert not (tmp_path / "out").exists()


def test_a_failure_to_convert_leaves_nothing(
    spec: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_: object) -> bytes:
        raise MemoryError("no room")

    monkeypatch.setattr("actors.reporting.parquet.parquet_bytes", fail)
    assert main(["replay", str(spec), "--parquet", "--output-dir", str(tmp_path / "out")]) == 1
    assert capsys.readouterr().err == "error: MemoryError: no room\n"
    assert not (tmp_path / "out").exists()


def test_numbers_keep_every_bit(spec: Path) -> None:
    records = replay(spec).requests
    assert records is not None
    odd = [msgspec.structs.replace(records[0], arrival_time_ms=0.1 + 0.2, ttft_ms=5e-324, input_length=2**62 + 1)]
    (row,) = rows_of(table_of(parquet_bytes(odd)))
    assert row == json.loads(msgspec.json.encode(odd[0]))
