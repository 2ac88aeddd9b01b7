"""The tracks of one pool of workers: its ranks, and what a scaling policy does to it."""

from __future__ import annotations

from actors.names import PoolNames
from actors.timeline.events import EventWriter, Process, Thread, microseconds, quoted
from actors.timeline.ranks import RankTrack
from messages.scaling import DecisionMade, LifecycleOperation

_FIRST_RANK = 1
"""Number of the thread of rank 0 of worker 0; the one before is that of scaling."""


class PoolTrack:
    """A pool. sglang, holds: see `RankTrack`."""

    def __init__(
        self, writer: EventWriter, process: Process, names: PoolNames, *, dp_size: int, sglang: bool, holds: bool
    ) -> None:
        self.names = names
        self._writer = writer
        self._process = process
        self._dp_size = dp_size
        self._sglang = sglang
        self._holds = holds
        self._scaling = Thread(process, process.first_tid, "scaling")
        self._workers = writer.counter(process, "workers")
        self._ranks: dict[int, list[RankTrack]] = {}
        """By worker."""

    def begin(self, workers: int) -> None:
        """There are so many workers from the start."""
        self._count(0, workers, 0, 0)

    def add_rank(self, worker_id: int, dp_rank: int) -> RankTrack:
        """The tracks of a rank."""
        name = f"worker {worker_id}" + (f" rank {dp_rank}" if self._dp_size > 1 else "")
        tid = self._process.first_tid + _FIRST_RANK + worker_id * self._dp_size + dp_rank
        thread = Thread(self._process, tid, name)
        rank = RankTrack(self._writer, self._process, thread, sglang=self._sglang, holds=self._holds)
        self._ranks.setdefault(worker_id, []).append(rank)
        return rank

    def operate(self, operation: LifecycleOperation) -> None:
        """Workers changed their state."""
        at_us, state = microseconds(operation.at_ms), operation.state_after_batch
        self._count(at_us, len(state.active), len(state.starting), len(state.draining))
        for transition in operation.transitions:
            args = f'"worker":{transition.worker_id},"cause":{quoted(operation.cause)}'
            if transition.reason is not None:
                args += f',"reason":{quoted(transition.reason)}'
            self._writer.instant(self._scaling, transition.transition, at_us, args)
            if transition.state == "removed":
                for rank in self._ranks.get(transition.worker_id, ()):
                    rank.vanish(at_us)

    def decide(self, decision: DecisionMade, target: int) -> None:
        """A scaling policy wants so many workers."""
        args = f'"target":{target},"tick":{decision.tick_ordinal}'
        self._writer.instant(self._scaling, "scaling_decision", microseconds(decision.at_ms), args)

    def _count(self, at_us: int, active: int, starting: int, draining: int) -> None:
        values = f'"active":{active},"starting":{starting},"draining":{draining}'
        self._writer.set(self._workers, at_us, values)
