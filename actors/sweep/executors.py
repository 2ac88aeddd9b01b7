"""Where the points of a sweep run: processes of this machine, or a Ray cluster."""

from __future__ import annotations

import contextlib
import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, Protocol

from actors.sweep.worker import Task, run_task, start_worker
from messages.errors import InputError, ReplayError

EXTRA_MISSING = "--executor ray needs the package ray: pip install 'aisim-actors[ray]'"


class Executor(Protocol):
    """Runs tasks elsewhere.

    Attributes:
        workers: how many at a time.
    """

    workers: int

    def submit(self, task: Task, /) -> Future[bytes]:
        """Start a task; the future gives what `run_task` returns, or raises where the worker was lost."""
        ...

    def restart(self) -> None:
        """Be ready for tasks again after a worker was lost. No future is pending."""
        ...

    def close(self) -> None:
        """End all workers at once, whatever they are doing."""
        ...


def cpu_count() -> int:
    """Return the number of CPUs that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class LocalProcesses:
    """Processes of this machine. They end with this one, even where it is killed: see `start_worker`."""

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self._open()

    def submit(self, task: Task) -> Future[bytes]:
        """Start a task. A process that is lost takes all others of the pool and their tasks with it."""
        try:
            with _interrupts_blocked():
                return self._pool.submit(run_task, task)
        except BrokenProcessPool as error:
            # A worker that dies idle shows only now.
            broken: Future[bytes] = Future()
            broken.set_exception(error)
            return broken

    def restart(self) -> None:
        """Replace the pool."""
        self.close()
        self._open()

    def close(self) -> None:
        """Let go of the lifeline, which ends the processes."""
        self._lifeline.close()
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._reader.close()

    def _open(self) -> None:
        # Spawned, so that a process holds no end of a pipe but those it is given.
        context = multiprocessing.get_context("spawn")
        self._reader, self._lifeline = context.Pipe(duplex=False)
        self._pool = ProcessPoolExecutor(self.workers, context, start_worker, (self._reader,))


class RayCluster:
    """Workers of Ray: of the cluster that RAY_ADDRESS names, or else of an instance on this machine for this sweep.

    On other machines this program has to be installed in the same version, and the files that the specs name have to
    be there under the same absolute paths with the same content; a worker that finds anything else says so.
    """

    def __init__(self, workers: int | None) -> None:
        """Start or join; workers: None for all CPUs. Raises InputError without Ray, ReplayError where it fails."""
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        try:
            ray: Any = importlib.import_module("ray")
        except ImportError:
            raise InputError(EXTRA_MISSING) from None
        self._ray = ray
        own = "RAY_ADDRESS" not in os.environ
        # "local", since without an address Ray would join whatever it finds on this machine.
        local = {"address": "local", "num_cpus": workers or cpu_count(), "include_dashboard": False} if own else {}
        try:
            ray.init(log_to_driver=False, logging_level="error", **local)
        except (OSError, RuntimeError, ConnectionError, ValueError) as error:
            raise ReplayError(f"Ray does not start: {' '.join(str(error).split())}") from None
        self.workers = workers or max(int(ray.cluster_resources().get("CPU", 1)), 1)
        self._run = ray.remote(num_cpus=1, max_retries=0)(run_task)
        self._pending: dict[Future[bytes], Any] = {}

    def submit(self, task: Task) -> Future[bytes]:
        """Start a task on one CPU of the cluster."""
        reference = self._run.remote(task)
        future: Future[bytes] = reference.future()
        self._pending[future] = reference
        future.add_done_callback(lambda done: self._pending.pop(done, None))
        return future

    def restart(self) -> None:
        """Ray replaces its workers by itself."""

    def close(self) -> None:
        """Kill what still runs and leave the cluster, or end it if it was made for the sweep."""
        for reference in list(self._pending.values()):
            with contextlib.suppress(self._ray.exceptions.RayError):
                self._ray.cancel(reference, force=True)
        self._ray.shutdown()


@contextlib.contextmanager
def _interrupts_blocked() -> Iterator[None]:
    """Have processes that are started in the body never see Ctrl-C, which a terminal sends to all of them."""
    if sys.platform == "win32":
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
