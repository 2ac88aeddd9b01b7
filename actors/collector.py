"""The collector: records what happens to every request and derives the report at the end."""

from __future__ import annotations

import math
from array import array

import msgspec
import numpy as np

from actors.names import DECODE, PREFILL, SAMPLER, SCALER
from actors.reporting.report import build_report
from actors.reporting.scaling import scaling_report
from actors.reporting.timeline import RequestTimeline, RunFigures, Timelines
from actors.reporting.traffic import TrafficWindow
from actors.runtime import SimActor, handles
from messages.envelope import NOTHING, Envelope, Outgoing, Reply
from messages.handoff import MilestonesReached, RequestEnded
from messages.passes import PassOutputs
from messages.report import ConcludeRun
from messages.requests import RequestArrived, RequestRouted, Status
from messages.scaling import DecisionMade, LifecycleOperation, TakeTraffic
from messages.spec import Sla
from messages.telemetry import IntervalMetrics, IntervalTaken, TakeInterval


class Collector(SimActor):
    """Keeps one log of pass end times per rank; the tokens of a request are slices of its rank's log.

    gpus_per_worker, prefill_gpus_per_worker: GPUs of one worker, for the GPU-hours; the latter 0 without that pool.
    speculates: whether decode passes are reported with what they accepted.
    retracts: pools of SGLang, whose retractions do not count as preemptions.
    scales, samples: whether a scaling policy, or the sampler, asks for the traffic.
    """

    def __init__(
        self,
        *,
        gpus_per_worker: int,
        prefill_gpus_per_worker: int,
        sla: Sla,
        record_per_request: bool,
        speculates: bool = False,
        scales: bool = False,
        samples: bool = False,
        retracts: frozenset[str] = frozenset(),
    ) -> None:
        super().__init__()
        self._speculates = speculates
        self._scales = scales
        askers = [name for name, asks in ((SCALER, scales), (SAMPLER, samples)) if asks]
        self._traffic = {name: TrafficWindow() for name in askers}
        """One window per asker, since each asks at times of its own."""
        self._samples = samples
        self._retracts = retracts
        self._intervals: dict[str, IntervalMetrics] = {}
        """What passes came to since the last sample, by pool."""
        self._operations: list[LifecycleOperation] = []
        self._operation_ordinals: dict[tuple[str, int], int] = {}
        self._decisions: list[DecisionMade] = []
        self._gpus_per_worker = gpus_per_worker
        self._prefill_gpus_per_worker = prefill_gpus_per_worker
        self._sla = sla
        self._record_per_request = record_per_request
        self._requests: list[RequestTimeline] = []
        self._pass_ends: dict[int, array[float]] = {}
        self._slices: list[list[int]] = []
        """Per request: begin and end of every stretch of tokens in its rank's log, in a row; the last may be open."""
        self._committed_prefill_tokens = 0
        self._decode_forwards = 0
        self._accepted_tokens = 0

    @handles(RequestArrived)
    def arrived(self, message: RequestArrived, envelope: Envelope) -> Reply:
        self._requests.append(RequestTimeline(message))
        self._slices.append([])
        for window in self._traffic.values():
            window.arrived()
        return NOTHING

    @handles(RequestRouted)
    def routed(self, message: RequestRouted, envelope: Envelope) -> Reply:
        self._requests[message.ordinal].routing.append(message)
        # Of two pools the one that builds prompts tells how much of them was cached.
        if message.overlap is not None and message.pool != DECODE.label:
            for window in self._traffic.values():
                window.placed(message.overlap.selected_blocks, message.overlap.request_blocks)
        return NOTHING

    @handles(PassOutputs)
    def record(self, message: PassOutputs, envelope: Envelope) -> Reply:
        for admission in message.admissions:
            request = self._requests[admission.ordinal]
            request.admissions.append(admission)
            request.admission_pools.append(message.pool)
        self._committed_prefill_tokens += message.committed_prefill_tokens
        if self._samples:
            self._note_interval(message)
        if message.pool == PREFILL.label:
            # Its tokens are seen by nobody, and what becomes of its requests is for the hand-off actor to tell.
            return NOTHING
        log = self._pass_ends.get(message.scheduler_id)
        if log is None:
            log = self._pass_ends[message.scheduler_id] = array("d")
        slices = self._slices
        for ordinal, tokens in message.bursts:
            slices[ordinal] += (len(log), len(log) + tokens)
            log.extend(message.ends_ms * tokens)
        begin = len(log)
        if not message.bursts:
            log.extend(message.ends_ms)
        end = len(log)
        for ordinal in message.resumed:
            slices[ordinal].append(begin)
        for ordinal in message.paused:
            slices[ordinal].append(begin)
        for terminal in message.terminals:
            if len(slices[terminal.ordinal]) % 2:
                slices[terminal.ordinal].append(end)
            request = self._requests[terminal.ordinal]
            request.terminal_time_ms = message.ends_ms[-1]
            request.status = terminal.status
            request.reason = terminal.reason
            if self._traffic and terminal.status is Status.COMPLETED:
                self._note_completion(request, slices[terminal.ordinal], log)
        for window in self._traffic.values():
            window.decoded(message.decode_forwards, message.accepted_tokens)
        if self._speculates:
            self._decode_forwards += message.decode_forwards
            self._accepted_tokens += message.accepted_tokens
        return NOTHING

    def _note_completion(self, request: RequestTimeline, slices: list[int], log: array[float]) -> None:
        tokens = sum(slices[1::2]) - sum(slices[::2])
        first_ms, last_ms = (log[slices[0]], log[slices[-1] - 1]) if tokens else (math.nan, math.nan)
        arrived = request.arrived
        for window in self._traffic.values():
            window.completed(arrived.input_length, tokens, first_ms, last_ms, arrived.arrival_time_ms)

    def _note_interval(self, outputs: PassOutputs) -> None:
        before = self._intervals.get(outputs.pool, IntervalMetrics())
        self._intervals[outputs.pool] = IntervalMetrics(
            before.cache_hit_tokens + outputs.cache_hit_tokens,
            before.cache_total_tokens + outputs.cache_total_tokens,
            before.preemptions + (0 if outputs.pool in self._retracts else len(outputs.preempted)),
        )

    @handles(TakeTraffic)
    def take_traffic(self, message: TakeTraffic, envelope: Envelope) -> Reply:
        return Reply(outbox=(Outgoing(SCALER, self._traffic[SCALER].take(envelope.at_ms)),))

    @handles(TakeInterval)
    def take_interval(self, message: TakeInterval, envelope: Envelope) -> Reply:
        taken = IntervalTaken(self._traffic[SAMPLER].take(envelope.at_ms), self._intervals)
        self._intervals = {}
        return Reply(outbox=(Outgoing(SAMPLER, taken),))

    @handles(LifecycleOperation)
    def operated(self, message: LifecycleOperation, envelope: Envelope) -> Reply:
        """Note what happened to a pool, with the ordinals of the run instead of those of the pool."""
        pool, ordinals = message.pool, self._operation_ordinals
        ordinals[pool, message.pool_ordinal] = len(self._operations)

        def of_run(ordinal: int | None) -> int | None:
            return None if ordinal is None else ordinals[pool, ordinal]

        transitions = tuple(
            msgspec.structs.replace(transition, origin_operation_ordinal=of_run(transition.origin_operation_ordinal))
            for transition in message.transitions
        )
        self._operations.append(
            msgspec.structs.replace(
                message,
                transitions=transitions,
                origin_operation_ordinal=of_run(message.origin_operation_ordinal),
            )
        )
        return NOTHING

    @handles(DecisionMade)
    def decided(self, message: DecisionMade, envelope: Envelope) -> Reply:
        self._decisions.append(message)
        return NOTHING

    @handles(MilestonesReached)
    def reach(self, message: MilestonesReached, envelope: Envelope) -> Reply:
        self._requests[message.ordinal].milestones.update(message.times_ms)
        return NOTHING

    @handles(RequestEnded)
    def end(self, message: RequestEnded, envelope: Envelope) -> Reply:
        request = self._requests[message.ordinal]
        request.terminal_time_ms = envelope.at_ms
        request.status = message.status
        request.reason = message.reason
        return NOTHING

    @handles(ConcludeRun)
    def conclude(self, message: ConcludeRun, envelope: Envelope) -> Reply:
        figures = RunFigures(
            committed_prefill_tokens=self._committed_prefill_tokens,
            decode_forwards=self._decode_forwards,
            accepted_tokens=self._accepted_tokens,
            worker_seconds=message.worker_seconds,
            gpus_per_worker=self._gpus_per_worker,
            prefill_worker_seconds=message.prefill_worker_seconds,
            prefill_gpus_per_worker=self._prefill_gpus_per_worker,
            wall_time_ms=message.wall_time_ms,
            sla=self._sla,
        )
        report = build_report(
            self._timelines(),
            figures,
            record_per_request=self._record_per_request,
            warnings=list(message.warnings),
            scaling=scaling_report(self._decisions, self._operations) if self._scales else None,
        )
        return Reply(result=report)

    def _timelines(self) -> Timelines:
        offsets: dict[int, int] = {}
        size = 0
        # By rank: which of them tells of its passes first depends on how these are merged.
        logs = dict(sorted(self._pass_ends.items()))
        for rank, log in logs.items():
            offsets[rank] = size
            size += len(log)
        owners, begins, ends = array("q"), array("q"), array("q")
        for index, slices in enumerate(self._slices):
            if slices:
                scheduler_id = next(
                    routed.scheduler_id for routed in self._requests[index].routing if routed.pool != PREFILL.label
                )
                offset = offsets[scheduler_id]
                if len(slices) % 2:
                    slices.append(len(logs[scheduler_id]))
                for begin, end in zip(slices[::2], slices[1::2], strict=True):
                    owners.append(index)
                    begins.append(offset + begin)
                    ends.append(offset + end)
        times_ms = np.concatenate([np.empty(0), *(np.frombuffer(log) for log in logs.values())])
        indices = (np.frombuffer(numbers, dtype=np.int64) for numbers in (owners, begins, ends))
        return Timelines(self._requests, times_ms, *indices)
