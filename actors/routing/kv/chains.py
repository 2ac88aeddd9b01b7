"""Prefix walks over the block chains of prompts, for all ranks at once.

A chain is a sequence of spans of block identities. Every span begins where its *line* begins (`engines.prompts`), so
what a rank has of a line's beginning is told by one number: the identity where it ends.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from messages.requests import Span

Extents = Mapping[int, Mapping[int, int]]
"""Line -> rank -> end of the blocks that the rank has from the line's beginning on."""


def leading_blocks(extents: Extents, chain: Sequence[Span]) -> dict[int, int]:
    """How many leading blocks of a chain each rank has; ranks without any are left out."""
    counts: dict[int, int] = {}
    passed = 0
    candidates: Mapping[int, int] | list[int] | None = None
    for line, end in chain:
        held = extents.get(line)
        if not held:
            break
        if candidates is None:
            candidates = held
        complete: list[int] = []
        for rank in candidates:
            extent = held.get(rank)
            if extent is None:
                continue
            if extent >= end:
                counts[rank] = passed + end - line
                complete.append(rank)
            else:
                counts[rank] = passed + extent - line
        if not complete:
            break
        candidates = complete
        passed += end - line
    return counts


def cut_chain(spans: Sequence[Span], blocks: int) -> tuple[tuple[Span, ...], int]:
    """The first `blocks` blocks of a chain, and how many of them it lacks."""
    chain: list[Span] = []
    for line, end in spans:
        if blocks <= 0:
            break
        stop = min(end, line + blocks)
        chain.append((line, stop))
        blocks -= stop - line
    return tuple(chain), blocks
