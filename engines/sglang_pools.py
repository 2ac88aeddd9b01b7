"""SGLang ranks of a disaggregated cluster: sources of hand-offs build prompts, destinations generate the outputs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import msgspec

from engines.destinations import Destinations
from engines.engine import EngineOptions, RankOutputs, RankPass, Reservation
from engines.radix_lease import RadixSequence
from engines.sglang import SglangScheduler
from engines.timing.durations import Durations
from messages.passes import Admission, Terminal
from messages.requests import Request, Status
from messages.spec import RankSpec

_MOST_ATTEMPTS = 1024
"""So many passes without effect are attempted in a row; under `strict` one more fails the run."""


class _PoolRank(SglangScheduler):
    def abandon_head(self) -> RankOutputs | None:
        """Give up the request at the front of the queue, or else the oldest that runs; it ends as failed."""
        self._dissolve_members()
        if self._waiting:
            sequence = self._waiting.pop()
        elif self._singles:
            sequence = self._singles.pop(0)
        else:
            return None
        self._leases.retract(sequence)
        needed, num_pages = -(-sequence.length // self._page_size), self._cache.num_pages
        reason = (
            f"{sequence.length} tokens need {needed} KV pages, and of {num_pages} only {self._cache.available} "
            "will ever be free: the pools wait for each other"
        )
        return RankOutputs(self._options.dp_rank, terminals=(Terminal(sequence.ordinal, Status.FAILED, reason),))


class SglangSource(_PoolRank):
    """Implements `SourceRank`: what a request holds here at its end it goes on holding until it is released."""

    def __init__(self, rank: RankSpec, durations: Durations, options: EngineOptions) -> None:
        super().__init__(rank, durations, options)
        self._sources: dict[int, RadixSequence] = {}

    @property
    def holds_sources(self) -> bool:
        return bool(self._sources)

    def release_source(self, ordinal: int) -> None:
        sequence = self._sources.pop(ordinal, None)
        if sequence is not None:
            self._leases.complete(sequence)

    def _complete(self, sequence: RadixSequence) -> Terminal:
        self._sources[sequence.ordinal] = sequence
        return Terminal(sequence.ordinal, Status.COMPLETED)

    def _reject_impossible(self) -> list[Terminal]:
        return [] if self._sources else super()._reject_impossible()


class SglangDestination(_PoolRank):
    """Implements `DestinationRank`. Requests that were handed over run before any that has to be computed anew."""

    def __init__(self, rank: RankSpec, durations: Durations, options: EngineOptions) -> None:
        super().__init__(rank, durations, options)
        self._destinations = Destinations[RadixSequence]()
        self._handed_over: deque[RadixSequence] = deque()
        self._attempts = 0
        """Attempts without effect since the last pass."""

    @property
    def has_work(self) -> bool:
        return bool(self._handed_over) or super().has_work

    @property
    def wants_pass_end(self) -> bool:
        return self._destinations.untried() is not None

    def reserve(self, request: Request) -> str | None:
        sequence = self._new_sequence(request)
        most = self._rank.max_model_len
        if most is not None and sequence.prompt_tokens >= most:
            return f"a prompt of {sequence.prompt_tokens} tokens is not below max_model_len {most}"
        pages, num_pages = -(-sequence.prompt_tokens // self._page_size), self._cache.num_pages
        if pages > num_pages:
            return f"a prompt of {sequence.prompt_tokens} tokens needs {pages} KV pages, the cache has {num_pages}"
        self._destinations.accept(sequence)
        return None

    def try_reserve(self) -> Reservation | None:
        head = self._destinations.untried()
        if head is None:
            return None
        head.tried = self._destinations.generation
        prefix = self._leases.resident(head)
        if not self._leases.acquire(head, prefix, head.prompt_tokens):
            return None
        self._destinations.hold()
        return Reservation(head.ordinal, (head.blocks - prefix) * self._page_size)

    def activate(self, ordinal: int) -> None:
        sequence = self._destinations.take(ordinal)
        free = self._cache.free
        self._leases.publish(sequence, sequence.computed, self._cache.stamp())
        if self._cache.free > free:
            # The tree had pages of it already.
            self._destinations.generation += 1
        self._handed_over.append(sequence)

    def cancel(self, ordinal: int) -> None:
        self._leases.retract(self._destinations.take(ordinal))
        self._destinations.generation += 1

    def abandon_head(self) -> RankOutputs | None:
        self._destinations.generation += 1
        return super().abandon_head()

    @property
    def _may_admit(self) -> bool:
        return super()._may_admit and not (self._handed_over or self._destinations.queued)

    def _take_over(self, now_ms: float) -> list[Admission]:
        taken: list[RadixSequence] = []
        while self._handed_over and self._running < self._max_running:
            sequence = self._handed_over.popleft()
            taken.append(sequence)
            if not sequence.remaining:
                # It ends with the next decode pass, which no member of the batch does before it begins.
                self._dissolve_members()
            self._join([sequence])
        self._silent += taken
        return [Admission(sequence.ordinal, now_ms, 0) for sequence in taken]

    def _taken_over_later(self) -> Iterable[RadixSequence]:
        return (*self._handed_over, *self._destinations.queue, *self._destinations.held)

    def _prefill_ms(self, count: int, isl: int, prefix: int) -> float:
        # What is computed anew after a retraction costs no time here.
        return 0.0

    def _complete(self, sequence: RadixSequence) -> Terminal:
        self._destinations.generation += 1
        return super()._complete(sequence)

    def _retract(self) -> tuple[list[RadixSequence], int]:
        victims, needed = super()._retract()
        for victim in victims:
            # Even without a token yet: its prompt was built once.
            victim.preempted = True
        self._destinations.generation += len(victims)
        return victims, needed

    def _reject_impossible(self) -> list[Terminal]:
        if any(self._destinations.held) or self.wants_pass_end:
            return []
        self._destinations.generation += 1
        return super()._reject_impossible()

    def _form_pass(self, now_ms: float) -> RankPass:
        formed = super()._form_pass(now_ms)
        if formed.has_effect:
            self._attempts = 0
            return formed
        self._attempts += 1
        tries_again = self._attempts <= _MOST_ATTEMPTS
        if self._options.strict and (self._running or not tries_again):
            # Whoever runs finds no page, and would be tried again and again.
            return msgspec.structs.replace(formed, exhausted=self._running > 0, out_of_attempts=not tries_again)
        # With less reserved somebody might be admitted: attempts follow each other until the ratio is at its floor.
        falling = tries_again and not (self._running or self._ratio.settled)
        return msgspec.structs.replace(formed, retry=formed.retry or falling)

    def _plan_run(self, now_ms: float) -> RankPass | None:
        if self._handed_over and self._running < self._max_running:
            return None
        return super()._plan_run(now_ms)
