"""A logical worker around an engine: when a pass starts, and when its outputs become visible."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right

import msgspec

from actors.names import CLIENT, COLLECTOR, PoolNames
from actors.runtime import SimActor, handles
from engines.engine import Engine, Pass, PlannedEvictions, RankOutputs
from messages.envelope import NOTHING, Envelope, Outgoing, Phase, Reply
from messages.errors import LIVELOCK, ReplayError
from messages.gauges import Gauges
from messages.kv import EvictionForecast
from messages.passes import IDLE_ROW, ForwardPassMetrics, PassCompleted, PassOutputs, StartPass
from messages.requests import Dispatch
from messages.scaling import RankRow, ReportWorker, RunUntil, WorkerDrained, WorkerDraining, WorkerReport
from messages.telemetry import SampleWorker, WorkerSample

_IDLE_MS = 1000.0


class Worker(SimActor):
    """Offers to start a pass whenever it is idle and has work; publishes a pass at its end.

    A run of merged passes is cut where a new request could change the next pass: its completion is
    revoked and, for the passes that remain, sent again.

    tell_router: whether the placement policy follows what becomes of requests.
    capture_metrics: whether somebody asks for rows of what passes worked on, or for samples of what ranks hold.
    tell_gauges: whether outputs tell what ranks hold.
    """

    _follower = CLIENT
    """Who hears of the ends of requests, beside the collector."""

    def __init__(
        self,
        names: PoolNames,
        worker_id: int,
        scheduler_ids: tuple[int, ...],
        engine: Engine,
        *,
        tell_router: bool = True,
        capture_metrics: bool = False,
        tell_gauges: bool = False,
    ) -> None:
        super().__init__()
        self._capture_metrics = capture_metrics
        self._tell_gauges = tell_gauges
        self._names = names
        self._worker_id = worker_id
        self._scheduler_ids = scheduler_ids
        self._name = names.worker(worker_id)
        self._completion_key = names.completion_key(worker_id)
        self._engine = engine
        self._tell_router = tell_router
        self._in_flight: Pass | None = None
        self._passes = 0
        """How many passes of the run in flight will take place."""
        self._foretold: list[int] = []
        """Ranks whose evictions in the run in flight were foretold."""
        self._pass_id = 0
        self._requests = 0
        """Requests that were accepted and have not ended."""
        self._draining = False
        self._rows: dict[int, ForwardPassMetrics] = {}
        """The latest pass of each rank since the last report, where such rows are captured."""
        self._published_ms: dict[int, float] = {}
        """When each rank had its latest row."""
        self._began_ms = 0.0
        """Start of the run in flight."""
        self._gauges: list[Gauges] = []
        """What each rank held at its last command or end of a pass, where rows are captured."""
        self._look()

    @handles(Dispatch)
    def accept_request(self, message: Dispatch, envelope: Envelope) -> Reply:
        self._engine.submit(message.dp_rank, message.request)
        self._requests += 1
        self._look(message.dp_rank)
        if self._in_flight is None:
            return Reply(offering=True)
        if not self._in_flight.cut_on_submit:
            return NOTHING
        return self._cut(envelope)

    @handles(StartPass)
    def start_pass(self, message: StartPass, envelope: Envelope) -> Reply:
        begun = self._engine.begin_pass(envelope.at_ms)
        if begun.out_of_attempts:
            raise ReplayError(LIVELOCK.format(self._requests))
        if begun.exhausted:
            return Reply(exhausted=self._requests)
        if not begun.has_effect:
            return self._attempt_again(envelope)
        self._in_flight = begun
        self._began_ms = envelope.at_ms
        self._passes = len(begun.ends_ms)
        if begun.evictions or self._foretold:
            self._foretold = [planned.dp_rank for planned in begun.evictions]
        if begun.ends_ms[-1] == envelope.at_ms:
            return self._end_pass()
        if not (self._tell_router and begun.evictions):
            return Reply(outbox=(self._completion(begun),))
        forecasts = [self._forecast(begun, planned) for planned in begun.evictions]
        return Reply(outbox=[self._completion(begun), *forecasts])

    def _attempt_again(self, envelope: Envelope) -> Reply:
        """What an attempt without effect leaves."""
        return Reply(offering=self._engine.has_work)

    @handles(PassCompleted)
    def complete_pass(self, message: PassCompleted, envelope: Envelope) -> Reply:
        return self._end_pass()

    def _cut(self, envelope: Envelope) -> Reply:
        """End the run at its first boundary after now, or at now if the next pass has not started yet.

        Passes start in the first round of their timestamp, in the order of worker ids.
        """
        current = self._in_flight
        assert current is not None
        passes = bisect_right(current.ends_ms, envelope.at_ms)
        if passes == self._passes or self._passes == 1:
            # It ends with the pass under way, or ends now anyway: its completion is on its way.
            return NOTHING
        at_boundary = passes > 0 and current.ends_ms[passes - 1] == envelope.at_ms
        before_start = envelope.phase < self._names.starts or (
            envelope.phase is self._names.starts and envelope.key < self._worker_id
        )
        if at_boundary and envelope.round == 1 and before_start:
            self._passes = passes
            return self._end_pass(revoke=True)
        if passes + 1 == self._passes:
            return NOTHING
        self._passes = passes + 1
        return Reply(outbox=(self._completion(current),), revoke=True)

    def _completion(self, current: Pass) -> Outgoing:
        return Outgoing(
            self._name,
            PassCompleted(self._worker_id, self._pass_id, self._passes),
            current.ends_ms[self._passes - 1],
            Phase.COMPLETIONS,
            self._completion_key,
        )

    def _forecast(self, begun: Pass, planned: PlannedEvictions) -> Outgoing:
        forecast = EvictionForecast(
            self._worker_id, planned.dp_rank, begun.ends_ms, planned.evicted_blocks, planned.evictions
        )
        return Outgoing(self._names.router, forecast)

    def _end_pass(self, *, revoke: bool = False) -> Reply:
        current, passes = self._in_flight, self._passes
        assert current is not None
        self._in_flight = None
        self._pass_id += passes
        ends_ms = current.ends_ms if passes == len(current.ends_ms) else current.ends_ms[:passes]
        outputs = [self._outputs(rank, ends_ms) for rank in self._engine.end_pass(passes)]
        if self._capture_metrics:
            self._note_rows(outputs, ends_ms)
        outbox = self._publish({rank.dp_rank: rank for rank in outputs})
        self._look()
        if self._draining:
            outbox += self._if_drained()
        return Reply(outbox=outbox, offering=self._engine.has_work, revoke=revoke)

    def _look(self, dp_rank: int | None = None) -> None:
        """Note what a rank holds now, or all of them."""
        if not self._capture_metrics:
            return
        if dp_rank is None:
            self._gauges = [self._engine.gauges(rank) for rank in range(len(self._scheduler_ids))]
        else:
            self._gauges[dp_rank] = self._engine.gauges(dp_rank)

    def _gauges_to_tell(self, dp_rank: int) -> Gauges | None:
        return self._engine.gauges(dp_rank) if self._tell_gauges else None

    @handles(SampleWorker)
    def sample(self, message: SampleWorker, envelope: Envelope) -> Reply:
        return Reply(outbox=(Outgoing(self._names.pool, WorkerSample(self._worker_id, tuple(self._gauges))),))

    @handles(RunUntil)
    def run_until(self, message: RunUntil, envelope: Envelope) -> Reply:
        self._engine.run_until(message.at_ms)
        return NOTHING

    @handles(WorkerDraining)
    def drain(self, message: WorkerDraining, envelope: Envelope) -> Reply:
        self._draining = True
        return NOTHING

    @handles(ReportWorker)
    def report(self, message: ReportWorker, envelope: Envelope) -> Reply:
        """Tell of the latest pass of every rank; of one that has been idle for a second or more, zeros."""
        rows: list[RankRow] = []
        if message.active_since_ms is not None:
            for dp_rank in range(len(self._scheduler_ids)):
                published_ms = self._published_ms.get(dp_rank, message.active_since_ms)
                idle_ms = envelope.at_ms - published_ms
                if idle_ms >= _IDLE_MS:
                    self._published_ms[dp_rank] = published_ms + math.floor(idle_ms / _IDLE_MS) * _IDLE_MS
                    self._rows[dp_rank] = IDLE_ROW
                if dp_rank in self._rows:
                    rows.append(RankRow(self._worker_id, dp_rank, self._rows[dp_rank]))
        self._rows.clear()
        return Reply(outbox=(Outgoing(self._names.pool, WorkerReport(self._worker_id, self._drained, tuple(rows))),))

    @property
    def _drained(self) -> bool:
        return self._in_flight is None and not (self._requests or self._engine.holds_requests)

    def _if_drained(self) -> list[Outgoing]:
        """Word for the pool once a draining worker has nothing left."""
        if self._draining and self._drained:
            return [Outgoing(self._names.pool, WorkerDrained(self._worker_id))]
        return []

    def _note_rows(self, outputs: list[PassOutputs], ends_ms: array[float]) -> None:
        """Keep the row of the last pass of every rank, which takes as long as that of the slowest."""
        begin_ms = ends_ms[-2] if len(ends_ms) > 1 else self._began_ms
        wall_time_s = (ends_ms[-1] - begin_ms) / 1000.0
        worked = {rank.dp_rank: rank.metrics for rank in outputs}
        for dp_rank in range(len(self._scheduler_ids)):
            row = worked.get(dp_rank) or IDLE_ROW
            self._rows[dp_rank] = msgspec.structs.replace(row, wall_time_s=wall_time_s)
            self._published_ms[dp_rank] = ends_ms[-1]

    def _outputs(self, rank: RankOutputs, ends_ms: array[float]) -> PassOutputs:
        self._requests -= len(rank.terminals)
        return PassOutputs(
            pool=self._names.label,
            worker_id=self._worker_id,
            dp_rank=rank.dp_rank,
            scheduler_id=self._scheduler_ids[rank.dp_rank],
            ends_ms=ends_ms,
            resumed=rank.resumed,
            paused=rank.paused,
            bursts=rank.bursts,
            decode_forwards=rank.decode_forwards,
            accepted_tokens=rank.accepted_tokens,
            first_tokens=rank.first_tokens,
            terminals=rank.terminals,
            signals=rank.signals,
            admissions=rank.admissions,
            committed_prefill_tokens=rank.committed_prefill_tokens,
            preempted=rank.preempted,
            kv_events=rank.kv_events,
            metrics=rank.metrics,
            cache_hit_tokens=rank.cache_hit_tokens,
            cache_total_tokens=rank.cache_total_tokens,
            gauges=self._gauges_to_tell(rank.dp_rank),
        )

    def _publish(self, ended: dict[int, PassOutputs]) -> list[Outgoing]:
        """Messages about the pass that ended, given its outputs by rank."""
        return [outgoing for outputs in ended.values() for outgoing in self._publish_rank(outputs)]

    def _publish_rank(self, outputs: PassOutputs) -> list[Outgoing]:
        outbox: list[Outgoing] = []
        told = outputs.kv_events or outputs.first_tokens or outputs.terminals or outputs.dp_rank in self._foretold
        if self._tell_router and told:
            outbox.append(Outgoing(self._names.router, outputs))
        outbox.append(Outgoing(COLLECTOR, outputs))
        if outputs.terminals:
            outbox.append(Outgoing(self._follower, outputs))
        return outbox
