"""Which fields of specs differ, wherever the specs lie."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.comparison.specs import comparable, spec_differences
from messages.comparison import SpecDifference


def found(*documents: dict[str, Any] | None) -> list[SpecDifference]:
    return spec_differences(documents, ["A", "B", "C"][: len(documents)])


def test_only_fields_that_differ() -> None:
    one = {"topology": {"kind": "aggregated", "workers": {"initial_workers": 4}}, "strict": False, "sla": {}}
    other = {"topology": {"kind": "aggregated", "workers": {"initial_workers": 8}}, "strict": False, "sla": {}}
    assert found(one, one) == []
    assert found(one, other, one) == [SpecDifference("topology.workers.initial_workers", [4, 8, 4], [])]


def test_fields_of_one_side_alone_are_missing_on_the_other() -> None:
    one = {"topology": {"kind": "aggregated", "workers": {"initial_workers": 4}}}
    other = {"topology": {"kind": "disaggregated", "decode": {"initial_workers": 4}}}
    assert found(one, other) == [
        SpecDifference("topology.kind", ["aggregated", "disaggregated"], []),
        SpecDifference("topology.workers.initial_workers", [4, None], ["B"]),
        SpecDifference("topology.decode.initial_workers", [None, 4], ["A"]),
    ]


def test_null_and_an_object_are_compared_as_a_whole() -> None:
    assert found({"telemetry": None}, {"telemetry": {"sample_interval_ms": 5.0}}) == [
        SpecDifference("telemetry", [None, {"sample_interval_ms": 5.0}], [])
    ]


def test_a_run_without_spec_counts_as_missing() -> None:
    assert found({"strict": True}, None, {"strict": False}) == [SpecDifference("strict", [True, None, False], ["B"])]


def test_of_inline_requests_there_are_counts() -> None:
    rows = [{"id": name, "input_tokens": 10, "output_tokens": 2} for name in "abc"]
    other = [rows[0], {**rows[1], "input_tokens": 30}]
    assert found({"requests": rows}, {"requests": list(rows)}) == []
    assert found({"requests": rows}, {"requests": other}, {"workload": 1}) == [
        SpecDifference(
            "requests",
            [
                {"count": 3, "input_tokens": 30, "output_tokens": 6, "unlike_first": 0},
                {"count": 2, "input_tokens": 40, "output_tokens": 4, "unlike_first": 2},
                None,
            ],
            ["C"],
        ),
        SpecDifference("workload", [None, None, 1], ["A", "B"]),
    ]


def test_the_same_file_seen_from_other_folders_is_equal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "traces").mkdir()
    (tmp_path / "link").symlink_to("traces")
    paths = {
        "out": "../traces/t.jsonl",
        "results/deep": "../../traces/t.jsonl",
        "absolute": str(tmp_path / "traces" / "t.jsonl"),
        ".": "link/t.jsonl",
    }
    documents = [
        comparable({"workload": {"kind": "trace", "path": path}}, Path(folder)) for folder, path in paths.items()
    ]
    assert documents == [{"workload": {"kind": "trace", "path": "traces/t.jsonl"}}] * 4


def test_files_elsewhere_have_absolute_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    document = {"workload": {"path": "../../t.jsonl"}, "requests": [{"id": "a"}]}
    assert comparable(document, Path("out")) == {
        "workload": {"path": (tmp_path / "t.jsonl").as_posix()},
        "requests": [{"id": "a"}],
    }
    assert document["workload"] == {"path": "../../t.jsonl"}


def test_the_name_of_the_schema_is_no_difference(tmp_path: Path) -> None:
    assert comparable({"$schema": "a.json", "strict": True}, tmp_path) == {"strict": True}
