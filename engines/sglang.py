"""The SGLang scheduler of one rank: prefill and decode in separate passes, a radix cache, decode retraction.

Forming a pass decides everything at once; only the visibility of the outputs waits for its end. A pass is a prefill
pass if anybody can be admitted, otherwise all that run decode.

Running requests are members of a `RadixBatch`, which decodes as a whole, or *singles*, which decode one by one: where a
pass has to retract, with speculation, and without merging.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

import msgspec

from engines.bursts import Bursts, burst_blocks
from engines.decode_batch import planned_evictions
from engines.engine import EngineOptions, RankOutputs, RankPass, Role
from engines.metrics import Lengths, forward_pass_metrics, lengths
from engines.radix_batch import RadixBatch
from engines.radix_lease import RadixLeases, RadixSequence
from engines.sequence import Sequence, output_limit
from engines.sglang_admission import AdmissionRules, NewTokenRatio
from engines.sglang_queue import WaitingQueue
from engines.speculation import build_sampler
from engines.timing.durations import Durations
from messages.gauges import Gauges
from messages.passes import Admission, ForwardPassMetrics, Terminal
from messages.requests import Request, Status
from messages.spec import RankSpec

_LONGEST_RUN = 4096
"""Passes; most runs are cut much earlier, and planning costs time per pass."""


class _Chunk(msgspec.Struct, frozen=True):
    """Tokens `start` to before `end` of a request, computed in one pass. `fresh`: the request had none before."""

    sequence: RadixSequence
    start: int
    end: int
    fresh: bool


class SglangScheduler:
    """Implements `RankScheduler`.

    Source of the rules: behaviour of the reference's SGLang mode.
    """

    def __init__(self, rank: RankSpec, durations: Durations, options: EngineOptions) -> None:
        self._rank = rank
        self._page_size = rank.tokens_per_block
        self._max_running = rank.max_num_seqs or sys.maxsize
        self._interval = rank.prefill_decode_interval
        self._rules = AdmissionRules(rank, options.dp_size)
        self._ratio = NewTokenRatio(self._rules.conservativeness)
        self._sampler = build_sampler(rank, options)
        # Speculation draws from a random stream in every pass.
        self._merge_passes = options.merge_passes and self._sampler is None
        self._durations = durations
        self._options = options
        self._leases = RadixLeases(
            rank.num_gpu_blocks,
            self._page_size,
            prefix_caching=rank.enable_prefix_caching,
            capture_events=options.capture_kv_events,
        )
        self._cache = self._leases.cache
        self._waiting = WaitingQueue(rank, self._leases)
        self._members = RadixBatch(self._leases, self._page_size)
        self._singles: list[RadixSequence] = []
        """Running requests outside the batch, in order of admission; the batch is empty if there are any."""
        self._silent: list[RadixSequence] = []
        """Running requests that emitted nothing in the last pass. What is only attempted is no pass."""
        self._silent_next: list[RadixSequence] = []
        """What they will be once the pass that is being formed has ended."""
        self._rounds = 0
        """Passes to come that must not prefill."""
        self._decoded = False
        """Whether the pass that is being formed has requests that decode."""
        self._queued: tuple[tuple[RadixSequence, ...], tuple[RadixSequence, ...]] = ((), ())
        """Who waits when the run begins, where rows of passes are captured."""
        self._next_order = 0
        self._run: RankPass | None = None
        self._outputs = RankOutputs()

    @property
    def has_work(self) -> bool:
        # Rounds without prefill are gone through even where there is nothing to do.
        return bool(self._waiting or self._singles or self._members or self._rounds)

    def submit(self, request: Request) -> None:
        self._waiting.append(self._new_sequence(request))

    def begin_pass(self, now_ms: float, wave: int) -> RankPass:
        self._run = self._plan_run(now_ms)
        return self._run or self._form_pass(now_ms)

    def group_formed(self, *, prefilled: bool, worked: bool) -> None:
        if self._rounds and not self._decoded and not worked:
            self._ratio.reset()
        self._rounds = self._interval if prefilled else max(self._rounds - 1, 0)
        self._decoded = False

    def end_pass(self, passes: int) -> RankOutputs:
        if self._run is not None:
            self._outputs = self._finish_run(self._run, passes)
            self._run = None
        else:
            self._silent = self._silent_next
        return self._outputs

    def gauges(self) -> Gauges:
        # The first pass of a run takes pages when it begins; nobody is admitted in it and nobody finishes.
        taken = self._members.blocks_needed(1) if self._run is not None else 0
        # Pages that only the tree holds count as active.
        return Gauges(
            active_blocks=self._cache.num_pages - max(self._cache.free - taken, 0),
            inactive_blocks=0,
            total_blocks=self._cache.num_pages,
            running_requests=self._running,
            waiting_requests=len(self._waiting) + len(tuple(self._taken_over_later())),
            evicted_blocks=self._cache.evicted_pages,
        )

    @property
    def _running(self) -> int:
        return len(self._members) + len(self._singles)

    def _new_sequence(self, request: Request) -> RadixSequence:
        limit = output_limit(self._rank, request.input_tokens, request.output_tokens)
        return RadixSequence(request, limit, self._cache.root)

    def _dissolve_members(self) -> None:
        """Make every running request a single."""
        for sequence in self._members.members():
            self._members.leave(sequence)
            self._singles.append(sequence)

    # One pass

    def _form_pass(self, now_ms: float) -> RankPass:
        most = self._rank.max_model_len
        rejections = [
            _rejection(sequence, f"a prompt of {sequence.prompt_tokens} tokens is not below max_model_len {most}")
            for sequence in self._waiting.take_too_long()
        ]
        taken_over = self._take_over(now_ms)
        self._waiting.sort()
        chunks = self._admit() if self._may_admit else []
        if chunks:
            return self._prefill(now_ms, chunks, taken_over, rejections)
        return self._decode(now_ms, taken_over, rejections)

    @property
    def _may_admit(self) -> bool:
        """Whether this pass may be a prefill pass."""
        return not self._rounds

    def _take_over(self, now_ms: float) -> list[Admission]:
        """Let requests run whose prompt was built elsewhere."""
        return []

    def _admit(self) -> list[_Chunk]:
        chunks: list[_Chunk] = []
        waiting, rules = self._waiting, self._rules
        slots = self._max_running - self._running
        if not waiting or slots <= 0:
            return chunks
        tokens_left = rules.left_by(self._cache.available, self._remaining(), self._ratio.value)
        input_left, chunk_left = rules.max_prefill_tokens, rules.chunk_tokens
        while waiting and len(chunks) < slots and chunk_left > 0:
            head = waiting.head
            prefix = self._reusable(head)
            start = head.computed or prefix * self._page_size
            demand = rules.demand(head.length - start, head.remaining, chunk_left)
            if demand is None or demand.charge + demand.reserved >= tokens_left or demand.charge > input_left:
                break
            fresh, end = not head.computed, start + demand.tokens
            if not (self._leases.acquire(head, prefix, end) if fresh else self._leases.extend(head, end)):
                break
            chunks.append(_Chunk(waiting.pop(), start, end, fresh))
            tokens_left -= demand.charge + demand.reserved
            input_left -= demand.charge
            chunk_left -= demand.charge
        return chunks

    def _reusable(self, sequence: RadixSequence) -> int:
        """Cached pages that a waiting request may reuse: none in the middle of its prompt.

        At least one token is computed if any is to follow.
        """
        if sequence.computed:
            return 0
        most = sequence.length - (1 if sequence.limit else 0)
        return min(self._leases.resident(sequence), most // self._page_size)

    def _remaining(self) -> list[int]:
        """Tokens that each running request is still to generate, in order of admission."""
        if self._singles:
            return [sequence.remaining for sequence in self._singles]
        passes = self._members.passes
        return [sequence.finish - passes for sequence in self._members.members()]

    def _prefill(
        self, now_ms: float, chunks: list[_Chunk], taken_over: list[Admission], rejections: list[Terminal]
    ) -> RankPass:
        isl = sum([chunk.end for chunk in chunks])
        prefix = sum([chunk.start for chunk in chunks])
        end_ms = now_ms + self._prefill_ms(len(chunks), isl, prefix)
        admissions = [Admission(chunk.sequence.ordinal, now_ms, chunk.start) for chunk in chunks if chunk.fresh]
        built: list[RadixSequence] = []
        for chunk in chunks:
            sequence = chunk.sequence
            if sequence.computed < sequence.length:
                self._leases.publish(sequence, sequence.computed, self._cache.stamp())
                self._waiting.put_back(sequence)
            else:
                built.append(sequence)

        running = self._members.members() or self._singles
        silent = set(self._silent)
        paused = _ordinals(sequence for sequence in running if sequence not in silent)
        empty = [sequence for sequence in built if not sequence.remaining]
        last = [sequence for sequence in built if sequence.remaining == 1]
        going_on = [sequence for sequence in built if sequence.remaining > 1]
        emitting = self._emit_first_tokens(going_on)
        self._silent_next = [*running, *(going_on if not emitting else ())]
        for sequence in last:
            # The last token of all is never computed: it has no page.
            sequence.generated += 1
        emitting = [*last, *emitting]
        self._join(going_on)
        terminals = [self._complete(sequence) for sequence in (*empty, *last)]
        speculates = self._sampler is not None
        captured = self._options.capture_metrics
        hit = sum([chunk.start for chunk in chunks if chunk.fresh]) if captured else 0
        self._outputs = RankOutputs(
            dp_rank=self._options.dp_rank,
            resumed=() if speculates else _ordinals(emitting),
            paused=() if speculates else paused,
            bursts=tuple([(sequence.ordinal, 1) for sequence in emitting]) if speculates else (),
            first_tokens=_ordinals(sequence for sequence in emitting if sequence.generated == 1),
            terminals=(*terminals, *rejections),
            admissions=(*taken_over, *admissions),
            committed_prefill_tokens=isl - prefix,
            kv_events=self._leases.take_events(),
            metrics=self._metrics(end_ms - now_ms, chunks, Lengths(), self._waiting, self._taken_over_later()),
            cache_hit_tokens=hit,
            cache_total_tokens=hit + isl - prefix if captured else 0,
        )
        return RankPass(end_ms, prefilled=isl > prefix, worked=isl > prefix)

    def _prefill_ms(self, count: int, isl: int, prefix: int) -> float:
        """Duration of a prefill pass."""
        return self._durations.prefill_ms(count, isl, prefix)

    def _emit_first_tokens(self, sequences: list[RadixSequence]) -> list[RadixSequence]:
        """Generate the token after the prompt for all of them, or for none if there are not pages for all."""
        if not self._leases.take(burst_blocks(sequences, 1, self._page_size)):
            return []
        for sequence in sequences:
            self._append_token(sequence)
            self._leases.publish(sequence, sequence.computed, self._cache.stamp())
        return sequences

    def _append_token(self, sequence: RadixSequence) -> None:
        """Generate a token in a page that was taken already."""
        sequence.generated += 1
        sequence.computed += 1
        sequence.blocks = -(-sequence.computed // self._page_size)

    def _join(self, sequences: Iterable[RadixSequence]) -> None:
        """Let requests run."""
        for sequence in sequences:
            sequence.order = self._next_order
            self._next_order += 1
            if self._merge_passes and not self._singles:
                self._members.join(sequence)
            else:
                self._singles.append(sequence)

    def _complete(self, sequence: RadixSequence) -> Terminal:
        self._leases.complete(sequence)
        return Terminal(sequence.ordinal, Status.COMPLETED)

    def _decode(self, now_ms: float, taken_over: list[Admission], rejections: list[Terminal]) -> RankPass:
        self._dissolve_members()
        deferred, self._decoded = self._rounds > 0, bool(self._singles)
        # Only requests that were handed over without any output to generate.
        empty = [sequence for sequence in self._singles if not sequence.remaining]
        if empty:
            self._singles = [sequence for sequence in self._singles if sequence.remaining]
        decoding = Lengths()
        if self._options.capture_metrics:
            decoding = lengths(sequence.length for sequence in self._singles)
        victims, needed = self._retract()
        if victims:
            self._ratio.estimate(self._singles)
        elif self._decoded or not deferred:
            self._ratio.decay()

        silent = set(self._silent)
        gone = victims
        emitting: list[RadixSequence] = []
        if self._leases.take(needed):
            emitting, self._silent_next = self._singles, []
        else:
            gone, self._silent_next = [*victims, *self._singles], self._singles
        end_ms = now_ms
        if emitting:
            kv_tokens = sum([sequence.length for sequence in emitting])
            end_ms = now_ms + self._durations.decode_ms(len(emitting), kv_tokens)
        first_tokens = _ordinals(sequence for sequence in emitting if not sequence.generated)
        resumed = _ordinals(sequence for sequence in emitting if sequence in silent)
        paused = _ordinals(sequence for sequence in gone if sequence not in silent)
        bursts = self._emit(emitting, needed)
        terminals = [self._complete(sequence) for sequence in (*empty, *emitting) if sequence.complete]
        self._singles = [sequence for sequence in self._singles if not sequence.complete]
        for sequence in victims:
            self._waiting.append(sequence)
        has_effect = bool(emitting or empty or taken_over or victims or rejections)
        if not (has_effect or self._options.strict) and (self._singles or not deferred):
            rejections = self._reject_impossible()
            has_effect = bool(rejections)
        speculates = self._sampler is not None
        counts_forwards = speculates or self._options.capture_metrics
        self._outputs = RankOutputs(
            dp_rank=self._options.dp_rank,
            resumed=() if speculates else resumed,
            paused=() if speculates else paused,
            bursts=bursts.tokens if speculates else (),
            decode_forwards=bursts.forwards if counts_forwards else 0,
            accepted_tokens=bursts.accepted if counts_forwards else 0,
            first_tokens=first_tokens,
            terminals=(*terminals, *rejections),
            admissions=tuple(taken_over),
            preempted=_ordinals(victims),
            kv_events=self._leases.take_events(),
            metrics=self._metrics(end_ms - now_ms, [], decoding, self._waiting, self._taken_over_later()),
        )
        if self._merge_passes:
            for sequence in self._singles:
                self._members.join(sequence)
            self._singles = []
        return RankPass(
            end_ms,
            has_effect=has_effect,
            exhausted=not (has_effect or deferred) and self._options.role is Role.AGGREGATED,
            worked=bool(emitting),
            retry=deferred and not has_effect,
        )

    def _retract(self) -> tuple[list[RadixSequence], int]:
        """Take requests back until the others can decode, or only one is left: those with the fewest tokens first.

        Returns (who was taken back, pages that the others need).
        """
        victims: list[RadixSequence] = []
        longest = 1 if self._sampler is None else self._sampler.draft_tokens + 1
        while True:
            needed = burst_blocks(self._singles, longest, self._page_size)
            if needed <= self._cache.available or len(self._singles) <= 1:
                return victims, needed
            victim = min(self._singles, key=lambda sequence: sequence.generated)
            self._singles.remove(victim)
            self._leases.retract(victim)
            victim.preempted = victim.generated > 0
            victims.append(victim)

    def _emit(self, sequences: list[RadixSequence], reserved: int) -> Bursts:
        """Generate a token of each request, or as many as its draft is accepted, in the `reserved` pages."""
        bursts = Bursts()
        if not sequences:
            return bursts
        self._cache.decode_passes += 1
        emitted: list[tuple[int, int]] = []
        for sequence in sequences:
            drawn = self._sampler.draw() if self._sampler is not None else 1
            bursts.forwards += 1
            bursts.accepted += drawn
            count = min(drawn, sequence.remaining)
            stamp = self._cache.stamp_of_token(self._cache.decode_passes, sequence.order)
            reserved += sequence.blocks
            for _ in range(count):
                self._append_token(sequence)
                if not sequence.complete:
                    self._leases.publish(sequence, sequence.computed, stamp)
            reserved -= sequence.blocks
            emitted.append((sequence.ordinal, count))
        self._cache.free += reserved
        bursts.tokens = tuple(emitted)
        return bursts

    def _reject_impossible(self) -> list[Terminal]:
        """End the request that keeps the rank from going on, where nothing can help it any more."""
        pages = self._cache.num_pages
        if self._singles:
            (sequence,) = self._singles
            self._singles, self._silent_next = [], []
            reason = f"token {sequence.length + 1} of the only running request finds no page: the cache has {pages}"
        else:
            start = self._waiting.head.computed or self._reusable(self._waiting.head) * self._page_size
            sequence = self._waiting.pop()
            reason = self._rules.why_refused(sequence.length - start, sequence.remaining, pages)
        self._leases.retract(sequence)
        return [_rejection(sequence, reason)]

    def _metrics(
        self,
        wall_time_ms: float,
        chunks: list[_Chunk],
        decoding: Lengths,
        queued: Iterable[RadixSequence],
        handed_over: Iterable[RadixSequence],
    ) -> ForwardPassMetrics | None:
        if not self._options.capture_metrics:
            return None
        scheduled: dict[Sequence, tuple[int, int, int]] = {
            chunk.sequence: (chunk.end - chunk.start, chunk.end - chunk.start, chunk.start)
            for chunk in chunks
            if chunk.end > chunk.start
        }
        return forward_pass_metrics(wall_time_ms, scheduled, decoding, queued, handed_over)

    def _taken_over_later(self) -> Iterable[RadixSequence]:
        """Requests that are on their way to run here, with a prompt that was built elsewhere."""
        return ()

    # Runs of identical decode passes

    def _plan_run(self, now_ms: float) -> RankPass | None:
        """The longest run (in reason) of decode passes in which nobody is admitted or retracted.

        Requests may finish in the last pass. But for the order of the queue, planning changes nothing, so a run can be
        cut at any boundary.
        """
        members, waiting = self._members, self._waiting
        count = len(members)
        if not count or self._rounds or waiting.too_long:
            return None
        passes = members.passes_to_insertion(min(members.passes_to_finish(), _LONGEST_RUN))
        passes = members.affordable(passes, self._cache.available)
        if not passes:
            return None
        waiting.sort()
        foresees = self._leases.foresees_evictions
        if (self._leases.capture_events and not foresees) or (waiting.sorts and len(waiting) > 1):
            # Somebody sees what is evicted, or the queue is sorted by it: only the last pass may evict.
            passes = max(members.affordable(passes, self._cache.free), 1)
        if waiting and self._may_admit:
            passes = self._passes_before_admission(passes)
            if not passes:
                return None
        if self._options.capture_metrics and passes < 2:
            # Of a pass that is not the last of a run it is known from the beginning what it leaves.
            return None
        self._decoded = True
        if self._options.capture_metrics:
            self._queued = tuple(waiting), tuple(self._taken_over_later())
        blocked = bool(waiting) or count >= self._max_running
        cut_on_submit = (
            not blocked or waiting.sorts or self._options.capture_metrics or self._rank.max_model_len is not None
        )
        steps_ms = self._durations.decode_run_ms(count, members.kv_tokens, passes)
        evictions = None
        if foresees and passes > 1:
            cache = self._cache
            evictions = planned_evictions(self._options.dp_rank, members, passes, cache.free, cache.next_evictions)
        return RankPass(now_ms, steps_ms, cut_on_submit=cut_on_submit, evictions=evictions)

    def _passes_before_admission(self, passes: int) -> int:
        """How many of the next decode passes surely begin without anybody being admitted, up to `passes`."""
        if len(self._members) >= self._max_running:
            return passes
        rules, head = self._rules, self._waiting.head
        rest = head.length - (head.computed or self._reusable(head) * self._page_size)
        least = rules.least_demand(head.length - head.computed, rest, head.remaining)
        if least is None:
            return passes
        remaining = self._remaining()
        if least < rules.left_by(self._cache.available, remaining, self._ratio.value):
            return 0
        available = self._cache.available - self._members.blocks_needed_each(passes)
        return rules.passes_refused(least, available, remaining, self._ratio.ahead(passes))

    def _finish_run(self, run: RankPass, passes: int) -> RankOutputs:
        members = self._members
        resumed, silent = _ordinals(self._silent), self._silent
        self._silent = []
        first_tokens = _ordinals(
            sequence for sequence in silent if not sequence.generated and sequence.joined == members.passes
        )
        metrics, forwards = None, 0
        if self._options.capture_metrics:
            assert run.steps_ms is not None
            before_last = members.lengths_after(passes - 1)
            metrics = self._metrics(float(run.steps_ms[passes - 1]), [], before_last, *self._queued)
            forwards = before_last.count * passes
        self._ratio.decay(passes)
        finished = members.decode(passes)
        for sequence in finished:
            members.leave(sequence)
        return RankOutputs(
            dp_rank=self._options.dp_rank,
            resumed=resumed,
            decode_forwards=forwards,
            accepted_tokens=forwards,
            first_tokens=first_tokens,
            terminals=tuple([self._complete(sequence) for sequence in finished]),
            kv_events=self._leases.take_events(),
            metrics=metrics,
        )


def _ordinals(sequences: Iterable[RadixSequence]) -> tuple[int, ...]:
    return tuple([sequence.ordinal for sequence in sequences])


def _rejection(sequence: RadixSequence, reason: str) -> Terminal:
    return Terminal(sequence.ordinal, Status.REJECTED, reason)
