"""The journal: what a crash can do to it, and who may use it."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors.sweep.journal import Journal
from messages.errors import InputError
from messages.sweep import PointOutcome

DONE = PointOutcome(None, {"gpu_hours": 0.1, "num_requests": 3}, {"wall_time_ms": 5.0}, ["a warning"])
FAILED = PointOutcome("a dead end")


def test_what_is_appended_is_there_the_next_time(tmp_path: Path) -> None:
    with Journal(tmp_path, fresh=False) as journal:
        assert journal.outcomes == {}
        journal.append("one", DONE)
        journal.append("two", FAILED)
        assert journal.outcomes == {"one": DONE, "two": FAILED}
    with Journal(tmp_path, fresh=False) as journal:
        assert journal.outcomes == {"one": DONE, "two": FAILED}
    with Journal(tmp_path, fresh=True) as journal:
        assert journal.outcomes == {}
        assert journal.path.read_bytes() == b""


def test_a_torn_line_is_dropped_wherever_it_is_torn(tmp_path: Path) -> None:
    with Journal(tmp_path, fresh=False) as journal:
        journal.append("one", DONE)
        first = journal.path.read_bytes()
        journal.append("two", FAILED)
        whole = journal.path.read_bytes()
    for length in range(len(first), len(whole)):
        journal.path.write_bytes(whole[:length])
        with Journal(tmp_path, fresh=False) as again:
            assert again.outcomes == {"one": DONE}
            again.append("two", FAILED)
        assert journal.path.read_bytes() == whole


def test_lines_that_a_crashed_machine_left_unreadable_are_no_results(tmp_path: Path) -> None:
    with Journal(tmp_path, fresh=False) as journal:
        journal.append("one", DONE)
    lines = journal.path.read_bytes()
    journal.path.write_bytes(b"\0" * 20 + b'\n{"digest":1}\n\xff\n' + lines)
    with Journal(tmp_path, fresh=False) as again:
        assert again.outcomes == {"one": DONE}


def test_one_sweep_at_a_time(tmp_path: Path) -> None:
    with Journal(tmp_path, fresh=False), pytest.raises(InputError, match="another sweep is at work here"):
        Journal(tmp_path, fresh=False)
    with Journal(tmp_path, fresh=False):
        pass
