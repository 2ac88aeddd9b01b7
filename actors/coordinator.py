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
from typing import Any, cast

import pykka

from messages.envelope import NOTHING, Envelope, Outgoing, Phase, Reply
from messages.errors import ReplayError
from messages.passes import StartPass

_LIVELOCK = (
    "replay invariant violated: offline replay detected an effect-free zero-duration pass "
    "with {} in-flight requests remaining"
)
_TIMESTAMPS_PER_REPORT = 256

Queued = tuple[int, int, str, str, Any]
"""(key, seq_no, sender, receiver, message)"""


class Coordinator:
    """Stamps, orders and delivers every message of a run.

    Attributes:
        now_ms: the virtual time.
        worker_seconds: provisioned workers times seconds, up to the clock.
    """

    def __init__(
        self,
        *,
        max_sim_time_ms: float | None = None,
        observe: Callable[[Envelope], None] | None = None,
        progress: Callable[[int, float], None] | None = None,
    ) -> None:
        self.now_ms = 0.0
        self._max_sim_time_ms = max_sim_time_ms
        self._observe = observe
        self._progress = progress
        self._actors: dict[str, pykka.ActorRef[Any]] = {}
        self._later: list[tuple[float, int, int, int, str, str, Any]] = []
        self._due: dict[Phase, list[Queued]] = {phase: [] for phase in Phase}
        self._cascade: deque[Queued] = deque()
        self._phase = Phase.COMPLETIONS
        self._round = 0
        self._next_seq_no = 0
        self._own_alarm: dict[str, int] = {}
        """The seq_no of the latest envelope due later that an actor sent to itself."""
        self._revoked: set[int] = set()
        self._offer_keys: dict[str, int] = {}
        self._offers: dict[int, str] = {}
        self._offer_queue: list[int] = []
        self._arrived = 0
        self._in_flight = 0
        self._live_workers = 0
        self._stretch_start_ms = 0.0
        self._settled_worker_seconds = 0.0
        self._interrupted = False

    def interrupt(self) -> None:
        """Have the run end with KeyboardInterrupt before the next message, while no actor is at work."""
        self._interrupted = True

    def register(self, name: str, ref: pykka.ActorRef[Any], *, offer_key: int | None = None) -> None:
        """Make an actor reachable; `offer_key` orders the start offers of workers."""
        self._actors[name] = ref
        if offer_key is not None:
            self._offer_keys[name] = offer_key

    @property
    def worker_seconds(self) -> float:
        stretch = self._live_workers * (self.now_ms - self._stretch_start_ms) / 1000.0
        return self._settled_worker_seconds + stretch

    def post(self, receiver: str, message: Any, phase: Phase) -> None:
        """Send a message of the system's own, due at the start of the run."""
        heapq.heappush(self._due[phase], (0, self._take_seq_no(), "system", receiver, message))

    def call(self, receiver: str, message: Any) -> Any:
        """Deliver a message of the system's own now, after the run, and return the actor's result."""
        self._round, self._phase = 1, Phase.COMPLETIONS
        queued = (0, self._take_seq_no(), "system", receiver, message)
        return self._release(queued).result

    def run(self) -> None:
        """Release everything that is due, in order, until nothing is left or the time limit is reached.

        Raises:
            ReplayError: an actor failed, a time was not finite, or requests are left that nothing can end.
        """
        timestamps = 0
        self._settle_timestamp()
        while True:
            while self._later and self._later[0][3] in self._revoked:
                self._revoked.remove(heapq.heappop(self._later)[3])
            if not self._later:
                break
            next_ms = self._later[0][0]
            if self._max_sim_time_ms is not None and next_ms > self._max_sim_time_ms:
                return
            self.now_ms = next_ms
            while self._later and self._later[0][0] == next_ms:
                _, phase, key, seq_no, sender, receiver, message = heapq.heappop(self._later)
                if seq_no in self._revoked:
                    self._revoked.remove(seq_no)
                else:
                    heapq.heappush(self._due[Phase(phase)], (key, seq_no, sender, receiver, message))
            self._settle_timestamp()
            timestamps += 1
            if self._progress is not None and not timestamps % _TIMESTAMPS_PER_REPORT:
                self._progress(self._arrived - self._in_flight, self.now_ms)
        if self._in_flight:
            raise ReplayError(_LIVELOCK.format(self._in_flight))
        if self._progress is not None:
            self._progress(self._arrived - self._in_flight, self.now_ms)

    def _settle_timestamp(self) -> None:
        """Repeat the phases at the current time until a whole round changes nothing.

        A round with nothing to release and nobody to ask is not run: it would change nothing.
        """
        self._round = 0
        changed = True
        while changed and (self._offers or any(self._due.values())):
            self._round += 1
            changed = False
            for phase, due in self._due.items():
                self._phase = phase
                if phase is Phase.START and self._offers:
                    changed |= self._take_up_offers()
                while due:
                    self._release(heapq.heappop(due))
                    while self._cascade:
                        self._release(self._cascade.popleft())
                    changed = True

    def _take_up_offers(self) -> bool:
        """Start passes, the lowest worker first. After an attempt without effect a worker is not asked again here."""
        changed = False
        set_aside: list[int] = []
        while self._offer_queue:
            key = heapq.heappop(self._offer_queue)
            receiver = self._offers[key]
            envelope = Envelope(
                self.now_ms, self._round, self._phase, key, self._next_seq_no, receiver, receiver, StartPass()
            )
            reply = self._ask(envelope)
            if reply.exhausted is not None:
                raise ReplayError(_LIVELOCK.format(reply.exhausted))
            if not reply.outbox:
                # Without effect: neither numbered nor observed, and the offer stands unless there is no more work.
                if reply.offering:
                    set_aside.append(key)
                else:
                    del self._offers[key]
                continue
            changed = True
            self._take_seq_no()
            del self._offers[key]
            self._carry_out(envelope, reply)
            while self._cascade:
                self._release(self._cascade.popleft())
        for key in set_aside:
            heapq.heappush(self._offer_queue, key)
        return changed

    def _release(self, queued: Queued) -> Reply:
        key, seq_no, sender, receiver, message = queued
        envelope = Envelope(self.now_ms, self._round, self._phase, key, seq_no, sender, receiver, message)
        reply = self._ask(envelope)
        self._carry_out(envelope, reply)
        return reply

    def _ask(self, envelope: Envelope) -> Reply:
        if self._interrupted:
            raise KeyboardInterrupt
        try:
            return cast("Reply", self._actors[envelope.receiver].ask(envelope))
        except ReplayError:
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
        if reply.revoke:
            self._revoked.add(self._own_alarm.pop(actor))
        for outgoing in reply.outbox:
            self._send(envelope, outgoing)
        if reply.offering and (key := self._offer_keys[actor]) not in self._offers:
            self._offers[key] = actor
            heapq.heappush(self._offer_queue, key)
        if reply.in_flight is not None:
            self._in_flight = reply.in_flight
            self._arrived = reply.arrived
        if reply.live_workers is not None:
            self._settled_worker_seconds = self.worker_seconds
            self._stretch_start_ms = self.now_ms
            self._live_workers = reply.live_workers

    def _send(self, cause: Envelope, outgoing: Outgoing) -> None:
        seq_no = self._take_seq_no()
        sender = cause.receiver
        at_ms, phase, receiver, message = outgoing.at_ms, outgoing.phase, outgoing.receiver, outgoing.message
        if at_ms is None or (at_ms == self.now_ms and phase is self._phase):
            # A cascade keeps the key of its cause: in the start phase it tells whose turn it is.
            self._cascade.append((cause.key, seq_no, sender, receiver, message))
        elif at_ms > self.now_ms and at_ms < math.inf:
            heapq.heappush(self._later, (at_ms, int(phase), outgoing.key, seq_no, sender, receiver, message))
            if sender == receiver:
                self._own_alarm[sender] = seq_no
        elif at_ms == self.now_ms:
            heapq.heappush(self._due[phase], (outgoing.key, seq_no, sender, receiver, message))
        else:
            kind = type(message).__name__
            raise ReplayError(
                f"actor {sender} sent {kind} for {at_ms} ms at {self.now_ms} ms; times must be finite and not past"
            )

    def _take_seq_no(self) -> int:
        seq_no = self._next_seq_no
        self._next_seq_no = seq_no + 1
        return seq_no
