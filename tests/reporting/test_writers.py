"""Output files: complete or absent."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.reporting.report import build_report
from actors.reporting.writers import OutputDirectory, partial_file, report_bytes
from messages.errors import InputError
from messages.report import ReplayReport

Make = Callable[..., Any]


@pytest.fixture
def report(request_timeline: Make, timelines: Make, figures: Make) -> ReplayReport:
    return build_report(timelines((request_timeline(0, terminal_ms=9.0), [4.0, 9.0])), figures())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_report_and_requests_are_written_into_a_new_folder(tmp_path: Path, report: ReplayReport) -> None:
    output = OutputDirectory(tmp_path / "a" / "b", overwrite=False)
    written = output.write(report)
    assert [path.name for path in written] == ["report.json", "requests.jsonl"]
    assert written[0].read_bytes() == report_bytes(report.summary)
    assert json.loads(written[0].read_text()) == report.summary
    (line,) = written[1].read_text().splitlines()
    assert json.loads(line)["last_token_ms"] == 9.0
    assert names_in(tmp_path / "a" / "b") == ["report.json", "requests.jsonl"]


def test_no_records_no_file(tmp_path: Path, report: ReplayReport) -> None:
    OutputDirectory(tmp_path, overwrite=False).write(ReplayReport(report.summary, None))
    assert names_in(tmp_path) == ["report.json"]


def test_folder_in_use_is_refused_without_overwrite(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"is not empty \(it holds notes.txt\).*--overwrite"):
        OutputDirectory(tmp_path, overwrite=False)


def test_overwrite_removes_only_known_files(tmp_path: Path, report: ReplayReport) -> None:
    for name in ("notes.txt", "report.json", "requests.jsonl"):
        (tmp_path / name).write_text("old")
    OutputDirectory(tmp_path, overwrite=True).write(ReplayReport(report.summary, None))
    assert names_in(tmp_path) == ["notes.txt", "report.json"]
    assert (tmp_path / "notes.txt").read_text() == "old"
    assert (tmp_path / "report.json").read_text() != "old"


def test_files_of_an_earlier_run_stay_when_the_new_run_fails(tmp_path: Path) -> None:
    (tmp_path / "report.json").write_text("old")
    OutputDirectory(tmp_path, overwrite=True).abandon()
    assert (tmp_path / "report.json").read_text() == "old"


def test_failed_run_leaves_no_folder_behind(tmp_path: Path) -> None:
    OutputDirectory(tmp_path / "a" / "b", overwrite=False).abandon()
    assert names_in(tmp_path) == []


def test_failed_write_leaves_nothing_new(tmp_path: Path, report: ReplayReport) -> None:
    (tmp_path / "report.json").write_text("old")
    broken = ReplayReport(report.summary, [object()])  # type: ignore[list-item]
    with pytest.raises(TypeError):
        OutputDirectory(tmp_path, overwrite=True).write(broken)
    assert names_in(tmp_path) == ["report.json"]
    assert (tmp_path / "report.json").read_text() == "old"


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_file_in_place_of_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="cannot be used as output directory"):
        OutputDirectory(tmp_path / name, overwrite=True)


def test_folder_in_place_of_a_known_file(tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()
    with pytest.raises(InputError, match="is a directory"):
        OutputDirectory(tmp_path, overwrite=True)


def test_partial_file_is_renamed_at_the_end_or_removed(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    with partial_file(path) as file:
        file.write("one\n")
        assert not path.exists()
    assert path.read_text() == "one\n"

    def fail() -> None:
        with partial_file(path) as file:
            file.write("two\n")
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert path.read_text() == "one\n"
    assert names_in(tmp_path) == ["log.jsonl"]


def test_partial_file_that_cannot_be_created(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be created"), partial_file(tmp_path / "none" / "log.jsonl"):
        pass
    with pytest.raises(InputError, match="cannot be created"), partial_file(tmp_path):
        pass
