"""The SGLang scheduler of one rank: prefill and decode in separate passes, a radix cache, decode retraction.

Forming a pass decides everything at once; only the visibility of the outputs waits for its end. A pass is a prefill
pass if anybody can be admitted, otherwise all that run decode.

Running requests are members of a `LockstepBatch`, which decodes as a whole, or in a list, one by one: where a pass has
to retract, with speculation, and without merging. The pages that a member fills are put into the tree when it leaves,
once the node that it extends is its own; before that, in the pass that completes them.
"""

from __future__ import annotations

import heapq
import sys
from collections import deque
from collections.abc import Iterable

import msgspec

from engines.decode_batch import LockstepBatch
from engines.engine import EngineOptions, RankOutputs, RankPass
from engines.metrics import Lengths, forward_pass_metrics, lengths
from engines.radix_lease import RadixLeases, RadixSequence
from engines.sequence import output_limit
from engines.sglang_admission import AdmissionRules, NewTokenRatio
from engines.sglang_queue import LONGEST_SORTED_QUEUE, longest_prefix_first
from engines.speculation import build_sampler
from engines.timing.durations import Durations
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
        self._sorts = rank.sglang.schedule_policy == "lpm" and rank.enable_prefix_caching
        self._sorted_at = -1
        """Version of the tree at which the queue was sorted last, -1 where the queue has changed since."""
        self._waiting: deque[RadixSequence] = deque()
        self._too_long = 0
        """Requests in the queue with a prompt that the model cannot take."""
        self._members: LockstepBatch[RadixSequence] = LockstepBatch(self._page_size)
        self._singles: list[RadixSequence] = []
        """Running requests outside the batch, in order of admission; the batch is empty if there are any."""
        self._due: list[tuple[int, int, RadixSequence]] = []
        """(decode pass, order, member) of the insertions that others can notice, when or in what order they are made."""
        self._due_private: list[tuple[int, int, RadixSequence]] = []
        """The same of first pages of generated tokens: nobody notices, but what the tree looks like then matters."""
        self._silent: list[RadixSequence] = []
        """Running requests that emitted nothing in the last pass."""
        self._rounds = 0
        """Passes to come that must not prefill."""
        self._decoded = False
        """Whether the pass that is being formed has requests that decode."""
        self._next_order = 0
        self._run: RankPass | None = None
        self._outputs = RankOutputs()

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._singles or self._members)

    def submit(self, request: Request) -> None:
        limit = output_limit(self._rank, request.input_tokens, request.output_tokens)
        sequence = RadixSequence(request, limit, self._cache.root)
        self._too_long += self._is_too_long(sequence)
        self._waiting.append(sequence)
        self._sorted_at = -1

    def begin_pass(self, now_ms: float, wave: int) -> RankPass:
        if wave == 0 and self._rounds:
            # When the worker had nothing left to do, the remaining rounds passed at once, without any work.
            self._rounds = 0
            self._ratio.reset()
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
        return self._outputs

    # One pass

    def _form_pass(self, now_ms: float) -> RankPass:
        rejections = self._reject_too_long()
        self._sort_queue()
        chunks = self._admit() if not self._rounds else []
        if chunks:
            return self._prefill(now_ms, chunks, rejections)
        return self._decode(now_ms, rejections)

    def _is_too_long(self, sequence: RadixSequence) -> bool:
        most = self._rank.max_model_len
        return most is not None and sequence.prompt_tokens >= most

    def _reject_too_long(self) -> list[Terminal]:
        if not self._too_long:
            return []
        self._too_long = 0
        rejected = [sequence for sequence in self._waiting if self._is_too_long(sequence)]
        self._waiting = deque(sequence for sequence in self._waiting if not self._is_too_long(sequence))
        self._sorted_at = -1
        most = self._rank.max_model_len
        return [
            _rejection(sequence, f"a prompt of {sequence.prompt_tokens} tokens is not below max_model_len {most}")
            for sequence in rejected
        ]

    def _sort_queue(self) -> None:
        if not self._sorts or self._sorted_at == self._cache.version or len(self._waiting) > LONGEST_SORTED_QUEUE:
            return
        if len(self._waiting) > 1:
            self._waiting = deque(longest_prefix_first(self._waiting, self._page_size, self._leases.resident))
        self._sorted_at = self._cache.version

    def _reusable(self, sequence: RadixSequence) -> int:
        """Cached pages that a request without any may reuse: at least one token is computed if any is to follow."""
        most = sequence.length - (1 if sequence.limit else 0)
        return min(self._leases.resident(sequence), most // self._page_size)

    def _admit(self) -> list[_Chunk]:
        chunks: list[_Chunk] = []
        running = len(self._members) + len(self._singles)
        if not self._waiting or running >= self._max_running:
            return chunks
        rules = self._rules
        tokens_left = rules.left_by(self._cache.available, self._remaining(), self._ratio.value)
        input_left, chunk_left = rules.max_prefill_tokens, rules.chunk_tokens
        while self._waiting and running + len(chunks) < self._max_running and chunk_left > 0:
            head = self._waiting[0]
            fresh = not head.computed
            prefix = self._reusable(head) if fresh else 0
            start = prefix * self._page_size if fresh else head.computed
            demand = rules.demand(head.length - start, head.remaining, chunk_left)
            if demand is None or demand.charge + demand.reserved >= tokens_left or demand.charge > input_left:
                break
            end = start + demand.tokens
            if not (self._leases.acquire(head, prefix, end) if fresh else self._leases.extend(head, end)):
                break
            self._waiting.popleft()
            self._sorted_at = -1
            chunks.append(_Chunk(head, start, end, fresh))
            tokens_left -= demand.charge + demand.reserved
            input_left -= demand.charge
            chunk_left -= demand.charge
        return chunks

    def _remaining(self) -> list[int]:
        """Tokens that each running request is still to generate, in order of admission."""
        if self._singles:
            return [sequence.remaining for sequence in self._singles]
        passes = self._members.passes
        return [sequence.finish - passes for sequence in self._members.members()]

    def _prefill(self, now_ms: float, chunks: list[_Chunk], rejections: list[Terminal]) -> RankPass:
        isl = sum([chunk.end for chunk in chunks])
        prefix = sum([chunk.start for chunk in chunks])
        end_ms = now_ms + self._durations.prefill_ms(len(chunks), isl, prefix)
        admissions = tuple([Admission(c.sequence.ordinal, now_ms, c.start) for c in chunks if c.fresh])
        done: list[RadixSequence] = []
        for chunk in chunks:
            sequence = chunk.sequence
            if sequence.computed < sequence.length:
                self._leases.publish(sequence, sequence.computed, self._cache.stamp())
                self._waiting.appendleft(sequence)
            else:
                done.append(sequence)

        running = self._members.members() or self._singles
        silent = set(self._silent)
        paused = tuple([sequence.ordinal for sequence in running if sequence not in silent])
        empty = [sequence for sequence in done if not sequence.remaining]
        last = [sequence for sequence in done if sequence.remaining == 1]
        going_on = [sequence for sequence in done if sequence.remaining > 1]
        emitting = self._emit_first_tokens(going_on)
        self._silent = [*running, *(going_on if not emitting else ())]
        for sequence in last:
            # The last token of all is never computed: it has no page.
            sequence.generated += 1
        emitting = [*last, *emitting]
        self._join(going_on)
        terminals = [self._complete(sequence) for sequence in (*empty, *last)]
        self._outputs = RankOutputs(
            dp_rank=self._options.dp_rank,
            resumed=_ordinals(emitting) if self._sampler is None else (),
            paused=paused if self._sampler is None else (),
            bursts=tuple([(sequence.ordinal, 1) for sequence in emitting]) if self._sampler is not None else (),
            first_tokens=_ordinals(sequence for sequence in emitting if sequence.generated == 1),
            terminals=(*terminals, *rejections),
            admissions=admissions,
            committed_prefill_tokens=isl - prefix,
            kv_events=self._leases.take_events(),
            metrics=self._metrics(end_ms - now_ms, chunks, Lengths()),
        )
        return RankPass(end_ms, prefilled=isl > prefix, worked=isl > prefix)

    def _emit_first_tokens(self, sequences: list[RadixSequence]) -> list[RadixSequence]:
        """Generate the token after the prompt for all of them, or for none if there are not pages for all."""
        if not self._leases.take(sum(not sequence.computed % self._page_size for sequence in sequences)):
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
            if self._merge_passes:
                self._members.add(sequence)
                self._schedule_insertion(sequence, sequence.computed)
            else:
                self._singles.append(sequence)

    def _complete(self, sequence: RadixSequence) -> Terminal:
        self._leases.complete(sequence)
        return Terminal(sequence.ordinal, Status.COMPLETED)

    def _decode(self, now_ms: float, rejections: list[Terminal]) -> RankPass:
        self._dissolve_batch()
        before = self._singles
        deferred, self._decoded = self._rounds > 0, bool(before)
        decoding = lengths(sequence.length for sequence in before) if self._options.capture_metrics else Lengths()
        victims, needed = self._retract()
        running = self._singles
        if victims:
            generated = sum(sequence.generated for sequence in running)
            self._ratio.estimate(generated, sum(sequence.limit for sequence in running), len(running))
        elif before or not deferred:
            self._ratio.decay()

        stuck = not self._leases.take(needed)
        end_ms = now_ms
        silent = set(self._silent)
        first_tokens: tuple[int, ...] = ()
        bursts: list[tuple[int, int]] = []
        accepted = 0
        completed: list[RadixSequence] = []
        emitting = running if not stuck else []
        if emitting:
            kv_tokens = sum([sequence.length for sequence in running])
            end_ms = now_ms + self._durations.decode_ms(len(running), kv_tokens)
            first_tokens = _ordinals(sequence for sequence in running if not sequence.generated)
            self._cache.decode_passes += 1
            for sequence in running:
                drawn = self._sampler.draw() if self._sampler is not None else 1
                accepted += drawn
                blocks = sequence.blocks
                bursts.append((sequence.ordinal, self._emit(sequence, drawn)))
                needed -= sequence.blocks - blocks
            self._cache.free += needed
            completed = [sequence for sequence in running if sequence.complete]
            self._singles = [sequence for sequence in running if not sequence.complete]
        resumed = _ordinals(sequence for sequence in emitting if sequence in silent)
        gone = [*victims, *(running if stuck else ())]
        paused = _ordinals(sequence for sequence in gone if sequence not in silent)
        terminals = [self._complete(sequence) for sequence in completed]
        self._waiting.extend(victims)
        if victims:
            self._sorted_at = -1
        self._silent = self._singles if stuck else []
        if not (emitting or victims or rejections or deferred or self._options.strict):
            rejections = self._reject_impossible()
        has_effect = bool(emitting or victims or rejections)
        self._outputs = RankOutputs(
            dp_rank=self._options.dp_rank,
            resumed=resumed if self._sampler is None else (),
            paused=paused if self._sampler is None else (),
            bursts=tuple(bursts) if self._sampler is not None else (),
            decode_forwards=len(emitting) if self._sampler is not None else 0,
            accepted_tokens=accepted if self._sampler is not None else 0,
            first_tokens=first_tokens,
            terminals=(*terminals, *rejections),
            preemptions=len(victims),
            kv_events=self._leases.take_events(),
            metrics=self._metrics(end_ms - now_ms, [], decoding),
        )
        self._gather_batch()
        return RankPass(
            end_ms,
            has_effect=has_effect,
            exhausted=not (has_effect or deferred),
            worked=bool(emitting),
            retry=deferred and not has_effect,
        )

    def _retract(self) -> tuple[list[RadixSequence], int]:
        """Take requests back until the others can decode, or only one is left: those with the fewest tokens first.

        Returns (who was taken back, pages that the others need).
        """
        victims: list[RadixSequence] = []
        burst = 1 if self._sampler is None else self._sampler.draft_tokens + 1
        while True:
            needed = sum(
                [
                    -(-(sequence.length + min(burst, sequence.remaining)) // self._page_size) - sequence.blocks
                    for sequence in self._singles
                ]
            )
            if needed <= self._cache.available or len(self._singles) <= 1:
                return victims, needed
            victim = min(self._singles, key=lambda sequence: sequence.generated)
            self._singles.remove(victim)
            self._leases.retract(victim)
            victim.preempted = victim.generated > 0
            victims.append(victim)

    def _emit(self, sequence: RadixSequence, tokens: int) -> int:
        """Generate up to so many tokens of a request, up to its limit; returns how many."""
        tokens = min(tokens, sequence.remaining)
        stamp = self._cache.stamp_of_token(self._cache.decode_passes, sequence.order)
        for _ in range(tokens):
            self._append_token(sequence)
            if not sequence.complete:
                self._leases.publish(sequence, sequence.computed, stamp)
        return tokens

    def _reject_impossible(self) -> list[Terminal]:
        """End the request that keeps the rank from going on, where nothing can help it any more."""
        pages = self._cache.num_pages
        if self._singles:
            (sequence,) = self._singles
            self._singles = []
            self._silent = []
            reason = f"token {sequence.length + 1} of the only running request finds no page: the cache has {pages}"
        elif self._waiting:
            sequence = self._waiting.popleft()
            self._sorted_at = -1
            reason = self._why_impossible(sequence)
        else:
            return []
        self._leases.retract(sequence)
        return [_rejection(sequence, reason)]

    def _why_impossible(self, sequence: RadixSequence) -> str:
        rules = self._rules
        start = sequence.computed or self._reusable(sequence) * self._page_size
        demand = rules.demand(sequence.length - start, sequence.remaining, rules.chunk_tokens)
        if demand is None:
            return f"a chunk of {rules.chunk_tokens} tokens is smaller than a page of {self._page_size}"
        if demand.charge > rules.max_prefill_tokens:
            return f"a chunk of {demand.charge} tokens exceeds max_prefill_tokens {rules.max_prefill_tokens}"
        return (
            f"{demand.charge} tokens to compute and {demand.reserved} reserved for output do not fit the KV cache "
            f"of {self._cache.num_pages * self._page_size} tokens"
        )

    def _metrics(self, wall_time_ms: float, chunks: list[_Chunk], decoding: Lengths) -> ForwardPassMetrics | None:
        if not self._options.capture_metrics:
            return None
        scheduled = {
            chunk.sequence: (chunk.end - chunk.start, chunk.end - chunk.start, chunk.start)
            for chunk in chunks
            if chunk.end > chunk.start
        }
        return forward_pass_metrics(wall_time_ms, scheduled, decoding, self._waiting)

    # The batch, and runs of identical decode passes

    def _schedule_insertion(self, sequence: RadixSequence, computed: int) -> None:
        """Note in which decode pass a member must insert its next page, unless that can wait until it leaves."""
        sequence.due = -1
        leases = self._leases
        # A page of generated tokens is the member's own, and so is the node that ends with it.
        if not leases.prefix_caching or (sequence.published > sequence.shared_blocks and not leases.capture_events):
            return
        overdue = computed // self._page_size > sequence.published
        passes = 1 if overdue else self._page_size - computed % self._page_size
        if passes < sequence.finish - self._members.passes:
            sequence.due = self._cache.decode_passes + passes
            private = sequence.published >= sequence.shared_blocks and not (overdue or leases.capture_events)
            heapq.heappush(self._due_private if private else self._due, (sequence.due, sequence.order, sequence))

    def _decode_members(self, passes: int) -> list[RadixSequence]:
        """Take pages and make insertions pass by pass, in order; returns the members that are complete."""
        members, cache = self._members, self._cache
        before = cache.decode_passes
        due: list[tuple[int, int, RadixSequence]] = []
        for heap in (self._due, self._due_private):
            while heap and heap[0][0] <= before + passes:
                due.append(heapq.heappop(heap))
        due.sort(key=lambda entry: entry[:2])
        taken = 0
        inserted: list[tuple[RadixSequence, int]] = []
        for at, order, sequence in due:
            if at == sequence.due:
                # What goes into the tree can depend on what was evicted before.
                needed = members.blocks_needed(at - before)
                self._leases.take(needed - taken)
                taken = needed
                computed = sequence.computed + members.passes - sequence.joined + at - before
                self._leases.publish(sequence, computed, cache.stamp_of_token(at, order))
                inserted.append((sequence, computed + before + passes - at))
        self._leases.take(members.blocks_needed(passes) - taken)
        cache.decode_passes += passes
        finished = members.advance(passes)
        for sequence, computed in inserted:
            self._schedule_insertion(sequence, computed)
        return finished

    def _leave_batch(self, sequence: RadixSequence) -> None:
        """Make a member a request of its own, with those pages in the tree that it inserted when it generated tokens.

        A last token inserts nothing: that is left to the end of the request.
        """
        self._members.remove(sequence)
        sequence.due = -1
        since_filled = sequence.computed % self._page_size
        if self._members.passes > sequence.joined and (since_filled or not sequence.complete):
            stamp = self._cache.stamp_of_token(self._cache.decode_passes - since_filled, sequence.order)
            self._leases.publish(sequence, sequence.computed, stamp)

    def _dissolve_batch(self) -> None:
        """Have every running request decode by itself."""
        for sequence in self._members.members():
            self._leave_batch(sequence)
            self._singles.append(sequence)

    def _gather_batch(self) -> None:
        if self._merge_passes:
            for sequence in self._singles:
                self._members.add(sequence)
                self._schedule_insertion(sequence, sequence.computed)
            self._singles = []

    def _plan_run(self, now_ms: float) -> RankPass | None:
        """The longest run (in reason) of decode passes in which nobody is admitted or retracted.

        Requests may finish and pages be inserted in the last pass. But for the order of the queue, planning changes
        nothing, so a run can be cut at any boundary.
        """
        members, cache = self._members, self._cache
        count = len(members)
        if not count or self._rounds or self._too_long:
            return None
        passes = min(members.passes_to_finish(), _LONGEST_RUN)
        due = self._due
        while due and due[0][0] != due[0][2].due:
            heapq.heappop(due)
        if due:
            passes = min(passes, due[0][0] - cache.decode_passes)
        passes = members.affordable(passes, cache.available)
        if not passes:
            return None
        self._sort_queue()
        if self._leases.capture_events or (self._sorts and len(self._waiting) > 1):
            # Somebody sees what is evicted, or the queue is sorted by it: only the last pass may evict.
            passes = max(members.affordable(passes, cache.free), 1)
        if self._waiting:
            passes = self._passes_before_admission(passes)
            if not passes:
                return None
        self._decoded = True
        steps_ms = self._durations.decode_run_ms(count, members.kv_tokens, passes)
        blocked = bool(self._waiting) or count >= self._max_running
        cut_on_submit = (
            not blocked or self._sorts or self._options.capture_metrics or self._rank.max_model_len is not None
        )
        return RankPass(now_ms, steps_ms, cut_on_submit=cut_on_submit)

    def _passes_before_admission(self, passes: int) -> int:
        """How many of the next decode passes surely begin without anybody being admitted."""
        if len(self._members) >= self._max_running:
            return passes
        head = self._waiting[0]
        start = head.computed or self._reusable(head) * self._page_size
        length = head.length if not head.computed else head.length - head.computed
        least = self._rules.least_demand(length, head.length - start, head.remaining)
        if least is None:
            return passes
        remaining = self._remaining()
        if self._rules.refuses_always(least, self._cache.available, remaining, self._ratio.least, passes):
            return passes
        available = self._cache.available - self._members.blocks_needed_each(passes)
        return self._rules.passes_refused(least, available, remaining, self._ratio.ahead(passes))

    def _finish_run(self, run: RankPass, passes: int) -> RankOutputs:
        members = self._members
        resumed = _ordinals(self._silent)
        first_tokens = _ordinals(
            sequence for sequence in self._silent if not sequence.generated and sequence.joined == members.passes
        )
        self._silent = []
        metrics = None
        if self._options.capture_metrics:
            assert run.steps_ms is not None
            metrics = self._metrics(float(run.steps_ms[passes - 1]), [], members.lengths_after(passes - 1))
        self._ratio.decay(passes)
        finished = self._decode_members(passes)
        for sequence in finished:
            self._leave_batch(sequence)
        return RankOutputs(
            dp_rank=self._options.dp_rank,
            resumed=resumed,
            first_tokens=first_tokens,
            terminals=tuple([self._complete(sequence) for sequence in finished]),
            kv_events=self._leases.take_events(),
            metrics=metrics,
        )


def _ordinals(sequences: Iterable[RadixSequence]) -> tuple[int, ...]:
    return tuple([sequence.ordinal for sequence in sequences])


def _rejection(sequence: RadixSequence, reason: str) -> Terminal:
    return Terminal(sequence.ordinal, Status.REJECTED, reason)
