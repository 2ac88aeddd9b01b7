"""The order of events when workers are lost, on an executor that follows a script."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path

import msgspec
import pytest

from actors.sweep.execution import LOST, Execution, pending_points
from actors.sweep.identity import program_digest
from actors.sweep.journal import Journal
from actors.sweep.points import Sweep, load_sweep
from actors.sweep.worker import Task, TaskReply, run_task
from messages.errors import ReplayError
from messages.sweep import PointOutcome
from tests.sweep.documents import BLOCKS, ONE_REQUEST, trace_spec, write_sweep, write_trace


class Scripted:
    """Two workers that end only when both are at work, or one alone; a task of `deadly` blocks takes all with it."""

    def __init__(self, deadly: set[int], workers: int = 2) -> None:
        self.workers = workers
        self.log: list[str] = []
        self._deadly = deadly
        self._pending: list[tuple[int, Future[bytes]]] = []

    def submit(self, task: Task) -> Future[bytes]:
        blocks = task.spec.engine.rank.num_gpu_blocks
        future: Future[bytes] = Future()
        self.log.append(f"start {blocks}")
        self._pending.append((blocks, future))
        if len(self._pending) == self.workers or self._alone:
            self.finish()
        return future

    def restart(self) -> None:
        self.log.append("restart")
        self._alone = True

    def close(self) -> None:
        self.log.append("close")

    def finish(self) -> None:
        lost = any(blocks in self._deadly for blocks, _ in self._pending)
        for blocks, future in self._pending:
            if lost:
                future.set_exception(BrokenProcessPool())
            else:
                reply = TaskReply(PointOutcome(None, {"num_requests": blocks}), final=True)
                future.set_result(msgspec.json.encode(reply))
        self._pending.clear()

    _alone = False


def sweep_of(folder: Path, *blocks: int) -> Sweep:
    return load_sweep(write_sweep(folder, {"base": ONE_REQUEST, "axes": {BLOCKS: list(blocks)}}))


def test_points_that_were_running_when_a_worker_was_lost_are_tried_again_alone(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, 100, 200, 300, 400)
    executor = Scripted(deadly={200})
    told: list[PointOutcome] = []
    with Journal(tmp_path, fresh=False) as journal:
        execution = Execution(sweep, journal, executor, told.append)
        execution.run(pending_points(sweep, journal))
        assert [point.axes[BLOCKS] for point in sweep.points if point.digest in journal.outcomes] == [100, 300, 400]
    assert execution.failures == {sweep.points[1].digest: PointOutcome(LOST)}
    assert len(told) == 4
    assert executor.log == [
        "start 100",
        "start 200",
        "restart",
        "start 100",
        "start 200",
        "restart",
        "start 300",
        "start 400",
    ]


def test_equal_points_run_once(tmp_path: Path) -> None:
    sweep = sweep_of(tmp_path, 100, 100, 200)
    with Journal(tmp_path, fresh=False) as journal:
        assert [point.index for point in pending_points(sweep, journal)] == [0, 2]
        journal.append(sweep.points[2].digest, PointOutcome(None))
        assert [point.index for point in pending_points(sweep, journal)] == [0]


def test_an_error_of_the_disk_ends_the_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = sweep_of(tmp_path, 100)
    with Journal(tmp_path, fresh=False) as journal, Path("/dev/full").open("ab", buffering=0) as full:
        monkeypatch.setattr(journal, "_file", full)
        with pytest.raises(ReplayError, match=r"journal\.jsonl: cannot be written: No space left on device"):
            Execution(sweep, journal, Scripted(set(), workers=1), lambda outcome: None).run(sweep.points)
        monkeypatch.undo()


def replied(task: Task) -> TaskReply:
    return msgspec.json.decode(run_task(task), type=TaskReply)


def test_a_task_runs_only_with_the_program_and_the_files_that_it_tells_of(tmp_path: Path) -> None:
    write_trace(tmp_path)
    (point,) = load_sweep(write_sweep(tmp_path, {"base": trace_spec(), "axes": {BLOCKS: [100]}})).points
    task = Task(point.spec, str(tmp_path), point.inputs, program_digest())
    done = replied(task)
    assert (done.final, done.outcome.error, done.outcome.summary["completed_requests"]) == (True, None, 8)

    other = replied(msgspec.structs.replace(task, program="another"))
    assert not other.final
    assert other.outcome.error == "the worker has another version of this program; install the same"

    (tmp_path / "trace.jsonl").write_text((tmp_path / "trace.jsonl").read_text().replace("600", "601"))
    changed = replied(task)
    assert not changed.final
    assert changed.outcome.error == f"{tmp_path / 'trace.jsonl'}: is not what it was when the sweep began"

    (tmp_path / "trace.jsonl").unlink()
    gone = replied(task)
    assert not gone.final
    assert "trace.jsonl: cannot be read by the worker: No such file" in (gone.outcome.error or "")
