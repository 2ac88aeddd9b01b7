"""A pool of workers: knows which exist, starts and retires them, and announces all that to the router."""

from __future__ import annotations

from dataclasses import dataclass

from actors.names import COLLECTOR, SAMPLER, SCALER, PoolNames
from actors.runtime import SimActor, handles
from messages.envelope import NOTHING, Envelope, Outgoing, Phase, Reply
from messages.scaling import (
    LifecycleOperation,
    PoolReport,
    PoolState,
    ReportPool,
    ReportWorker,
    RetireWorkers,
    RunUntil,
    ScaleTo,
    StartPool,
    TopologySettled,
    Transition,
    WorkerDrained,
    WorkerDraining,
    WorkerReady,
    WorkerRemoved,
    WorkerReport,
    WorkerStarted,
)
from messages.telemetry import PoolSample, SamplePool, SampleWorker, WorkerSample


@dataclass
class _Member:
    """A worker that exists. `origin`: the operation that began its start-up, and later its drain."""

    state: str
    active_since_ms: float | None = None
    origin: int | None = None


class Pool(SimActor):
    """Counts active and starting workers against the target of a decision.

    ranks: ranks per worker. startup_ms: how long a worker that is added starts up; the first ones need not.
    """

    def __init__(self, names: PoolNames, workers: int, ranks: int, startup_ms: float = 0.0) -> None:
        super().__init__()
        self._names = names
        self._ranks = ranks
        self._startup_ms = startup_ms
        self._initial = workers
        self._members: dict[int, _Member] = {}
        self._next_id = 0
        self._operations = 0
        self._reports: dict[int, WorkerReport] = {}
        self._awaited = 0
        self._drained: set[int] = set()
        self._limits_ms: dict[str, float | None] = {}
        """Until when runs may last, by who says so."""
        self._samples: dict[int, WorkerSample] = {}

    @handles(StartPool)
    def start_pool(self, message: StartPool, envelope: Envelope) -> Reply:
        for worker_id in range(self._initial):
            self._members[worker_id] = _Member("active", envelope.at_ms)
        self._next_id = self._initial
        return self._reply([self._ready(worker_id) for worker_id in self._members])

    @handles(RunUntil)
    def run_until(self, message: RunUntil, envelope: Envelope) -> Reply:
        self._limits_ms[envelope.sender] = message.at_ms
        limits = [limit_ms for limit_ms in self._limits_ms.values() if limit_ms is not None]
        limit = RunUntil(min(limits, default=None))
        return Reply(outbox=[Outgoing(self._names.worker(worker_id), limit) for worker_id in self._members])

    @handles(ReportPool)
    def report(self, message: ReportPool, envelope: Envelope) -> Reply:
        self._reports.clear()
        self._awaited = len(self._members)
        if not self._awaited:
            return Reply(outbox=(self._pool_report(),))
        return Reply(
            outbox=[
                Outgoing(self._names.worker(worker_id), ReportWorker(member.active_since_ms))
                for worker_id, member in self._members.items()
            ]
        )

    @handles(WorkerReport)
    def collect(self, message: WorkerReport, envelope: Envelope) -> Reply:
        self._reports[message.worker_id] = message
        if len(self._reports) < self._awaited:
            return NOTHING
        return Reply(outbox=(self._pool_report(),))

    @handles(SamplePool)
    def sample(self, message: SamplePool, envelope: Envelope) -> Reply:
        self._samples.clear()
        if not self._members:
            return Reply(outbox=(self._pool_sample(),))
        return Reply(outbox=[Outgoing(self._names.worker(worker_id), SampleWorker()) for worker_id in self._members])

    @handles(WorkerSample)
    def collect_sample(self, message: WorkerSample, envelope: Envelope) -> Reply:
        self._samples[message.worker_id] = message
        if len(self._samples) < len(self._members):
            return NOTHING
        return Reply(outbox=(self._pool_sample(),))

    @handles(ScaleTo)
    def scale(self, message: ScaleTo, envelope: Envelope) -> Reply:
        """Add workers, or cancel starts and then drain active workers, the latest first."""
        state = self._state()
        surplus = len(state.active) + len(state.starting) - message.target
        operation = self._operations
        transitions: list[Transition] = []
        outbox: list[Outgoing] = []
        added = tuple(range(self._next_id, self._next_id - min(surplus, 0)))
        self._next_id += len(added)
        cancelled: set[int | None] = set()
        for worker_id in added:
            if self._startup_ms > 0.0:
                self._members[worker_id] = _Member("starting", origin=operation)
                transitions.append(Transition(worker_id, "worker_starting", None, "starting", operation))
                alarm_ms = envelope.at_ms + self._startup_ms
                key = self._names.completion_key(worker_id)
                outbox.append(Outgoing(self._names.pool, WorkerStarted(worker_id), alarm_ms, Phase.WORKER_READY, key))
            else:
                self._members[worker_id] = _Member("active", envelope.at_ms, operation)
                transitions.append(Transition(worker_id, "worker_ready", None, "active", operation))
                outbox.append(self._ready(worker_id))
        removed: list[Transition] = []
        leaving = [*reversed(state.starting), *reversed(state.active)][: max(surplus, 0)]
        for worker_id in leaving:
            member = self._members[worker_id]
            if member.state == "starting":
                cancelled.add(member.origin)
                removed.append(
                    Transition(
                        worker_id, "worker_removed", "starting", "removed", member.origin, reason="startup_cancelled"
                    )
                )
                del self._members[worker_id]
                continue
            self._members[worker_id] = _Member("draining", origin=operation)
            transitions.append(Transition(worker_id, "worker_draining", "active", "draining", operation))
            outbox.append(Outgoing(self._names.router, WorkerDraining(worker_id)))
            outbox.append(Outgoing(self._names.worker(worker_id), WorkerDraining(worker_id)))
        for worker_id in self._state().draining:
            report = self._reports.get(worker_id)
            if report is not None and report.drained:
                removed.append(self._remove(worker_id))
                outbox.append(Outgoing(self._names.router, WorkerRemoved(worker_id)))
        transitions += removed
        if not transitions:
            return NOTHING
        # Starts that different decisions began have no common origin.
        origin = cancelled.pop() if len(cancelled) == 1 else None
        record = self._record(envelope, "planner_scale", transitions, tick_ordinal=message.tick_ordinal, origin=origin)
        return self._reply(outbox, record, added)

    @handles(WorkerStarted)
    def started(self, message: WorkerStarted, envelope: Envelope) -> Reply:
        member = self._members.get(message.worker_id)
        if member is None:
            # Its start was cancelled.
            return NOTHING
        member.state, member.active_since_ms = "active", envelope.at_ms
        transition = Transition(message.worker_id, "worker_ready", "starting", "active", member.origin)
        record = self._record(envelope, "worker_ready_event", [transition], origin=member.origin)
        return self._reply([self._ready(message.worker_id)], record)

    @handles(WorkerDrained)
    def drained(self, message: WorkerDrained, envelope: Envelope) -> Reply:
        if message.worker_id not in self._members:
            return NOTHING
        first = not self._drained
        self._drained.add(message.worker_id)
        if not first:
            return NOTHING
        own = Outgoing(self._names.pool, RetireWorkers(), envelope.at_ms, Phase.RETIRE, self._names.stage)
        return Reply(outbox=(own,))

    @handles(RetireWorkers)
    def retire(self, message: RetireWorkers, envelope: Envelope) -> Reply:
        gone = sorted(worker_id for worker_id in self._drained if worker_id in self._members)
        self._drained.clear()
        if not gone:
            return NOTHING
        transitions = [self._remove(worker_id) for worker_id in gone]
        outbox = [Outgoing(self._names.router, WorkerRemoved(worker_id)) for worker_id in gone]
        origin = transitions[0].origin_operation_ordinal
        return self._reply(outbox, self._record(envelope, "drain_settlement", transitions, origin=origin))

    def _remove(self, worker_id: int) -> Transition:
        member = self._members.pop(worker_id)
        return Transition(worker_id, "worker_removed", "draining", "removed", member.origin)

    def _ready(self, worker_id: int) -> Outgoing:
        first = worker_id * self._ranks
        return Outgoing(self._names.router, WorkerReady(worker_id, tuple(range(first, first + self._ranks))))

    def _state(self) -> PoolState:
        by_state = {
            state: tuple(sorted(worker_id for worker_id, member in self._members.items() if member.state == state))
            for state in ("active", "starting", "draining")
        }
        return PoolState(**by_state)

    def _pool_report(self) -> Outgoing:
        state = self._state()
        rows = tuple(row for worker_id in state.active for row in self._reports[worker_id].rows)
        report = PoolReport(self._names.label, state.active, state.starting, state.draining, rows)
        return Outgoing(SCALER, report)

    def _pool_sample(self) -> Outgoing:
        workers = tuple(sample for _, sample in sorted(self._samples.items()))
        return Outgoing(SAMPLER, PoolSample(self._names.label, self._state(), workers))

    def _record(
        self,
        envelope: Envelope,
        cause: str,
        transitions: list[Transition],
        *,
        tick_ordinal: int | None = None,
        origin: int | None = None,
    ) -> LifecycleOperation:
        self._operations += 1
        return LifecycleOperation(
            self._operations - 1,
            envelope.at_ms,
            self._names.label,
            cause,
            tick_ordinal,
            origin,
            tuple(transitions),
            self._state(),
        )

    def _reply(
        self, outbox: list[Outgoing], record: LifecycleOperation | None = None, added: tuple[int, ...] = ()
    ) -> Reply:
        """Announce changes to the router, have the record noted, and have workers started."""
        announced = [*outbox, Outgoing(self._names.router, TopologySettled())]
        if record is not None:
            announced.append(Outgoing(COLLECTOR, record))
        return Reply(outbox=announced, live_workers=len(self._members), new_workers=added)
