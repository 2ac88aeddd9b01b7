"""Loads of ranks against counts of identities."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from actors.routing.kv.load import Loads
from tests.routing.trees import blocks_of, branching_prompts, leading


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize("seed", range(20))
def test_active_blocks_are_those_of_a_plain_count(seed: int, shared: bool) -> None:
    rng = random.Random(seed)
    prompts = branching_prompts(rng, 12)
    loads = Loads(track_prefill=True, track_blocks=True, shared=shared)
    for rank in range(3):
        loads.add_rank(rank)
    active: dict[int, tuple[int, list[int], int, int]] = {}
    for ordinal in range(80):
        if active and rng.random() < 0.45:
            ended = rng.choice(list(active))
            assert loads.end(ended)
            del active[ended]
        chain, own, tokens = rng.choice(prompts), rng.randrange(3), rng.randrange(50)
        rank = rng.randrange(3)
        loads.place(ordinal, rank, chain, own, tokens)
        active[ordinal] = (rank, blocks_of(chain), own, tokens)
        if rng.random() < 0.5:
            built = rng.choice(list(active))
            assert loads.prefill_completed(built)
            active[built] = (*active[built][:3], 0)
        looked_for = rng.choice(prompts)
        for rank in range(3):
            mine = [request for request in active.values() if request[0] == rank]
            counts = Counter(block for _, blocks, _, _ in mine for block in blocks)
            distinct = len(counts) if shared else counts.total()
            assert loads.blocks[rank] == distinct + sum(own for _, _, own, _ in mine)
            assert loads.requests[rank] == len(mine)
            assert loads.prefill_tokens[rank] == sum(tokens for _, _, _, tokens in mine)
            known = set(counts) if shared else set()
            assert loads.active_blocks(looked_for).get(rank, 0) == leading(blocks_of(looked_for), known)


def test_what_is_not_tracked_counts_nothing() -> None:
    loads = Loads(track_prefill=False, track_blocks=False, shared=True)
    loads.add_rank(0)
    loads.place(7, 0, ((0, 5),), 2, 100)
    assert (loads.prefill_tokens, loads.blocks, loads.requests) == ({0: 0}, {0: 0}, {0: 1})
    assert loads.active_blocks(((0, 5),)) == {}
    assert loads.end(7)
    assert not loads.end(7)
    assert not loads.prefill_completed(7)


def test_a_rank_that_is_gone_takes_its_requests_along() -> None:
    loads = Loads(track_prefill=True, track_blocks=True, shared=True)
    loads.add_rank(0)
    loads.add_rank(1)
    loads.place(1, 0, ((0, 5),), 0, 10)
    loads.place(2, 1, ((0, 3),), 0, 10)
    loads.forget(0)
    assert loads.active_blocks(((0, 5),)) == {1: 3}
    assert (loads.blocks, loads.end(1)) == ({1: 3}, False)
