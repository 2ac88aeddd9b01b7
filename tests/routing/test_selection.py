"""Costs and draws of the KV router."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from actors.routing.kv.load import Loads
from actors.routing.kv.selection import Chooser, CostModel


def model(**fields: Any) -> CostModel:
    usual = {
        "block_size": 16,
        "overlap_credit": 1.0,
        "credit_decay": 0.0,
        "prefill_scale": 1.0,
        "request_weight": 0.0,
        "track_prefill": True,
        "track_blocks": True,
    }
    return CostModel(**usual | fields)


def loads(*prefill_tokens: int) -> Loads:
    """Ranks with one request of 13 blocks each and so many prompt tokens to build."""
    found = Loads(track_prefill=True, track_blocks=True, shared=True)
    for rank, tokens in enumerate(prefill_tokens):
        found.add_rank(rank)
        found.place(rank, rank, ((1000 * rank, 1000 * rank + 13),), 0, tokens)
    return found


@pytest.mark.parametrize(
    ("fields", "costs"),
    [
        ({}, [34.0, 14.0]),
        ({"overlap_credit": 0.5}, [34.0, 19.0]),
        ({"overlap_credit": 2.0}, [34.0, 13.0]),
        ({"prefill_scale": 0.5}, [28.5, 13.5]),
        ({"request_weight": 3.5}, [37.5, 17.5]),
        ({"track_blocks": False}, [11.0, 1.0]),
        ({"track_prefill": False}, [23.0, 13.0]),
    ],
)
def test_cost_of_a_prompt_of_ten_blocks_and_a_half(fields: dict[str, Any], costs: list[float]) -> None:
    """Rank 1 has all ten cached and active."""
    found = model(**fields).costs([0, 1], 168, {1: 10}, {1: 10}, loads(8, 8))
    assert found == costs


def test_the_credit_fades_as_a_rank_has_more_to_build_than_others() -> None:
    """The example of the specification: 4 blocks more, decay 4, a prompt of 11 blocks."""
    busy, idle = model(credit_decay=4.0).costs([0, 1], 176, {0: 10}, {0: 10}, loads(64, 0))
    credit = 1.0 * (1.0 / (1.0 + 4.0 * (4.0 / 11))) * 10
    assert busy == (64 + 176) / 16 - credit + 13 + 1
    assert idle == 11 + 13 + 11


def test_without_temperature_the_first_of_the_lowest_is_taken() -> None:
    assert Chooser(0.0, "0/agg").choose([3.0, 1.0, 1.0]) == 1


def test_draws_follow_the_temperature_and_repeat_with_the_seed() -> None:
    def draws(temperature: float, seed: str = "0/agg") -> list[int]:
        chooser = Chooser(temperature, seed)
        return [chooser.choose([10.0, 20.0]) for _ in range(2000)]

    assert draws(1.0) == draws(1.0)
    assert draws(1.0) != draws(1.0, "1/agg")
    # exp(-1/T) / (1 + exp(-1/T)): 26.9 % of all for T = 1, 45.0 % for T = 5.
    assert Counter(draws(1.0))[1] == pytest.approx(538, abs=60)
    assert Counter(draws(5.0))[1] == pytest.approx(900, abs=70)
    assert set(draws(0.001)) == {0}
    ties = Counter(Chooser(1.0, str(seed)).choose([5.0, 5.0, 5.0]) for seed in range(900))
    assert set(ties) == {0, 1, 2}
    assert min(ties.values()) > 240
