from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from actors.workload.loading import check_workload, load_workload
from messages.errors import InputError
from tests.workload.builders import load_rows, replay_spec, row, write_trace

U64_MAX = 2**64 - 1


def finding(directory: Path, rows: Sequence[dict[str, Any] | str], **options: Any) -> str:
    """Return the one line that stops a load, from the file name on."""
    with pytest.raises(InputError) as caught:
        load_rows(directory, rows, **options)
    (line,) = caught.value.findings
    assert "\n" not in line
    assert line.startswith(str(directory))
    return line[len(str(directory)) + 1 :]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        (row(hash_ids=[1, 2, -1]), "hash_ids[2]: expected an integer >= 0, got -1"),
        (row(hash_ids=[2**64, 1]), f"hash_ids[0]: expected an integer <= {U64_MAX}, got {2**64}"),
        (row(hash_ids=[1, -(2**70)]), f"hash_ids[1]: expected an integer >= 0, got {-(2**70)}"),
        (row(hash_ids=[1, 10.0]), "hash_ids[1]: expected an integer, got 10.0"),
        (row(hash_ids=["a"]), 'hash_ids[0]: expected an integer, got "a"'),
        (row(hash_ids="ab"), 'hash_ids: expected a list, got "ab"'),
        (row(hash_ids=None), "hash_ids: missing; give one id per trace block of the prompt"),
        (row(hash_ids=[], input_length=None), "hash_ids: expected at least one id, got an empty list"),
        (row(input_length="10"), 'input_length: expected an integer, got "10"'),
        (row(input_length=10.5), "input_length: expected an integer, got 10.5"),
        (row(input_length=-1), "input_length: expected an integer >= 0, got -1"),
        (row(input_length=True), "input_length: expected an integer, got true"),
        (row(input_length={}), "input_length: expected an integer, got an object"),
        (row(input_length=0), "input_length: expected an integer >= 1, got 0"),
        (
            row(input_length=17),
            "input_length: expected at most 16, the capacity of hash_ids (2 ids of 8 tokens), got 17",
        ),
        (
            row(input_length=10**18),
            f"input_length: expected at most 16, the capacity of hash_ids (2 ids of 8 tokens), got {10**18}",
        ),
        (
            row(hash_ids=[1]),
            "input_length: expected at most 8, the capacity of hash_ids (1 id of 8 tokens), got 10",
        ),
        (row(output_length=None), "output_length: missing; give the number of tokens to generate"),
        (row(output_length=-2), "output_length: expected an integer >= 0, got -2"),
        (row(output_length=2**64), f"output_length: expected an integer <= {U64_MAX}, got {2**64}"),
        (row(output_tokens=2), "output_tokens: another name of output_length, which the row has too; keep one"),
        (row(created_time=2), "created_time: another name of timestamp, which the row has too; keep one"),
        (row(output_token_ids=[1]), "output_token_ids: expected 2 ids as output_length says, got 1"),
        (
            row(output_length=1, output_token_ids=[1, 2]),
            "output_token_ids: expected 1 id as output_length says, got 2",
        ),
        (row(output_token_ids=[1, 2**32]), f"output_token_ids[1]: expected an integer <= {2**32 - 1}, got {2**32}"),
        (row(timestamp="0"), 'timestamp: expected a finite number, got "0"'),
        (
            row(timestamp=None),
            'timestamp: missing on the first row of session "request_2"; give it in ms, or set max_in_flight',
        ),
        (
            row(delay=5),
            'delay: the first turn of session "request_2" has nothing to wait for; remove it or set it to 0, got 5.0',
        ),
        (row(session_id=3), "session_id: expected a string, got 3"),
        (row(priority=2**31), f"priority: expected an integer <= {2**31 - 1}, got {2**31}"),
        (row(strict_priority=-1), "strict_priority: expected an integer >= 0, got -1"),
        ("[1, 2]", "expected a JSON object with the fields of one row, got a list"),
        ("null", "expected a JSON object with the fields of one row, got null"),
        ('{"timestamp": NaN}', "column 15: JSON is malformed: Expecting value, got 'NaN'"),
        ('{"timestamp": 1e999}', "timestamp: expected a finite number, got 1e999"),
        ('{"input_length": -1.5e+999}', "input_length: expected an integer, got -1.5e+999"),
        ('{"a": 1', "column 8: JSON is malformed: the line ends inside a value (a row must be one line)"),
        ('{"é": 1 "b": 2}', "column 9: JSON is malformed: Expecting ',' delimiter, got '\"'"),
        ('"output_length": 2,', "column 16: JSON is malformed: Extra data, got ':'"),
        ("{} {}", "column 4: JSON is malformed: Extra data, got '{'"),
        ("\ufeff{}", "column 1: the file starts with a byte order mark; save it as UTF-8 without one"),
        ('{"x": "\\ud800"}', "JSON is malformed: a string holds half of a surrogate pair (\\ud800 to \\udfff)"),
        ("[" * 100_000, "JSON is nested too deeply"),
        ('{"hash_ids": [' + "1" * 5000 + "]}", "Integer value out of range - at `$.hash_ids[0]`"),
    ],
)
def test_a_bad_row_is_named_by_line_and_field(bad: dict[str, Any] | str, expected: str, tmp_path: Path) -> None:
    assert finding(tmp_path, [row(), bad]) == f"trace.jsonl:2: {expected}"


def test_blank_lines_count(tmp_path: Path) -> None:
    rows: list[dict[str, Any] | str] = [row(), "", " \t", "\u00a0", "\x0b", row(output_length=None)]
    assert finding(tmp_path, rows).startswith("trace.jsonl:6: output_length")


def test_later_turns_need_a_think_time_that_makes_sense(tmp_path: Path) -> None:
    first = row(session_id="s", timestamp=100)
    earlier = row(session_id="s", timestamp=50)
    negative = row(session_id="s", delay_ms=-3)
    allowed = "expected a finite think time >= 0 ms, got"
    assert finding(tmp_path, [first, earlier]) == f"trace.jsonl:2: timestamp: {allowed} -50.0"
    assert finding(tmp_path, [first, negative]) == f"trace.jsonl:2: delay_ms: {allowed} -3.0"
    empty = row(session_id="s", delay=0, input_length=0)
    assert finding(tmp_path, [first, empty]) == "trace.jsonl:2: input_length: expected an integer >= 1, got 0"


def test_closed_loop_needs_no_timestamps_but_refuses_senseless_ones(tmp_path: Path) -> None:
    assert "timestamp: expected a number >= 0" in finding(tmp_path, [row(timestamp=-5)], max_in_flight=1)
    rows = [row(session_id="s", timestamp=None), row(session_id="s", timestamp=4)]
    assert "no think time can be told from it" in finding(tmp_path, rows, max_in_flight=1)


def test_a_trace_without_requests_is_refused(tmp_path: Path) -> None:
    for rows in ([], ["", "  "]):
        assert finding(tmp_path, list(rows)) == "trace.jsonl: the trace holds no requests"


def test_bytes_that_are_not_utf8_are_refused(tmp_path: Path) -> None:
    sound = json.dumps(row()).encode()
    (tmp_path / "trace.jsonl").write_bytes(sound + b'\n{"x": "\xe9"}\n' + sound)
    spec = replay_spec({"kind": "trace", "path": "trace.jsonl", "block_size": 8})
    findings, _ = check_workload(spec, tmp_path)
    assert findings == [f"{tmp_path / 'trace.jsonl'}:2: column 8: not UTF-8 text: byte 0xe9"]


@pytest.mark.parametrize(("path", "reason"), [("none.jsonl", "No such file or directory"), (".", "Is a directory")])
def test_a_path_that_is_no_file_is_refused(path: str, reason: str, tmp_path: Path) -> None:
    spec = replay_spec({"kind": "trace", "path": path})
    with pytest.raises(InputError, match=f"cannot read the trace: {reason}"):
        load_workload(spec, tmp_path)


SOUND = '"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1, 2]'


@pytest.mark.parametrize(
    ("line", "field"),
    [
        ('{"output_length": 9, %s}', "output_length"),
        ('{%s, "timestamp":0}', "timestamp"),
        ('{%s, "timest\\u0061mp": 5}', "timestamp"),
        ('{%s, "priority": null, "priority" : null}', "priority"),
        ('{"extra": {"hash_ids": []}, %s, "hash_ids": [1, 2]}', "hash_ids"),
    ],
)
def test_a_field_given_twice_is_refused(line: str, field: str, tmp_path: Path) -> None:
    assert finding(tmp_path, [row(), line % SOUND]) == f"trace.jsonl:2: {field}: given more than once; keep one"


@pytest.mark.parametrize(
    "line",
    [
        '{%s, "note": "timestamp", "extra": {"timestamp": 1, "hash_ids": [{"hash_ids": 1}]}}',
        '{%s, "session_id": "same", "request_id": "same"}',
        '{%s, "note": 1, "note": 2}',
        '{%s, "note": "a \\"timestamp\\": in quotes"}',
        '{%s, "note": "\\n", "big": ' + "1" * 5000 + "}",
    ],
)
def test_a_name_may_occur_again_where_it_is_no_field_of_the_row(line: str, tmp_path: Path) -> None:
    assert len(load_rows(tmp_path, [row(), line % SOUND]).sessions) == 2


def test_rows_are_checked_whatever_the_spec_itself_has_wrong(tmp_path: Path) -> None:
    write_trace(tmp_path, [row(), row(output_length=None), row(hash_ids=None)])
    trace = {"kind": "trace", "path": "trace.jsonl", "block_size": 8}
    for bad in (
        replay_spec({**trace, "arrival_speedup_ratio": 0.0}),
        replay_spec({**trace, "arrival_speedup_ratio": -1e-300}),
        replay_spec(trace, requests=[]),
    ):
        findings, _ = check_workload(bad, tmp_path)
        assert [line.split(":")[1:3] for line in findings] == [["2", " output_length"], ["3", " hash_ids"]]
    sessions = {**trace, "format": "applied_compute_agentic"}
    for bad in (replay_spec(sessions), replay_spec({**sessions, "shared_prefix_ratio": 1e308}, max_in_flight=1)):
        findings, _ = check_workload(bad, tmp_path)
        assert [line.split(":")[1:3] for line in findings] == [[str(line), " num_turns"] for line in (1, 2, 3)]


def test_times_that_overflow_by_the_speedup_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="exceeds the range of numbers"):
        load_rows(tmp_path, [row(), row(timestamp=1e300)], arrival_speedup_ratio=1e-20)


def test_checking_finds_every_bad_row_once_and_blames_no_other(tmp_path: Path) -> None:
    write_trace(
        tmp_path,
        [
            row(session_id="a", input_length=-1),
            row(session_id="a", timestamp=None),
            row(session_id="a", delay=-3),
            '{"session_id": "b", ',
            row(session_id="b", timestamp=None, delay=9),
            row(timestamp=None),
            row(hash_ids=[1, 2, 3]),
        ],
    )
    spec = replay_spec({"kind": "trace", "path": "trace.jsonl", "block_size": 8})
    findings, warnings = check_workload(spec, tmp_path)
    fields = [line.rpartition("trace.jsonl:")[2].split(":")[:2] for line in findings]
    assert fields == [["1", " input_length"], ["3", " delay"], ["4", " column 20"], ["6", " timestamp"]]
    assert len(warnings) == 1


def test_checking_a_sound_trace_finds_nothing(tmp_path: Path) -> None:
    write_trace(tmp_path, [row(), row(session_id="a"), row(session_id="a", delay=1)])
    spec = replay_spec({"kind": "trace", "path": "trace.jsonl", "block_size": 8})
    assert check_workload(spec, tmp_path) == ([], [])
