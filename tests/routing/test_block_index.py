"""The block index against sets of identities."""

from __future__ import annotations

import random
from array import array

import pytest

from actors.routing.kv.index import BlockIndex
from messages.kv import BlocksRemoved, BlocksStored, EvictionForecast
from tests.routing.trees import blocks_of, branching_prompts, leading


@pytest.mark.parametrize("seed", range(60))
def test_overlaps_are_those_of_plain_sets(seed: int) -> None:
    """Any stretch of any prompt may be stored or removed, holes included; ranks come and go."""
    rng = random.Random(seed)
    prompts = branching_prompts(rng, 12)
    index = BlockIndex(0.0)
    known: dict[int, set[int]] = {rank: set() for rank in range(3)}
    for prompt in prompts:
        index.learn(prompt)
    for event_id in range(80):
        rank = rng.randrange(3)
        if rng.random() < 0.02:
            index.forget(rank)
            known[rank].clear()
        spans = rng.choice(prompts)
        # Stretches may reach over the border of two lines that follow one another.
        start, end = spans[0][0] if rng.random() < 0.5 else rng.choice(spans)[0], rng.choice(spans)[1]
        if rng.random() < 0.5:
            start = rng.randint(start, max(start, end - 1))
        if start >= end:
            continue
        span = (start, end)
        if rng.random() < 0.6:
            index.observe(rank, 1, [BlocksStored(event_id, None, (span,))], 1.0)
            known[rank].update(range(*span))
        else:
            index.observe(rank, 1, [BlocksRemoved(event_id, (span,))], 1.0)
            known[rank].difference_update(range(*span))
        chain = rng.choice(prompts)
        found = index.overlaps(chain, 1.0)
        expected = {rank: leading(blocks_of(chain), blocks) for rank, blocks in known.items()}
        assert found == {rank: count for rank, count in expected.items() if count}


CHAIN = ((0, 6),)


def stored(lag_ms: float = 0.0) -> BlockIndex:
    """An index in which rank 3 has six blocks since 1 ms."""
    index = BlockIndex(lag_ms)
    index.learn(CHAIN)
    index.observe(3, 1, [BlocksStored(0, None, CHAIN)], 1.0)
    return index


def forecast() -> EvictionForecast:
    """A run from 2 ms on that evicts the last three blocks, one of them between two that stay in another copy."""
    evictions = ((1, (5, 6)), (1, None), (2, (3, 5)))
    return EvictionForecast(3, 0, array("d", (3.0, 4.0, 5.0, 6.0)), array("q", (1, 1, 3, 4)), evictions)


def test_a_forecast_comes_true_pass_by_pass() -> None:
    index = stored()
    index.foresee(3, forecast())
    assert [index.overlaps(CHAIN, at_ms).get(3) for at_ms in (2.9, 3.0, 4.9, 5.0, 5.9, 6.0, 9.0)] == [
        6,
        5,
        5,
        4,
        4,
        3,
        3,
    ]


def test_a_run_that_was_cut_evicts_no_more() -> None:
    index = stored()
    index.foresee(3, forecast())
    assert index.overlaps(CHAIN, 4.0) == {3: 5}
    index.observe(3, 3, [BlocksRemoved(1, ((5, 6), (4, 5)))], 5.0)
    assert index.overlaps(CHAIN, 9.0) == {3: 4}
    index.observe(3, 1, [BlocksStored(2, 3, ((4, 6),))], 9.0)
    assert index.overlaps(CHAIN, 9.0) == {3: 6}


def test_events_and_forecasts_are_due_after_the_lag() -> None:
    index = stored(10.0)
    index.foresee(3, forecast())
    index.observe(3, 2, [BlocksRemoved(1, ((5, 6),))], 4.0)
    index.observe(3, 1, [BlocksStored(2, 4, ((5, 6),))], 4.5)
    found = [index.overlaps(CHAIN, at_ms).get(3) for at_ms in (10.9, 11.0, 12.9, 13.0, 14.4, 14.5, 20.0)]
    assert found == [None, 6, 6, 5, 5, 6, 6]
