"""Speculative decoding: the random stream's golden values, and bursts through a whole run."""

from __future__ import annotations

import pytest

from actors import replay
from engines.speculation import SpeculativeSampler
from messages.errors import ReplayError
from tests.scenario import cluster


@pytest.mark.parametrize(
    ("rates", "seed", "expected"),
    [
        ((0.85, 0.3), 42, [2, 2, 2, 2, 3, 1, 2, 2, 3, 3, 2, 2, 2, 2, 2, 2, 1, 1, 1, 3]),
        ((0.5, 0.9), 7, [3, 3, 2, 3, 3, 1, 3, 3, 1, 1, 1, 1, 1, 3]),
    ],
)
def test_accepted_lengths_are_those_of_the_reference(rates: tuple[float, ...], seed: int, expected: list[int]) -> None:
    sampler = SpeculativeSampler(2, rates, seed)
    assert [sampler.draw() for _ in expected] == expected


def test_a_rate_of_one_needs_no_draw_and_a_missing_rate_accepts_nothing() -> None:
    assert [SpeculativeSampler(3, (1.0, 1.0, 1.0), 1).draw() for _ in range(3)] == [4, 4, 4]
    assert SpeculativeSampler(3, (1.0,), 1).draw() == 2


def test_a_burst_ends_with_its_request_and_counts_as_drawn() -> None:
    spec = cluster((0.0, 8, 6), aic_nextn=3, aic_nextn_accept_rates="1,1,1")
    report = replay(spec)
    assert report.requests is not None
    (record,) = report.requests
    # The pass that builds the prompt speculates as well: it pays for both parts and emits four tokens.
    assert (record.first_token_ms, record.last_token_ms, record.output_length) == (11.0, 12.0, 6)
    assert record.ttst_ms == 0.0
    assert (report.summary["accept_length_forward_count"], report.summary["avg_accept_length"]) == (1, 4.0)
    assert (report.summary["min_itl_ms"], report.summary["num_itl_samples"]) == (0.0, 5)


def test_a_burst_that_can_never_fit_ends_its_request_or_the_strict_run() -> None:
    spec = cluster((0.0, 28, 9), (1.0, 8, 1), blocks=7, aic_nextn=2)
    report = replay(spec)
    assert report.requests is not None
    stuck, other = report.requests
    assert (stuck.terminal_status, other.terminal_status) == ("rejected", "completed")
    assert stuck.terminal_reason == "a burst up to 31 tokens does not fit the cache of 7 KV blocks"
    with pytest.raises(ReplayError, match="effect-free zero-duration pass with 1 in-flight requests"):
        replay({**spec, "strict": True})
