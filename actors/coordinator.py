"""The virtual clock: the only place where time moves and where the order of messages is decided.

Envelopes due later wait in a heap. At each timestamp the phases run in order, round after round, until a round
changes nothing. Within a phase envelopes are released by (key, seq_no), each with all it causes for "now, this phase"
(its cascade) before the next. Idle workers with work hold standing offers, which are taken up in the start phase, the
lowest worker first.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from typing import Any, NamedTuple

import pykka

from messages.envelope import NOTHING, Envelope, Outgoing, Phase, Reply
from messages.errors import LIVELOCK, PolicyError, ReplayError
from messages.passes import AbandonHead, StartPass
from messages.scaling import StartScaling
from messages.telemetry import FinishSampling, StartSampling

_DISAGGREGATED_LIVELOCK = (
    "replay invariant violated: offline disagg replay encountered an effect-free zero-duration pass "
    "with {} in-flight requests remaining"
)
_DEAD_END = "replay invariant violated: offline disagg replay reached a dead end with {} in-flight requests remaining"
_TIMESTAMPS_PER_REPORT = 256
_MOST_IDLE_TICKS = 1000
"""So many scaling ticks in a row with nothing else to do, while requests are left, are taken for endless."""
_KEEPS_ALIVE = [phase not in (Phase.WORKER_READY, Phase.TELEMETRY, Phase.SCALING) for phase in Phase]
"""Whether what is due in a phase keeps a run going that has no request left."""
_START_PASS = StartPass()

Queued = tuple[int, int, str, str, Any]
"""(key, seq_no, sender, receiver, message)"""


class _Provisioned(NamedTuple):
    """A stretch of time with a constant number of workers, and the worker-seconds before it."""

    workers: int
    since_ms: float
    before_s: float

    def seconds(self, now_ms: float) -> float:
        return self.before_s + self.workers * (now_ms - self.since_ms) / 1000.0


class Coordinator:
    """Stamps, orders and delivers every message of a run.

    disaggregated: tells which text a livelock has. gives_up: where requests of two pools wait for each other for ever,
    one after the other is given up until the rest can go on.

    start_worker: called with the address of a pool and the id of a worker that it adds.
    scaler, sampler: addresses of the actors that are told when all that is due at the start has been done; the sampler
    also when the run is over.

    Attributes:
        now_ms: the virtual time.
    """

    def __init__(
        self,
        *,
        disaggregated: bool = False,
        gives_up: bool = False,
        max_sim_time_ms: float | None = None,
        observe: Callable[[Envelope], None] | None = None,
        progress: Callable[[int, float], None] | None = None,
        start_worker: Callable[[str, int], None] | None = None,
        scaler: str | None = None,
        sampler: str | None = None,
    ) -> None:
        self.now_ms = 0.0
        self._start_worker = start_worker
        self._scaler = scaler
        self._sampler = sampler
        self._next_sample: tuple[float, Queued] | None = None
        """The next sample is kept apart from all else, because it is no reason to go on."""
        self._gives_up = gives_up
        self._disaggregated = disaggregated
        self._max_sim_time_ms = max_sim_time_ms
        self._observe = observe
        self._progress = progress
        self._actors: dict[str, pykka.ActorRef[Any]] = {}
        self._later: list[tuple[float, int, int, int, str, str, Any]] = []
        self._alive = 0
        """Envelopes due later that keep the run going."""
        self._due: list[list[Queued]] = [[] for _ in Phase]
        """By phase."""
        self._cascade: deque[Envelope] = deque()
        self._phase = Phase.COMPLETIONS
        self._round = 0
        self._next_seq_no = 0
        self._own_alarm: dict[str, int] = {}
        """The seq_no of the latest envelope due later that an actor sent to itself."""
        self._revoked: set[int] = set()
        self._start_places: dict[str, tuple[Phase, int]] = {}
        """Where a worker's start offer stands: its phase, and its key among the others."""
        self._offers: dict[Phase, dict[int, str]] = {Phase.START_PREFILL: {}, Phase.START: {}}
        self._offer_queues: dict[Phase, list[int]] = {Phase.START_PREFILL: [], Phase.START: []}
        self._phases = [(phase, due, self._offers.get(phase)) for phase, due in zip(Phase, self._due, strict=True)]
        self._arrived = 0
        self._in_flight = 0
        self._provisioned: dict[str, _Provisioned] = {}
        self._interrupted = False

    def interrupt(self) -> None:
        """Have the run end with KeyboardInterrupt before the next message, while no actor is at work."""
        self._interrupted = True

    def register(self, name: str, ref: pykka.ActorRef[Any]) -> None:
        """Make an actor reachable."""
        self._actors[name] = ref

    def expect_offers(self, name: str, phase: Phase, key: int) -> None:
        """A worker may offer to start passes: in this phase, ordered by this key."""
        self._start_places[name] = (phase, key)

    def worker_seconds(self, pool: str) -> float:
        """Provisioned workers of a pool times seconds, up to the clock."""
        provisioned = self._provisioned.get(pool)
        return provisioned.seconds(self.now_ms) if provisioned is not None else 0.0

    def post(self, receiver: str, message: Any, phase: Phase) -> None:
        """Send a message of the system's own, due at the start of the run."""
        heapq.heappush(self._due[phase], (0, self._take_seq_no(), "system", receiver, message))

    def call(self, receiver: str, message: Any) -> Any:
        """Deliver a message of the system's own now, after the run, and return the actor's result."""
        self._round, self._phase = 1, Phase.COMPLETIONS
        return self._release(self._stamp(0, self._take_seq_no(), "system", receiver, message)).result

    def run(self) -> None:
        """Release everything that is due, in order, until nothing is left or the time limit is reached.

        Raises:
            ReplayError: an actor failed, a time was not finite, or requests are left that nothing can end.
        """
        self._process()
        if self._sampler is not None:
            self._sample("system", self._sampler, FinishSampling())

    def _process(self) -> None:
        timestamps = idle_ticks = 0
        self._settle_timestamp()
        if self._sampler is not None:
            self._sample("system", self._sampler, StartSampling())
        if self._scaler is not None:
            self._release(self._stamp(0, self._take_seq_no(), "system", self._scaler, StartScaling()))
            self._release_cascade()
            if any(self._due):
                self._settle_timestamp()
        while True:
            while self._later and self._later[0][3] in self._revoked:
                self._forget_alarm()
            # Ticks and starting workers never prolong a run, and cannot go on for ever without any effect.
            if not self._alive and (not self._in_flight or idle_ticks > _MOST_IDLE_TICKS or not self._later):
                if self._in_flight and self._gives_up and self._give_up_one():
                    continue
                break
            next_ms = self._later[0][0]
            if self._max_sim_time_ms is not None and next_ms > self._max_sim_time_ms:
                return
            self._sample_before(next_ms)
            self.now_ms = next_ms
            idle_ticks = 0 if self._alive else idle_ticks + 1
            while self._later and self._later[0][0] == next_ms:
                if self._later[0][3] in self._revoked:
                    self._forget_alarm()
                    continue
                _, phase, key, seq_no, sender, receiver, message = heapq.heappop(self._later)
                self._alive -= _KEEPS_ALIVE[phase]
                heapq.heappush(self._due[phase], (key, seq_no, sender, receiver, message))
            self._settle_timestamp()
            timestamps += 1
            if self._progress is not None and not timestamps % _TIMESTAMPS_PER_REPORT:
                self._progress(self._arrived - self._in_flight, self.now_ms)
        if self._in_flight:
            stuck = any(self._offers.values())
            raise self._livelock(self._in_flight) if stuck else self._dead_end()
        if self._progress is not None:
            self._progress(self._arrived - self._in_flight, self.now_ms)

    def _sample(self, sender: str, sampler: str, message: Any, seq_no: int | None = None) -> None:
        """Have a sample taken now, outside of any round: no pass is attempted for it."""
        self._round, self._phase = 1, Phase.TELEMETRY
        self._release(self._stamp(0, self._take_seq_no() if seq_no is None else seq_no, sender, sampler, message))
        self._release_cascade()

    def _sample_before(self, next_ms: float) -> None:
        """Have the samples taken that are due before the next event; one due with it is taken in its rounds."""
        while self._next_sample is not None and self._next_sample[0] <= next_ms:
            (at_ms, queued), self._next_sample = self._next_sample, None
            if at_ms == next_ms:
                heapq.heappush(self._due[Phase.TELEMETRY], queued)
                return
            self.now_ms = at_ms
            _, seq_no, sender, receiver, message = queued
            self._sample(sender, receiver, message, seq_no)

    def _livelock(self, on_worker: int) -> ReplayError:
        """The error of passes that go on for ever; for `on_worker` requests, or for all that two pools have."""
        if self._disaggregated:
            return ReplayError(_DISAGGREGATED_LIVELOCK.format(self._in_flight))
        return ReplayError(LIVELOCK.format(on_worker))

    def _dead_end(self) -> ReplayError:
        """The error of requests that wait for a worker where there is none."""
        if self._disaggregated:
            return ReplayError(_DEAD_END.format(self._in_flight))
        return ReplayError(LIVELOCK.format(self._in_flight))

    def _forget_alarm(self) -> None:
        """Drop the next envelope, which was revoked."""
        _, phase, _, seq_no, *_ = heapq.heappop(self._later)
        self._revoked.remove(seq_no)
        self._alive -= _KEEPS_ALIVE[phase]

    def _give_up_one(self) -> bool:
        """Nothing is due any more, but requests are left: have the first worker that waits for room give one up."""
        for offers in self._offers.values():
            for key in sorted(offers):
                self._round, self._phase = 1, Phase.COMPLETIONS
                reply = self._release(self._stamp(0, self._take_seq_no(), "system", offers[key], AbandonHead()))
                if reply.outbox:
                    self._release_cascade()
                    self._settle_timestamp()
                    return True
        return False

    def _settle_timestamp(self) -> None:
        """Repeat the phases at the current time until a whole round changes nothing."""
        self._round = 0
        changed = True
        while changed:
            self._round += 1
            changed = False
            for phase, due, offers in self._phases:
                if offers:
                    self._phase = phase
                    changed |= self._take_up_offers(offers, self._offer_queues[phase])
                while due:
                    self._phase = phase
                    self._release(self._stamp(*heapq.heappop(due)))
                    self._release_cascade()
                    changed = changed or phase is not Phase.TELEMETRY

    def _take_up_offers(self, offers: dict[int, str], queue: list[int]) -> bool:
        """Start passes, the lowest worker first. After an attempt without effect a worker is not asked again here."""
        changed = False
        set_aside: list[int] = []
        while queue:
            key = heapq.heappop(queue)
            receiver = offers[key]
            envelope = self._stamp(key, self._next_seq_no, receiver, receiver, _START_PASS)
            reply = self._ask(envelope)
            if reply.exhausted is not None:
                raise self._livelock(reply.exhausted)
            if not reply.outbox:
                # Without effect: neither numbered nor observed, and the offer stands unless there is no more work.
                if reply.offering:
                    set_aside.append(key)
                else:
                    del offers[key]
                continue
            changed = True
            self._take_seq_no()
            del offers[key]
            self._carry_out(envelope, reply)
            self._release_cascade()
        for key in set_aside:
            heapq.heappush(queue, key)
        return changed

    def _stamp(self, key: int, seq_no: int, sender: str, receiver: str, message: Any) -> Envelope:
        """An envelope that is released now."""
        return Envelope(self.now_ms, self._round, self._phase, key, seq_no, sender, receiver, message)

    def _release_cascade(self) -> None:
        cascade = self._cascade
        while cascade:
            self._release(cascade.popleft())

    def _release(self, envelope: Envelope) -> Reply:
        reply = self._ask(envelope)
        self._carry_out(envelope, reply)
        return reply

    def _ask(self, envelope: Envelope) -> Reply:
        if self._interrupted:
            raise KeyboardInterrupt
        try:
            reply: Reply = self._actors[envelope.receiver].ask(envelope, block=True)
            return reply
        except (ReplayError, PolicyError):
            raise
        except Exception as error:
            kind = type(envelope.message).__name__
            raise ReplayError(
                f"actor {envelope.receiver} failed on {kind} at {envelope.at_ms} ms: {type(error).__name__}: {error}"
            ) from error

    def _carry_out(self, envelope: Envelope, reply: Reply) -> None:
        if self._observe is not None:
            self._observe(envelope)
        if reply is NOTHING:
            return
        actor = envelope.receiver
        if reply.new_workers:
            assert self._start_worker is not None
            for worker_id in reply.new_workers:
                self._start_worker(actor, worker_id)
        if reply.revoke:
            self._revoked.add(self._own_alarm.pop(actor))
        for outgoing in reply.outbox:
            seq_no = self._next_seq_no
            self._next_seq_no = seq_no + 1
            if outgoing.at_ms is not None:
                self._schedule(outgoing.at_ms, seq_no, actor, outgoing)
                continue
            # A cascade keeps the key of its cause: in the start phase it tells whose turn it is.
            self._cascade.append(
                Envelope(
                    envelope.at_ms,
                    envelope.round,
                    envelope.phase,
                    envelope.key,
                    seq_no,
                    actor,
                    outgoing.receiver,
                    outgoing.message,
                )
            )
        if reply.offering:
            phase, key = self._start_places[actor]
            if key not in self._offers[phase]:
                self._offers[phase][key] = actor
                heapq.heappush(self._offer_queues[phase], key)
        if reply.in_flight is not None:
            self._in_flight = reply.in_flight
            self._arrived = reply.arrived
        if reply.live_workers is not None:
            self._provisioned[actor] = _Provisioned(reply.live_workers, self.now_ms, self.worker_seconds(actor))

    def _schedule(self, at_ms: float, seq_no: int, sender: str, outgoing: Outgoing) -> None:
        phase, receiver, message = outgoing.phase, outgoing.receiver, outgoing.message
        if phase is Phase.TELEMETRY and self.now_ms < at_ms < math.inf:
            self._next_sample = at_ms, (outgoing.key, seq_no, sender, receiver, message)
        elif at_ms == self.now_ms:
            heapq.heappush(self._due[phase], (outgoing.key, seq_no, sender, receiver, message))
        elif self.now_ms < at_ms < math.inf:
            heapq.heappush(self._later, (at_ms, phase, outgoing.key, seq_no, sender, receiver, message))
            self._alive += _KEEPS_ALIVE[phase]
            if sender == receiver:
                self._own_alarm[sender] = seq_no
        else:
            kind = type(message).__name__
            raise ReplayError(
                f"actor {sender} sent {kind} for {at_ms} ms at {self.now_ms} ms; times must be finite and not past"
            )

    def _take_seq_no(self) -> int:
        seq_no = self._next_seq_no
        self._next_seq_no = seq_no + 1
        return seq_no
