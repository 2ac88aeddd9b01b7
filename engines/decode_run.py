"""A run of identical decode passes: planned at once, applied for as many passes as really happen."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable

import numpy as np

from engines.block_pool import BlockPool
from engines.metrics import forward_pass_metrics
from engines.sequence import Sequence
from engines.timing.durations import Durations
from messages.passes import ForwardPassMetrics

_LONGEST_RUN = 4096
"""Passes; most runs are cut much earlier, and planning costs time per pass."""


class DecodeRun:
    """Passes in which every running request emits one token and nothing is admitted, preempted or finished.

    Requests may finish in the last pass. Planning changes nothing, so a run can be cut at any boundary: `commit`
    applies the passes that took place.

    Attributes:
        ends_ms: end time of each pass.
        cut_on_submit: see `engines.engine.Pass`.
    """

    def __init__(
        self,
        sequences: tuple[Sequence, ...],
        pool: BlockPool,
        block_size: int,
        start_ms: float,
        ends_ms: array[float],
        cut_on_submit: bool,
    ) -> None:
        self._sequences = sequences
        self._pool = pool
        self._block_size = block_size
        self._start_ms = start_ms
        self.ends_ms = ends_ms
        self.cut_on_submit = cut_on_submit

    @classmethod
    def plan(
        cls,
        sequences: Iterable[Sequence],
        pool: BlockPool,
        block_size: int,
        durations: Durations,
        now_ms: float,
        horizon_ms: float | None,
        cut_on_submit: bool,
    ) -> DecodeRun | None:
        """The longest run (in reason) of at least two passes from `now_ms`, or None.

        Every sequence must have computed all its known tokens but the last. Ends are sums from left to right, as
        stepping would add them.
        """
        batch = tuple(sequences)
        passes = min(_LONGEST_RUN, min(sequence.limit - sequence.generated for sequence in batch))
        passes = _affordable(batch, pool, block_size, passes)
        if passes < 2:
            return None
        kv_tokens = sum(sequence.prompt_tokens + sequence.generated for sequence in batch)
        steps = durations.decode_run_ms(len(batch), kv_tokens, passes)
        ends = np.empty(passes + 1)
        ends[0] = now_ms
        ends[1:] = steps
        ends_ms = array("d", np.add.accumulate(ends)[1:].tobytes())
        if horizon_ms is not None and ends_ms[-1] > horizon_ms:
            passes = bisect_right(ends_ms, horizon_ms)
            if passes < 2:
                return None
            ends_ms = ends_ms[:passes]
        return cls(batch, pool, block_size, now_ms, ends_ms, cut_on_submit)

    def commit(self, passes: int) -> None:
        """Apply the first `passes` passes: blocks taken and published, tokens generated."""
        size, pool = self._block_size, self._pool
        pool.acquire((), sum(_new_blocks(sequence, passes, size) for sequence in self._sequences))
        completed: list[tuple[int, int, Sequence, int]] = []
        for order, sequence in enumerate(self._sequences):
            first, last = sequence.computed // size, (sequence.computed + passes) // size
            if pool.prefix_caching:
                completed += (
                    ((block + 1) * size - sequence.computed, order, sequence, block) for block in range(first, last)
                )
            sequence.blocks += _new_blocks(sequence, passes, size)
            sequence.computed += passes
            sequence.generated += passes
        # Blocks become visible pass by pass, within a pass in running order.
        completed.sort(key=lambda entry: entry[:2])
        for _, _, sequence, block in completed:
            identities = sequence.identities(block, block + 1, pool)
            parent = sequence.identities(block - 1, block, pool)[0] if block else None
            sequence.keys.extend(pool.publish(identities, parent))

    def last_pass_metrics(self, passes: int, queued: Iterable[Sequence]) -> ForwardPassMetrics:
        """The row of pass number `passes`, before `commit`."""
        start_ms = self._start_ms if passes == 1 else self.ends_ms[passes - 2]
        scheduled = {sequence: (1, 0, sequence.prompt_tokens) for sequence in self._sequences}
        for sequence in self._sequences:
            sequence.generated += passes - 1
        row = forward_pass_metrics(self.ends_ms[passes - 1] - start_ms, scheduled, queued)
        for sequence in self._sequences:
            sequence.generated -= passes - 1
        return row


def _new_blocks(sequence: Sequence, passes: int, block_size: int) -> int:
    return -(-(sequence.computed + passes) // block_size) - sequence.blocks


def _affordable(batch: tuple[Sequence, ...], pool: BlockPool, block_size: int, passes: int) -> int:
    """The most passes, up to `passes`, whose blocks the pool can provide without touching what others may look at.

    Evicting is harmless to a run unless somebody sees the order of evictions and publications: a consumer of KV
    events, or a workload whose prompts repeat generated blocks. With events, only the last pass may publish.
    """
    repeats = any(len(s.block_ids) > s.prompt_tokens // block_size for s in batch)
    blocks = pool.free if repeats or pool.capture_events else pool.available
    if pool.capture_events:
        passes = min(passes, *(block_size - sequence.computed % block_size for sequence in batch))
    if sum(_new_blocks(sequence, passes, block_size) for sequence in batch) <= blocks:
        return passes
    low, high = 0, passes
    while high - low > 1:
        middle = (low + high) // 2
        if sum(_new_blocks(sequence, middle, block_size) for sequence in batch) <= blocks:
            low = middle
        else:
            high = middle
    return low
