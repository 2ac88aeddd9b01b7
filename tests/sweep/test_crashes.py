"""Sweeps that are stopped in the middle: real signals to real processes."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.sweep.documents import SLOW, start_command, write_sweep

POINTS = 8
PATIENCE_S = 120.0


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The results of a sweep that nobody disturbs."""
    folder = tmp_path_factory.mktemp("undisturbed")
    return finished(folder, "--workers", "1")


@pytest.fixture
def started(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """A sweep with two workers that has finished a point and has more at work."""
    write_sweep(tmp_path, SLOW)
    process = start_command("sweep", "sweep.json", "--workers", "2", cwd=tmp_path)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not journal_lines(tmp_path):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.communicate(timeout=PATIENCE_S)


def journal_lines(folder: Path) -> int:
    journal = folder / "sweep-results" / "journal.jsonl"
    return journal.read_bytes().count(b"\n") if journal.exists() else 0


def finished(folder: Path, *options: str) -> bytes:
    """Run the sweep to its end; return results.jsonl."""
    write_sweep(folder, SLOW)
    process = start_command("sweep", "sweep.json", *options, cwd=folder)
    printed = process.communicate(timeout=PATIENCE_S)
    assert process.returncode == 0, printed
    return (folder / "sweep-results" / "results.jsonl").read_bytes()


def children(process: subprocess.Popen[str]) -> list[int]:
    """The worker processes of a sweep."""
    found = []
    for task in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((task / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == process.pid and b"spawn_main" in (task / "cmdline").read_bytes():
                found.append(int(task.name))
        except (OSError, IndexError):
            continue
    return found


def gone(pids: list[int]) -> bool:
    """Whether these processes end within a few seconds."""
    deadline = time.monotonic() + 10.0
    while time.monotonic() < deadline:
        if not any(running(pid) for pid in pids):
            return True
        time.sleep(0.02)
    return False


def running(pid: int) -> bool:
    try:
        return (Path("/proc") / str(pid) / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_a_killed_sweep_goes_on_to_the_same_bytes(
    started: subprocess.Popen[str], tmp_path: Path, expected: bytes
) -> None:
    workers = children(started)
    started.kill()
    started.communicate(timeout=PATIENCE_S)
    kept = journal_lines(tmp_path)
    assert 0 < kept < POINTS
    assert not (tmp_path / "sweep-results" / "results.jsonl").exists()
    assert len(workers) == 2
    assert gone(workers)

    process = start_command("sweep", "sweep.json", "--workers", "2", cwd=tmp_path)
    _, errors = process.communicate(timeout=PATIENCE_S)
    assert (process.returncode, errors) == (
        0,
        f"note: {kept} of {POINTS} points are finished already, in sweep-results\n",
    )
    assert (tmp_path / "sweep-results" / "results.jsonl").read_bytes() == expected


def test_the_death_of_a_worker_costs_no_result(started: subprocess.Popen[str], tmp_path: Path, expected: bytes) -> None:
    workers = children(started)
    os.kill(workers[0], signal.SIGKILL)
    _, errors = started.communicate(timeout=PATIENCE_S)
    assert (started.returncode, errors) == (0, "")
    assert journal_lines(tmp_path) == POINTS
    assert (tmp_path / "sweep-results" / "results.jsonl").read_bytes() == expected
    assert gone(workers)


@pytest.mark.parametrize("whole_group", [False, True])
def test_an_interrupt_keeps_what_is_finished_and_says_how_to_go_on(
    whole_group: bool, started: subprocess.Popen[str], tmp_path: Path, expected: bytes
) -> None:
    workers = children(started)
    begun = time.monotonic()
    # A terminal sends the signal to all processes in the foreground.
    (os.killpg if whole_group else os.kill)(started.pid, signal.SIGINT)
    printed, errors = started.communicate(timeout=PATIENCE_S)
    assert time.monotonic() - begun < 10.0
    kept = journal_lines(tmp_path)
    assert (started.returncode, printed) == (130, "")
    assert errors == (
        f"note: {kept} of {POINTS} points are kept in sweep-results; the same command goes on from there\n"
        "error: interrupted\n"
    )
    assert gone(workers)
    assert finished(tmp_path) == expected
