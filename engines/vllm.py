"""The vLLM scheduler of one rank: chunked prefill, prefix caching, preemption by recomputation.

Forming a pass decides everything at once: running requests first, then admissions, then tokens and completions.
Only the visibility of the outputs waits for the end of the pass.

Running requests are either *members* of the decode batch, which advances as a whole, or *singles*, which are scheduled
one by one: those with an unbuilt prompt, and all of them where a pass may have to preempt, or without merging.
"""

from __future__ import annotations

import sys
from collections import deque

import msgspec

from engines.block_pool import NO_MATCH, BlockPool, Match
from engines.bursts import Bursts, burst_blocks, emit_bursts
from engines.decode_batch import DecodeBatch, planned_evictions
from engines.destinations import Destinations
from engines.engine import EngineOptions, RankOutputs, RankPass, Reservation, Role
from engines.metrics import forward_pass_metrics
from engines.sequence import Batch, Outcome, Sequence, output_limit
from engines.speculation import SpeculativeSampler, build_sampler
from engines.timing.durations import Durations
from engines.timing.sums import NO_DECODE, NO_PREFILL, DecodeSums, PrefillSums
from messages.gauges import Gauges
from messages.passes import Admission, Terminal
from messages.requests import Request, Status
from messages.spec import RankSpec

_LONGEST_RUN = 4096
"""Passes; most runs are cut much earlier, and planning costs time per pass."""
_SCHEDULED = Outcome.SCHEDULED


class VllmScheduler:
    """Implements `RankScheduler`.

    Source of the rules: behaviour of the reference's vLLM mode.
    """

    _computes_last_token = True
    """Whether a prompt that is cached as a whole has its last token computed all the same."""

    def __init__(self, rank: RankSpec, durations: Durations, options: EngineOptions) -> None:
        self._rank = rank
        self._block_size = rank.tokens_per_block
        self._max_model_len = rank.max_model_len
        self._max_seqs = rank.max_num_seqs or sys.maxsize
        self._budget = rank.max_num_batched_tokens or sys.maxsize
        self._chunked_prefill = rank.enable_chunked_prefill
        self._victim_index = -1 if rank.preemption_mode == "lifo" else 0
        self._prefill_interval = rank.prefill_schedule_interval if options.dp_size > 1 else 1
        self._capacity_bound = False
        """Whether the last pass that was free to prefill left requests waiting."""
        self._sampler = build_sampler(rank, options)
        # Speculation draws from a random stream in every pass. And attempts without effect, which happen under
        # strict, count as passes of the group: with merged passes there would be fewer of them.
        counts_attempts = options.strict and self._prefill_interval > 1
        self._merge_passes = options.merge_passes and self._sampler is None and not counts_attempts
        self._durations = durations
        self._options = options
        self._pool = BlockPool(
            rank.num_gpu_blocks,
            prefix_caching=rank.enable_prefix_caching,
            capture_events=options.capture_kv_events and rank.enable_prefix_caching,
        )
        self._waiting: deque[Sequence] = deque()
        self._decoders = DecodeBatch(self._pool, self._block_size)
        self._singles: list[Sequence] = []
        """Running requests outside the decode batch, in order of admission."""
        self._emitting: set[Sequence] = set()
        """Singles that emitted a token in the last pass."""
        # Attributes of an enumeration are slow to reach.
        self._is_source = options.role is Role.PREFILL
        self._is_destination = options.role is Role.DECODE
        self._sources: dict[int, Sequence] = {}
        """Requests whose prompt was built here and whose KV is held until their hand-off is over."""
        self._destinations = Destinations[Sequence]()
        self._next_order = 0
        self._run: RankPass | None = None
        self._opened = False
        """Whether a formed pass comes before the run."""
        self._run_wave, self._run_queue = 0, False
        self._queued: tuple[tuple[Sequence, ...], tuple[Sequence, ...]] = ((), ())
        """Who waits when the run begins, where rows of passes are captured."""
        self._outputs = RankOutputs()
        self._exhausted = False
        """Whether passes from now on would go on for ever without any output."""

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._singles or self._decoders)

    @property
    def _running(self) -> int:
        return len(self._decoders) + len(self._singles)

    def submit(self, request: Request) -> None:
        self._waiting.append(self._new_sequence(request))

    def begin_pass(self, now_ms: float, wave: int) -> RankPass:
        self._opened = False
        self._run = self._plan_run(now_ms, wave)
        return self._run or self._go_on(now_ms, self._form_pass(now_ms, wave), wave)

    def group_formed(self, *, prefilled: bool, worked: bool) -> None:
        pass

    def end_pass(self, passes: int) -> RankOutputs:
        if self._run is None:
            return self._outputs
        run, self._run = self._run, None
        if not self._opened:
            return self._finish_run(run, passes)
        if passes == 1:
            return self._outputs
        return msgspec.structs.replace(self._outputs, terminals=self._finish_run(run, passes - 1).terminals)

    def gauges(self) -> Gauges:
        pool = self._pool
        # The first pass of a run takes blocks when it begins; nobody is admitted in it and nobody finishes.
        taken = self._decoders.blocks_needed(1) if self._run is not None else 0
        handed_over = (*self._destinations.queue, *self._destinations.held)
        return Gauges(
            active_blocks=pool.active + taken,
            inactive_blocks=pool.inactive - max(taken - pool.free, 0),
            total_blocks=pool.num_blocks,
            running_requests=self._running,
            waiting_requests=len(self._waiting) + len(handed_over),
            evicted_blocks=pool.evicted,
        )

    def _new_sequence(self, request: Request) -> Sequence:
        return Sequence(request, request.output_tokens, self._output_limit(request))

    def _output_limit(self, request: Request) -> int:
        return output_limit(self._rank, request.input_tokens, request.output_tokens)

    # One pass

    def _form_pass(self, now_ms: float, wave: int) -> RankPass:
        if not self._decoders_can_advance():
            self._dissolve_decoders()
        batch = Batch(self._budget, defer=self._defers_prefill(wave))
        decoding = self._decoders.lengths_after(0)
        if decoding.count:
            self._decoders.schedule()
            batch.budget -= decoding.count
        self._schedule_singles(batch)
        admissions, rejections = self._admit_waiting(batch, now_ms)
        if not (batch.defer or batch.preempted):
            self._capacity_bound = bool(self._waiting)
        queued = self._queue_now() if self._options.capture_metrics else ((), ())
        # A decode worker rebuilds the prompts of preempted requests at no cost in time.
        prefill = NO_PREFILL if self._is_destination else PrefillSums(batch.prefill_count, batch.isl, batch.prefix)

        built = [single for single in self._singles if single.computed == single.prompt_tokens + single.generated]
        terminals = [self._finish(single) for single in built if single.complete]
        ready = [single for single in built if not single.complete]
        reserved = 0
        if self._sampler is not None:
            ready, reserved, impossible = self._reserve_bursts(ready, batch, self._sampler)
            rejections += impossible
        decode_count, kv_tokens = decoding.count, decoding.total
        for single in ready:
            # A pass that builds a prompt samples its first token along with it, unless it speculates.
            if self._sampler is not None or single.generated or not batch.scheduled[single][1]:
                decode_count += 1
                kv_tokens += single.length
        decode = NO_DECODE if self._is_source else DecodeSums(decode_count, kv_tokens)
        end_ms = self._durations.end_ms(now_ms, prefill, decode)
        metrics, forwards = None, 0
        if self._options.capture_metrics:
            metrics = forward_pass_metrics(end_ms - now_ms, batch.scheduled, decoding, *queued)
            if self._sampler is None:
                forwards = decoding.count + sum(not batch.scheduled[single][1] for single in ready)

        first_tokens = tuple([single.ordinal for single in ready if not single.generated])
        resumed: tuple[int, ...] = ()
        paused: tuple[int, ...] = ()
        bursts = Bursts()
        if self._sampler is not None:
            bursts = emit_bursts(ready, batch, self._sampler, self._pool, self._block_size, reserved)
            terminals += [self._finish(single) for single in ready if single.complete]
        else:
            resumed, paused = self._changes_of_emission(ready)
            if decoding.count:
                terminals += [self._finish(sequence) for sequence in self._decoders.advance()]
            terminals += self._emit(ready)
        signals: list[int] = []
        if first_tokens and terminals:
            signals = [terminal.ordinal for terminal in terminals] + list(first_tokens)
            places = {single.ordinal: place for place, single in enumerate(ready)}
            # Who decodes as a member, or ends without a token, comes before all others.
            signals = sorted(dict.fromkeys(signals), key=lambda ordinal: places.get(ordinal, -1))
            signals += [terminal.ordinal for terminal in rejections]
        has_effect = bool(decoding.count or batch.scheduled or batch.preempted or rejections)
        if not (has_effect or self._running or self._options.strict):
            rejections = self._reject_impossible_head()
            has_effect = bool(rejections)
        self._outputs = RankOutputs(
            dp_rank=self._options.dp_rank,
            resumed=resumed,
            paused=paused,
            bursts=bursts.tokens,
            decode_forwards=bursts.forwards or forwards,
            accepted_tokens=bursts.accepted or forwards,
            first_tokens=first_tokens,
            terminals=(*terminals, *rejections),
            signals=tuple(signals),
            admissions=tuple(admissions),
            committed_prefill_tokens=batch.prefill_tokens,
            preempted=tuple(batch.preempted),
            kv_events=self._pool.take_events() if self._pool.capture_events else (),
            metrics=metrics,
        )
        return RankPass(end_ms, has_effect=has_effect, exhausted=self._exhausted)

    def _defers_prefill(self, wave: int) -> bool:
        """Whether this pass leaves prompts alone, as all but every n-th pass of a group do while a rank decodes."""
        if self._prefill_interval == 1 or wave % self._prefill_interval == 0 or self._capacity_bound:
            return False
        return bool(self._decoders) or any(single.prompt_built for single in self._singles)

    def _decoders_can_advance(self) -> bool:
        """Whether the decode batch can go through a pass as a whole: with tokens and blocks for all who run.

        Members must come before all singles in the order of admission, and nobody may have to be preempted.
        """
        members = len(self._decoders)
        if not members:
            return True
        if members > self._budget or (self._singles and self._singles[0].order < self._decoders.newest):
            return False
        needed = self._decoders.blocks_needed(1)
        budget = self._budget - members
        for single in self._singles:
            after = min(single.length, single.computed + budget)
            needed += max(-(-after // self._block_size) - single.blocks, 0)
        return needed <= self._pool.available

    def _dissolve_decoders(self) -> None:
        """Make every running request a single."""
        members = self._decoders.members()
        for sequence in members:
            self._decoders.remove(sequence)
        self._emitting.update(members)
        self._singles = sorted((*members, *self._singles), key=lambda sequence: sequence.order)

    def _schedule_singles(self, batch: Batch) -> None:
        # In fifo mode a victim may stand before the current request. The index is not corrected then, so
        # the next running request is passed over in this pass: that is how the scheduler behaves.
        index = 0
        singles = self._singles
        while index < len(singles) and batch.budget > 0:
            if batch.defer and not singles[index].prompt_built:
                index += 1
                continue
            outcome = self._schedule(singles[index], batch)
            if outcome is _SCHEDULED:
                index += 1
            elif outcome is Outcome.BLOCKED:
                return

    def _admit_waiting(self, batch: Batch, now_ms: float) -> tuple[list[Admission], list[Terminal]]:
        admissions: list[Admission] = []
        rejections: list[Terminal] = []
        waiting = self._waiting
        if self._destinations.queued and not batch.preempted:
            # Nothing may take room that destinations wait for: only those pass whose KV has been handed over.
            for sequence in [waiting for waiting in self._waiting if waiting.blocks]:
                if self._running >= self._max_seqs:
                    break
                self._admit_handed_over(sequence, batch, admissions, now_ms)
                if not batch.budget:
                    break
            return admissions, rejections
        while waiting and not batch.preempted and self._running < self._max_seqs:
            head = waiting[0]
            if head.blocks:
                self._admit_handed_over(head, batch, admissions, now_ms)
                if not batch.budget:
                    break
                continue
            reason = self._never_fits(head)
            if reason is not None:
                rejections.append(self._reject(waiting.popleft(), reason))
                continue
            prefix = self._reusable(head)
            if self._lacks_blocks(head, prefix):
                break
            if batch.defer and head.length - prefix.blocks * self._block_size > 1:
                break
            if self._schedule(head, batch, prefix) is not _SCHEDULED:
                break
            self._admit(head, admissions, now_ms, prefix.blocks)
            if not batch.scheduled[head][0] and not batch.budget:
                break
        return admissions, rejections

    def _admit_handed_over(self, sequence: Sequence, batch: Batch, admissions: list[Admission], now_ms: float) -> None:
        """Let a request run whose KV was handed over: it needs neither room nor tokens."""
        self._schedule(sequence, batch)
        self._admit(sequence, admissions, now_ms, 0)

    def _admit(self, sequence: Sequence, admissions: list[Admission], now_ms: float, reused_blocks: int) -> None:
        self._waiting.remove(sequence)
        self._singles.append(sequence)
        sequence.order = self._next_order
        self._next_order += 1
        admissions.append(Admission(sequence.ordinal, now_ms, reused_blocks * self._block_size))

    def _never_fits(self, sequence: Sequence) -> str | None:
        """Why a request at the front of the queue is rejected, if it is."""
        if self._max_model_len is not None and sequence.prompt_tokens >= self._max_model_len:
            return f"a prompt of {sequence.prompt_tokens} tokens is not below max_model_len {self._max_model_len}"
        if not sequence.preempted:
            return self._exceeds_pool(sequence)
        return None

    def _exceeds_pool(self, sequence: Sequence) -> str | None:
        needed = -(-sequence.length // self._block_size)
        if needed <= self._pool.num_blocks:
            return None
        return f"{sequence.length} tokens need {needed} KV blocks, the cache has {self._pool.num_blocks}"

    def _reusable(self, sequence: Sequence) -> Match:
        """The cached prefix that a request may reuse."""
        if not self._pool.prefix_caching:
            return NO_MATCH
        match = self._pool.match(sequence.known_spans(self._block_size))
        if self._computes_last_token and sequence.max_output > sequence.generated:
            # At least one token must be computed, or there would be nothing to sample the next one from.
            match.shorten((sequence.length - 1) // self._block_size)
            if self._sampler is not None and match.blocks:
                # Speculation gives one more block up.
                match.shorten(match.blocks - 1)
        return match

    def _lacks_blocks(self, sequence: Sequence, prefix: Match) -> bool:
        return -(-sequence.length // self._block_size) - prefix.active > self._pool.available

    def _schedule(self, sequence: Sequence, batch: Batch, prefix: Match = NO_MATCH) -> Outcome:
        """Give a request as many tokens as the budget allows, with the blocks they need."""
        before = sequence.computed + prefix.blocks * self._block_size
        rest = sequence.prompt_tokens + sequence.generated - before
        prompt_before = min(before, sequence.prompt_tokens)
        if not self._chunked_prefill and sequence.prompt_tokens - prompt_before > batch.budget:
            return Outcome.BLOCKED
        used = min(rest, batch.budget)
        if not used and rest:
            return Outcome.BLOCKED
        after = before + used
        wanted = -(-after // self._block_size) - sequence.blocks
        if wanted > 0:
            while (held := self._pool.acquire(prefix, wanted - prefix.blocks)) is None:
                victim = self._preempt(batch)
                if victim is None:
                    return Outcome.BLOCKED
                if victim is sequence:
                    return Outcome.PREEMPTED_ITSELF
            sequence.blocks += wanted
            if held:
                sequence.held = held
                sequence.published = prefix.blocks
        sequence.computed = after
        if self._pool.prefix_caching:
            sequence.publish(after // self._block_size, self._pool)
        batch.add(sequence, used, min(after, sequence.prompt_tokens) - prompt_before, prompt_before)
        return _SCHEDULED

    def _preempt(self, batch: Batch, *, undo: bool = True) -> Sequence | None:
        """Take everything from the last (lifo) or first (fifo) running request and put it before the queue.

        undo: what it was scheduled for in this pass is given back. Returns None where nobody may be preempted.
        """
        victim = self._singles.pop(self._victim_index)
        self._release(victim)
        victim.computed = 0
        victim.preempted = True
        self._waiting.appendleft(victim)
        self._destinations.generation += 1
        if undo:
            batch.remove(victim)
        batch.preempted.append(victim.ordinal)
        return victim

    def _release(self, sequence: Sequence) -> None:
        tail = None
        if self._pool.prefix_caching:
            tail = sequence.private_tail(sequence.computed // self._block_size, self._pool)
        published = sequence.published + (tail[2] - tail[1] if tail is not None else 0)
        self._pool.release(sequence.held, sequence.blocks - published, tail)
        sequence.held = []
        sequence.published = 0
        sequence.blocks = 0

    def _changes_of_emission(self, ready: list[Sequence]) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """(requests that emit in this pass but not in the one before, requests of which the opposite is true)."""
        before = self._emitting
        if not before:
            return tuple([sequence.ordinal for sequence in ready]), ()
        emitting = set(ready)
        resumed = tuple(sequence.ordinal for sequence in ready if sequence not in before)
        paused = tuple(sorted(sequence.ordinal for sequence in before if sequence not in emitting))
        self._emitting = set()
        return resumed, paused

    def _emit(self, ready: list[Sequence]) -> list[Terminal]:
        """Generate a token of each single; those who go on join the decode batch, or remain singles without it."""
        terminals = []
        for sequence in ready:
            sequence.generated += 1
            if sequence.complete:
                terminals.append(self._finish(sequence))
            elif not self._merge_passes:
                self._emitting.add(sequence)
        if self._merge_passes and ready:
            for sequence in ready:
                if not sequence.complete:
                    self._decoders.add(sequence)
            self._singles = [single for single in self._singles if single not in self._decoders]
        return terminals

    def _reserve_bursts(
        self, ready: list[Sequence], batch: Batch, sampler: SpeculativeSampler
    ) -> tuple[list[Sequence], int, list[Terminal]]:
        """Take the blocks that the longest bursts of this pass could need, preempting for them where necessary.

        Returns (who emits, blocks taken, requests that could never get theirs).
        """
        while ready:
            needed = burst_blocks(ready, sampler.draft_tokens + 1, self._block_size)
            if self._pool.acquire(NO_MATCH, needed) is not None:
                return ready, needed, []
            victim = self._preempt(batch, undo=False)
            if victim is None:
                return [], 0, []
            if not self._singles:
                # Alone on the rank: computed anew, it would end up here again and again.
                if self._options.strict:
                    self._exhausted = True
                    return [], 0, []
                self._waiting.popleft()
                tokens = victim.length + min(sampler.draft_tokens + 1, victim.limit - victim.generated)
                reason = f"a burst up to {tokens} tokens does not fit the cache of {self._pool.num_blocks} KV blocks"
                return [], 0, [self._reject(victim, reason)]
            ready = [sequence for sequence in ready if sequence is not victim]
        return [], 0, []

    def _finish(self, sequence: Sequence) -> Terminal:
        if sequence in self._decoders:
            self._decoders.remove(sequence)
        else:
            self._singles.remove(sequence)
        if self._is_source:
            self._sources[sequence.ordinal] = sequence
        else:
            self._release(sequence)
        self._destinations.generation += 1
        return Terminal(sequence.ordinal, Status.COMPLETED)

    def _reject(self, sequence: Sequence, reason: str) -> Terminal:
        self._destinations.generation += 1
        return Terminal(sequence.ordinal, Status.REJECTED, reason)

    def _reject_impossible_head(self) -> list[Terminal]:
        """End the request at the front of the queue of an idle rank, where nothing can help it any more."""
        holds = self._sources or any(self._destinations.held) or any(waiting.blocks for waiting in self._waiting)
        if not self._waiting or holds or self.wants_pass_end:
            return []
        head = self._waiting.popleft()
        reason = self._exceeds_pool(head)
        if reason is None and self._is_destination:
            reason = f"{head.length} tokens find no room beside the requests that wait behind it"
        if reason is None:
            reason = (
                f"a prompt of {head.prompt_tokens} tokens does not fit into one pass of {self._budget} tokens, "
                "and chunked prefill is off"
            )
        return [self._reject(head, reason)]

    # Hand-off, as `SourceRank` and `DestinationRank` describe it

    @property
    def wants_pass_end(self) -> bool:
        return self._running < self._max_seqs and self._destinations.untried() is not None

    @property
    def holds_sources(self) -> bool:
        return bool(self._sources)

    def release_source(self, ordinal: int) -> None:
        sequence = self._sources.pop(ordinal, None)
        if sequence is not None:
            self._release(sequence)

    def reserve(self, request: Request) -> str | None:
        sequence = self._new_sequence(request)
        reason = self._never_fits(sequence)
        if reason is None:
            self._destinations.accept(sequence)
        return reason

    def try_reserve(self) -> Reservation | None:
        head = self._destinations.untried()
        if head is None:
            return None
        head.tried = self._destinations.generation
        if self._running >= self._max_seqs:
            return None
        blocks = -(-head.prompt_tokens // self._block_size)
        prefix = self._destination_prefix(head)
        if prefix is None or (held := self._pool.acquire(prefix, blocks - prefix.blocks)) is None:
            return None
        head.blocks, head.held, head.published = blocks, held, prefix.blocks
        self._destinations.hold()
        return Reservation(head.ordinal, (blocks - prefix.blocks) * self._block_size)

    def activate(self, ordinal: int) -> None:
        sequence = self._destinations.take(ordinal)
        sequence.computed = sequence.prompt_tokens
        if self._pool.prefix_caching:
            sequence.publish(sequence.computed // self._block_size, self._pool)
        index = 0
        while index < len(self._waiting) and self._waiting[index].accepted < sequence.accepted:
            index += 1
        self._waiting.insert(index, sequence)

    def cancel(self, ordinal: int) -> None:
        self._release(self._destinations.take(ordinal))
        self._destinations.generation += 1

    def abandon_head(self) -> RankOutputs | None:
        head = next((waiting for waiting in self._waiting if not waiting.blocks), None)
        if head is None:
            return None
        self._waiting.remove(head)
        self._destinations.generation += 1
        needed = -(-head.length // self._block_size)
        reason = (
            f"{head.length} tokens need {needed} KV blocks, and of {self._pool.num_blocks} only "
            f"{self._pool.available} will ever be free: the pools wait for each other"
        )
        return RankOutputs(self._options.dp_rank, terminals=(Terminal(head.ordinal, Status.FAILED, reason),))

    def _destination_prefix(self, sequence: Sequence) -> Match | None:
        """What the prompt of a destination can share with the cache; None where the rest has no room."""
        if not self._pool.prefix_caching:
            return NO_MATCH
        return self._pool.match(sequence.known_spans(self._block_size))

    # Runs of identical decode passes

    def _plan_run(self, now_ms: float, wave: int) -> RankPass | None:
        """The longest run (in reason) of at least two passes in which all who run decode and nothing else happens.

        Requests may finish in the last pass. Planning changes nothing, so a run can be cut at any boundary.
        """
        decoders, pool = self._decoders, self._pool
        count = len(decoders)
        if not count or self._singles or count > self._budget or self.wants_pass_end:
            return None
        if self._waiting and not self._queue_is_blocked():
            return None
        passes = min(decoders.passes_to_finish(), _LONGEST_RUN)
        if pool.capture_events and decoders.repeats:
            # What is stored becomes visible with the pass that stores it: that must be the last.
            passes = min(passes, decoders.passes_to_publish())
        # Evicting is harmless unless somebody sees in which order blocks are evicted and published.
        passes = decoders.affordable(passes, pool.free if decoders.eager else pool.available)
        if passes < 2:
            return None
        evictions = None
        if pool.capture_events:
            evictions = planned_evictions(self._options.dp_rank, decoders, passes, pool.free, pool.next_evictions)
        steps_ms = self._durations.decode_run_ms(count, decoders.kv_tokens, passes)
        cut_on_submit = self._options.capture_metrics or not self._queue_is_blocked()
        if self._options.capture_metrics:
            self._queued = self._queue_now()
        if self._prefill_interval > 1:
            # Who waits at the start of a pass that is free to prefill matters to later ones.
            cut_on_submit = cut_on_submit or not self._waiting
            self._run_wave, self._run_queue = wave, bool(self._waiting)
        return RankPass(now_ms, steps_ms, cut_on_submit=cut_on_submit, evictions=evictions)

    def _go_on(self, now_ms: float, formed: RankPass, wave: int) -> RankPass:
        """A formed pass together with the run that follows it, if nobody can tell when the outputs of the pass appear.

        Ends matter to everybody. A pass that takes no time ends where it starts, in another phase than a run does.
        """
        outputs, options = self._outputs, self._options
        if not self._merge_passes or outputs.terminals or outputs.preempted or not now_ms < formed.end_ms:
            return formed
        if options.capture_kv_events or options.capture_metrics or self._prefill_interval > 1:
            return formed
        if options.show_first_tokens and outputs.first_tokens:
            return formed
        run = self._plan_run(formed.end_ms, wave)
        if run is None or run.steps_ms is None or not run.steps_ms[0]:
            return formed
        self._run, self._opened = run, True
        return RankPass(formed.end_ms, then_ms=run.steps_ms, cut_on_submit=run.cut_on_submit)

    def _queue_now(self) -> tuple[tuple[Sequence, ...], tuple[Sequence, ...]]:
        """(requests that wait and have their prompt built here, those whose prompt is built elsewhere)."""
        waiting = tuple(self._waiting)
        if self._is_destination:
            return (), (*waiting, *self._destinations.queue, *self._destinations.held)
        return waiting, ()

    def _queue_is_blocked(self) -> bool:
        """Whether nobody can be admitted until a running request gives something back, whoever arrives.

        During a run blocks are only taken and cached copies only evicted, so what the front of the queue lacks it
        goes on lacking, unless a running request could publish a block that it needs.
        """
        if self._running >= self._max_seqs:
            return True
        if not self._waiting:
            return False
        head = self._waiting[0]
        if self._destinations.queued:
            return not any(waiting.blocks for waiting in self._waiting)
        if head.blocks:
            return False
        if self._never_fits(head) is not None or self._decoders.repeats:
            return False
        prefix = self._reusable(head)
        if self._lacks_blocks(head, prefix):
            return True
        budget = self._budget - self._running
        if not self._chunked_prefill and head.prompt_tokens - prefix.blocks * self._block_size > budget:
            return True
        return budget == 0 and head.length > prefix.blocks * self._block_size

    def _finish_run(self, run: RankPass, passes: int) -> RankOutputs:
        decoders = self._decoders
        metrics, forwards = None, 0
        if self._prefill_interval > 1:
            to_free_pass = -self._run_wave % self._prefill_interval
            if self._capacity_bound or passes > to_free_pass:
                self._capacity_bound = self._run_queue
        decoders.schedule(passes)
        if self._options.capture_metrics:
            before_last = decoders.lengths_after(passes - 1)
            assert run.steps_ms is not None
            metrics = forward_pass_metrics(float(run.steps_ms[passes - 1]), {}, before_last, *self._queued)
            forwards = before_last.count * passes
        return RankOutputs(
            dp_rank=self._options.dp_rank,
            decode_forwards=forwards,
            accepted_tokens=forwards,
            terminals=tuple([self._finish(sequence) for sequence in decoders.advance(passes)]),
            kv_events=self._pool.take_events() if self._pool.capture_events else (),
            metrics=metrics,
        )
