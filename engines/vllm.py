"""The vLLM scheduler of one rank: chunked prefill, prefix caching, preemption by recomputation.

Forming a pass decides everything at once: running requests first, then admissions, then tokens and completions.
Only the visibility of the outputs waits for the end of the pass.
"""

from __future__ import annotations

import sys
from array import array
from collections import deque
from collections.abc import Collection

from engines.block_pool import BlockPool
from engines.decode_run import DecodeRun
from engines.engine import EngineOptions, Pass, RankOutputs
from engines.metrics import forward_pass_metrics
from engines.sequence import Batch, Outcome, Sequence
from engines.timing.durations import Durations
from messages.passes import Admission, Terminal
from messages.requests import Request, Status
from messages.spec import RankSpec


class VllmScheduler:
    """One rank; implements `Engine` for a worker without attention data parallelism.

    Source of the rules: behaviour of the reference's vLLM mode.
    """

    def __init__(self, rank: RankSpec, durations: Durations, options: EngineOptions) -> None:
        self._block_size = rank.tokens_per_block
        self._max_model_len = rank.max_model_len
        self._max_seqs = rank.max_num_seqs or sys.maxsize
        self._budget = rank.max_num_batched_tokens or sys.maxsize
        self._chunked_prefill = rank.enable_chunked_prefill
        self._victim_index = -1 if rank.preemption_mode == "lifo" else 0
        self._durations = durations
        self._options = options
        self._pool = BlockPool(
            rank.num_gpu_blocks,
            prefix_caching=rank.enable_prefix_caching,
            capture_events=options.capture_kv_events and rank.enable_prefix_caching,
        )
        self._waiting: deque[Sequence] = deque()
        self._running: list[Sequence] = []
        self._run: DecodeRun | None = None
        self._outputs = RankOutputs()

    @property
    def has_work(self) -> bool:
        return bool(self._running or self._waiting)

    def submit(self, dp_rank: int, request: Request) -> None:
        self._waiting.append(Sequence(request, self._max_model_len))

    def begin_pass(self, now_ms: float) -> Pass:
        if self._options.merge_passes:
            run = self._plan_run(now_ms)
            if run is not None:
                self._run = run
                return Pass(run.ends_ms, cut_on_submit=run.cut_on_submit)
        return self._form_pass(now_ms)

    def end_pass(self, passes: int) -> tuple[RankOutputs, ...]:
        if self._run is not None:
            self._outputs = self._finish_run(self._run, passes)
            self._run = None
        return (self._outputs,)

    # Forming one pass

    def _form_pass(self, now_ms: float) -> Pass:
        batch = Batch(self._budget)
        self._schedule_running(batch)
        admissions, rejections = self._admit_waiting(batch, now_ms)
        queued = tuple(self._waiting) if self._options.capture_metrics else ()
        prefill_ms = 0.0
        if batch.prefill_count:
            prefill_ms = self._durations.prefill_ms(batch.prefill_count, batch.isl, batch.prefix)

        ready = [sequence for sequence in self._running if sequence.computed == sequence.length]
        finished = [sequence for sequence in ready if sequence.complete]
        terminals = [self._finish(sequence) for sequence in finished]
        if finished:
            ready = [sequence for sequence in ready if not sequence.complete]

        decoding = [s for s in ready if s.generated or not batch.scheduled[s][1]]
        decode_ms = 0.0
        if decoding:
            decode_ms = self._durations.decode_ms(len(decoding), sum(s.prompt_tokens + s.generated for s in decoding))
        end_ms = (now_ms + prefill_ms) + decode_ms

        metrics = None
        if self._options.capture_metrics:
            metrics = forward_pass_metrics(end_ms - now_ms, batch.scheduled, queued)
        first_tokens = tuple(s.ordinal for s in ready if not s.generated)
        for sequence in ready:
            sequence.generated += 1
            if sequence.complete:
                terminals.append(self._finish(sequence))
        if not (batch.scheduled or batch.preemptions or rejections) and not self._running and not self._options.strict:
            rejections = self._reject_impossible_head()
        self._outputs = RankOutputs(
            emitted=tuple(s.ordinal for s in ready),
            first_tokens=first_tokens,
            terminals=(*terminals, *rejections),
            admissions=tuple(admissions),
            committed_prefill_tokens=batch.prefill_tokens,
            preemptions=batch.preemptions,
            kv_events=self._pool.take_events() if self._pool.capture_events else (),
            metrics=metrics,
        )
        has_effect = bool(batch.scheduled or batch.preemptions or rejections)
        return Pass(array("d", (end_ms,)), has_effect=has_effect)

    def _schedule_running(self, batch: Batch) -> None:
        # In fifo mode a victim may stand before the current request. The index is not corrected then, so
        # the next running request is passed over in this pass: that is how the scheduler behaves.
        index = 0
        running = self._running
        while index < len(running) and batch.budget > 0:
            outcome = self._schedule(running[index], batch)
            if outcome is Outcome.SCHEDULED:
                index += 1
            elif outcome is Outcome.BLOCKED:
                return

    def _admit_waiting(self, batch: Batch, now_ms: float) -> tuple[list[Admission], list[Terminal]]:
        admissions: list[Admission] = []
        rejections: list[Terminal] = []
        waiting, running = self._waiting, self._running
        while waiting and not batch.preemptions and len(running) < self._max_seqs:
            head = waiting[0]
            reason = self._never_fits(head)
            if reason is not None:
                rejections.append(self._reject(waiting.popleft(), reason))
                continue
            prefix, reuse, active_reuse = self._reusable(head)
            if self._lacks_blocks(head, active_reuse):
                break
            if self._schedule(head, batch, prefix, reuse) is not Outcome.SCHEDULED:
                break
            waiting.popleft()
            running.append(head)
            admissions.append(Admission(head.ordinal, now_ms, reuse))
            if not batch.scheduled[head][0] and not batch.budget:
                break
        return admissions, rejections

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

    def _reusable(self, sequence: Sequence) -> tuple[list[int], int, int]:
        """(copies, tokens, tokens in referenced copies) of the cached prefix a request may reuse."""
        if not self._pool.prefix_caching:
            return [], 0, 0
        keys = self._pool.match(sequence.known_identities(self._block_size))
        active = self._pool.count_active(keys)
        if sequence.max_output > sequence.generated:
            # At least one token must be computed, or there would be nothing to sample the next one from.
            most = (sequence.length - 1) // self._block_size
            del keys[most:]
            active = min(active, most)
        return keys, len(keys) * self._block_size, active * self._block_size

    def _lacks_blocks(self, sequence: Sequence, active_reuse: int) -> bool:
        needed = -(-sequence.length // self._block_size) - active_reuse // self._block_size
        return needed > self._pool.available

    def _schedule(self, sequence: Sequence, batch: Batch, prefix: Collection[int] = (), reuse: int = 0) -> Outcome:
        """Give a request as many tokens as the budget allows, with the blocks they need."""
        before = sequence.computed + reuse
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
            while not self._pool.acquire(prefix, wanted - len(prefix)):
                if self._preempt(batch) is sequence:
                    return Outcome.PREEMPTED_ITSELF
            sequence.blocks += wanted
            sequence.keys.extend(prefix)
        sequence.computed = after
        self._publish(sequence, before, after)
        batch.add(sequence, used, min(after, sequence.prompt_tokens) - prompt_before, prompt_before)
        return Outcome.SCHEDULED

    def _publish(self, sequence: Sequence, before: int, after: int) -> None:
        """Make the blocks completed by the tokens `before` to `after` - 1 visible to later lookups."""
        first, last = before // self._block_size, after // self._block_size
        if last > first and self._pool.prefix_caching:
            identities = sequence.identities(first, last, self._pool)
            parent = sequence.identities(first - 1, first, self._pool)[0] if first else None
            sequence.keys.extend(self._pool.publish(identities, parent))

    def _preempt(self, batch: Batch) -> Sequence:
        """Take everything from the last (lifo) or first (fifo) running request and put it before the queue."""
        victim = self._running.pop(self._victim_index)
        self._release(victim)
        victim.computed = 0
        victim.preempted = True
        self._waiting.appendleft(victim)
        batch.remove(victim)
        batch.preemptions += 1
        return victim

    def _release(self, sequence: Sequence) -> None:
        self._pool.release(sequence.keys, sequence.blocks - len(sequence.keys))
        sequence.keys = []
        sequence.blocks = 0

    def _finish(self, sequence: Sequence) -> Terminal:
        self._release(sequence)
        self._running.remove(sequence)
        return Terminal(sequence.ordinal, Status.COMPLETED)

    def _reject(self, sequence: Sequence, reason: str) -> Terminal:
        return Terminal(sequence.ordinal, Status.REJECTED, reason)

    def _reject_impossible_head(self) -> list[Terminal]:
        """End the request at the front of the queue of an idle rank, where nothing can help it any more."""
        if not self._waiting:
            return []
        head = self._waiting.popleft()
        reason = self._exceeds_pool(head)
        if reason is None:
            reason = (
                f"a prompt of {head.prompt_tokens} tokens does not fit into one pass of {self._budget} tokens, "
                "and chunked prefill is off"
            )
        return [self._reject(head, reason)]

    # Runs of identical decode passes

    def _plan_run(self, now_ms: float) -> DecodeRun | None:
        """A run of at least two passes in which every running request decodes and nothing else can happen."""
        running = self._running
        if not running or len(running) > self._budget:
            return None
        for sequence in running:
            # A prompt of which one token is left looks the same, but computing that token is prefill.
            if sequence.computed != sequence.prompt_tokens + sequence.generated - 1 or not sequence.generated:
                return None
        seats_full = len(running) >= self._max_seqs
        if self._waiting and not seats_full and not self._head_stays_blocked():
            return None
        cut_on_submit = self._options.capture_metrics or not (self._waiting or seats_full)
        return DecodeRun.plan(
            running, self._pool, self._block_size, self._durations, now_ms, self._options.horizon_ms, cut_on_submit
        )

    def _head_stays_blocked(self) -> bool:
        """Whether the front of the queue cannot be admitted until a running request gives something back.

        During a run blocks are only taken and cached copies only evicted, so what the head lacks it goes on lacking,
        unless a running request could publish a block that the head needs.
        """
        head = self._waiting[0]
        if self._never_fits(head) is not None:
            return False
        if any(len(s.block_ids) > s.prompt_tokens // self._block_size for s in self._running):
            return False
        _, reuse, active_reuse = self._reusable(head)
        if self._lacks_blocks(head, active_reuse):
            return True
        budget = self._budget - len(self._running)
        if not self._chunked_prefill and head.prompt_tokens - reuse > budget:
            return True
        return budget == 0 and head.max_output > head.generated

    def _finish_run(self, run: DecodeRun, passes: int) -> RankOutputs:
        emitted = tuple(sequence.ordinal for sequence in self._running)
        metrics = run.last_pass_metrics(passes, self._waiting) if self._options.capture_metrics else None
        run.commit(passes)
        terminals: tuple[Terminal, ...] = ()
        if passes == len(run.ends_ms):
            terminals = tuple(self._finish(sequence) for sequence in list(self._running) if sequence.complete)
        return RankOutputs(
            emitted=emitted,
            terminals=terminals,
            kv_events=self._pool.take_events() if self._pool.capture_events else (),
            metrics=metrics,
        )
