"""Output files: complete or absent."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.reporting.report import build_report
from actors.reporting.writers import OutputDirectory, partial_file, report_bytes, spec_bytes
from actors.spec.loading import load_spec
from messages.errors import InputError
from messages.report import ReplayReport

Make = Callable[..., Any]

REPLAYED_DOCUMENT = {"topology": {"kind": "aggregated", "workers": {"initial_workers": 2}}}
REPLAYED = load_spec({**REPLAYED_DOCUMENT, "requests": []})


@pytest.fixture
def report(request_timeline: Make, timelines: Make, figures: Make) -> ReplayReport:
    return build_report(timelines((request_timeline(0, terminal_ms=9.0), [4.0, 9.0])), figures())


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_report_and_requests_are_written_into_a_new_folder(tmp_path: Path, report: ReplayReport) -> None:
    output = OutputDirectory(tmp_path / "a" / "b", overwrite=False)
    written = output.write(report, REPLAYED)
    assert [path.name for path in written] == ["report.json", "requests.jsonl", "resolved_spec.json"]
    assert written[0].read_bytes() == report_bytes(report)
    assert json.loads(written[0].read_text()) == report.summary
    (line,) = written[1].read_text().splitlines()
    assert json.loads(line)["last_token_ms"] == 9.0
    assert names_in(tmp_path / "a" / "b") == ["report.json", "requests.jsonl", "resolved_spec.json"]
    assert load_spec(written[2]).spec == REPLAYED.spec


def test_no_records_no_file(tmp_path: Path, report: ReplayReport) -> None:
    OutputDirectory(tmp_path, overwrite=False).write(ReplayReport(report.summary, None), REPLAYED)
    assert names_in(tmp_path) == ["report.json", "resolved_spec.json"]


def test_folder_in_use_is_refused_without_overwrite(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match=r"is not empty \(it holds notes.txt\).*--overwrite"):
        OutputDirectory(tmp_path, overwrite=False)


def test_overwrite_removes_only_known_files(tmp_path: Path, report: ReplayReport) -> None:
    for name in ("notes.txt", "report.json", "requests.jsonl"):
        (tmp_path / name).write_text("old")
    OutputDirectory(tmp_path, overwrite=True).write(ReplayReport(report.summary, None), REPLAYED)
    assert names_in(tmp_path) == ["notes.txt", "report.json", "resolved_spec.json"]
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
        OutputDirectory(tmp_path, overwrite=True).write(broken, REPLAYED)
    assert names_in(tmp_path) == ["report.json"]
    assert (tmp_path / "report.json").read_text() == "old"


@pytest.mark.parametrize("name", ["file", "file/below"])
def test_file_in_place_of_the_folder(tmp_path: Path, name: str) -> None:
    (tmp_path / "file").write_text("mine")
    with pytest.raises(InputError, match="cannot be used as output directory"):
        OutputDirectory(tmp_path / name, overwrite=True)


def test_anything_but_a_file_in_place_of_a_known_file(tmp_path: Path) -> None:
    (tmp_path / "report.json").mkdir()
    with pytest.raises(InputError, match=r"report\.json: is not a regular file; remove it"):
        OutputDirectory(tmp_path, overwrite=True)
    (tmp_path / "report.json").rmdir()
    os.mkfifo(tmp_path / "requests.jsonl")
    with pytest.raises(InputError, match=r"requests\.jsonl: is not a regular file; remove it"):
        OutputDirectory(tmp_path, overwrite=True)
    assert names_in(tmp_path) == ["requests.jsonl"]


def test_a_known_file_may_be_a_link(tmp_path: Path, report: ReplayReport) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "report.json").symlink_to(tmp_path / "latest.json")
    OutputDirectory(tmp_path / "out", overwrite=True).write(report, REPLAYED)
    assert (tmp_path / "out" / "report.json").is_symlink()
    assert (tmp_path / "latest.json").read_bytes() == report_bytes(report)
    assert names_in(tmp_path) == ["latest.json", "out"]


def test_folder_where_nothing_can_be_created_is_refused_before_the_run(tmp_path: Path) -> None:
    """The folder can be looked into, so that only creating a file in it tells."""
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "requests.jsonl").symlink_to(tmp_path / "none" / "requests.jsonl")
    with pytest.raises(InputError, match="cannot be used as output directory: No such file or directory"):
        OutputDirectory(tmp_path / "out", overwrite=True)
    assert names_in(tmp_path / "out") == ["requests.jsonl"]


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="needs a folder in which nobody can create files")
def test_folder_of_the_kernel_is_refused_before_the_run() -> None:
    with pytest.raises(InputError, match="/proc/self/task: cannot be used as output directory"):
        OutputDirectory(Path("/proc/self/task"), overwrite=True)


@pytest.mark.parametrize("name", ["report.json", "requests.jsonl"])
def test_what_stops_the_last_step_leaves_earlier_results(
    tmp_path: Path, report: ReplayReport, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for known in ("report.json", "requests.jsonl"):
        (tmp_path / known).write_text("old")
    replace = Path.replace

    def interrupted(path: Path, target: Path) -> Path:
        if target.name == name:
            raise KeyboardInterrupt
        return replace(path, target)

    output = OutputDirectory(tmp_path, overwrite=True)
    monkeypatch.setattr(Path, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        output.write(report, REPLAYED)
    assert names_in(tmp_path) == ["report.json", "requests.jsonl"]
    assert (tmp_path / name).read_text() == "old"


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
    with pytest.raises(InputError, match="cannot be created: Is a directory"), partial_file(tmp_path / "none" / ".."):
        pass
    with pytest.raises(InputError, match=r"a\\x00b': cannot be created"), partial_file(tmp_path / "a\0b"):
        pass
    assert names_in(tmp_path) == []


def test_temporary_names_do_not_collide(tmp_path: Path) -> None:
    with partial_file(tmp_path / "log.jsonl") as one, partial_file(tmp_path / "log.jsonl") as other:
        one.write("one")
        other.write("other")
    assert (tmp_path / "log.jsonl").read_text() == "one"
    with partial_file(tmp_path / ("n" * 255)) as file:
        file.write("long")
    assert names_in(tmp_path) == ["log.jsonl", "n" * 255]


def test_a_link_leads_to_the_file_to_replace(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link").symlink_to("folder/log.jsonl")
    for text in ("one", "two"):
        with partial_file(tmp_path / "link") as file:
            file.write(text)
        assert (tmp_path / "link").is_symlink()
        assert (tmp_path / "folder" / "log.jsonl").read_text() == text
    assert names_in(tmp_path / "folder") == ["log.jsonl"]


def test_a_pipe_is_written_to_as_it_is(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    (tmp_path / "link").symlink_to(pipe)
    for path in (pipe, tmp_path / "link"):
        read: list[str] = []
        reader = threading.Thread(target=lambda texts: texts.append(pipe.read_text()), args=(read,), daemon=True)
        reader.start()
        with partial_file(path) as file:
            file.write("one\n")
        reader.join(timeout=30.0)
        assert read == ["one\n"]
        assert pipe.is_fifo()
    assert names_in(tmp_path) == ["link", "pipe"]


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs the names of open files")
def test_the_name_of_an_open_file_stands_for_what_is_open(tmp_path: Path) -> None:
    """Nothing may take its place: neither of the name, nor of the file that is open."""
    (tmp_path / "log.jsonl").write_text("old")
    before = (tmp_path / "log.jsonl").stat().st_ino
    with (tmp_path / "log.jsonl").open("a") as opened:
        (tmp_path / "link").symlink_to(f"/proc/self/fd/{opened.fileno()}")
        with partial_file(tmp_path / "link") as file:
            file.write("one\n")
    assert (tmp_path / "log.jsonl").read_text() == "one\n"
    assert (tmp_path / "log.jsonl").stat().st_ino == before
    assert (tmp_path / "link").is_symlink()


def test_a_name_that_is_no_text_is_told_before_it_is_written(tmp_path: Path) -> None:
    spec = {**REPLAYED_DOCUMENT, "workload": {"kind": "trace", "path": "trace.jsonl"}}
    home = tmp_path / os.fsdecode(b"n\xfe")
    with pytest.raises(InputError, match=r"\\udcfe/trace.jsonl': is not UTF-8, so that resolved_spec.json cannot"):
        spec_bytes(load_spec(spec)._replace(base_dir=home), tmp_path)
