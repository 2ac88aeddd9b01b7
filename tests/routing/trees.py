"""Prompts that branch from each other, as spans of block identities."""

from __future__ import annotations

import random

from engines.prompts import TraceBlockIdentities
from messages.requests import Span


def branching_prompts(rng: random.Random, count: int) -> list[tuple[Span, ...]]:
    """Chains of up to ten blocks with many common prefixes."""
    identities = TraceBlockIdentities(1, 1)
    return [
        identities.identities([rng.randrange(2) for _ in range(length)], length)
        for length in (rng.randint(1, 10) for _ in range(count))
    ]


def blocks_of(spans: tuple[Span, ...]) -> list[int]:
    return [identity for start, end in spans for identity in range(start, end)]


def leading(blocks: list[int], known: set[int]) -> int:
    """How many of the first blocks are known."""
    return next((index for index, block in enumerate(blocks) if block not in known), len(blocks))
