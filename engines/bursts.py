"""Bursts of speculative decoding on a block pool: blocks reserved for the longest, tokens generated as drawn."""

from __future__ import annotations

from collections.abc import Iterable

from engines.block_pool import BlockPool
from engines.sequence import Batch, Sequence
from engines.speculation import SpeculativeSampler


class Bursts:
    """What the requests of a pass emitted.

    tokens: (request, tokens). forwards, accepted: requests that computed no prompt token, and the tokens drawn for
        them before their own limits.
    """

    __slots__ = ("accepted", "forwards", "tokens")

    def __init__(self) -> None:
        self.tokens: tuple[tuple[int, int], ...] = ()
        self.forwards = 0
        self.accepted = 0


def burst_blocks(sequences: Iterable[Sequence], longest: int, block_size: int) -> int:
    """Blocks that the requests need beyond theirs for the longest burst that each can emit, up to `longest` tokens."""
    needed = 0
    for sequence in sequences:
        burst = min(longest, sequence.limit - sequence.generated)
        needed += -(-(sequence.length + burst) // block_size) - -(-sequence.length // block_size)
    return needed


def emit_bursts(
    sequences: Iterable[Sequence],
    batch: Batch,
    sampler: SpeculativeSampler,
    pool: BlockPool,
    block_size: int,
    reserved: int,
) -> Bursts:
    """Generate as many tokens for each request as its draft is accepted.

    Blocks come from the `reserved` ones; what is left of them goes back to the pool.
    """
    bursts = Bursts()
    emitted: list[tuple[int, int]] = []
    for sequence in sequences:
        drawn = sampler.draw()
        if not batch.scheduled[sequence][1]:
            bursts.forwards += 1
            bursts.accepted += drawn
        count = min(drawn, sequence.limit - sequence.generated)
        for _ in range(count):
            if pool.prefix_caching:
                sequence.publish(sequence.length // block_size, pool)
            sequence.generated += 1
            if sequence.length > sequence.blocks * block_size:
                sequence.blocks += 1
                reserved -= 1
        sequence.computed = sequence.length - 1
        emitted.append((sequence.ordinal, count))
    pool.release([], reserved)
    bursts.tokens = tuple(emitted)
    return bursts
