from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors.workload.loading import load_workload
from actors.workload.source import Workload
from tests.workload.builders import replay_spec, shared_blocks, spelled_out


def generate(max_in_flight: int | None = None, **fields: Any) -> Workload:
    workload = {"kind": "synthetic", "input_tokens": 10, "output_tokens": 2, "request_count": 6, **fields}
    return load_workload(replay_spec(workload, max_in_flight=max_in_flight), Path())


def arrivals(workload: Workload) -> list[float]:
    return [session.first_arrival_ms for session in workload.sessions]


def test_poisson_arrivals_repeat_the_golden_values() -> None:
    expected = [0, 7.477246176406965, 15.301953951913882, 25.420753684496404, 30.627859515607035, 30.977323433278976]
    assert arrivals(generate(request_rate=100.0)) == expected


def test_constant_intervals_are_a_running_sum_of_a_twice_divided_gap() -> None:
    gap = 1000.0 / (1000.0 / 30.0)
    assert gap == 29.999999999999996
    assert arrivals(generate(arrival_interval_ms=30.0))[:3] == [0.0, gap, gap + gap]
    assert arrivals(generate(arrival_interval_ms=0.0)) == [0.0] * 6


def test_the_speedup_divides_arrivals_and_think_times_in_open_loop_only() -> None:
    fields: dict[str, Any] = {"turns_per_session": 2, "inter_turn_delay_ms": 50.0, "arrival_speedup_ratio": 2.0}
    sped_up = generate(arrival_interval_ms=10.0, **fields)
    assert arrivals(sped_up)[:3] == [0.0, 5.0, 10.0]
    assert [turn.delay_ms for turn in sped_up.sessions[0].turns] == [0.0, 25.0]
    closed = generate(max_in_flight=2, **fields)
    assert [turn.delay_ms for turn in closed.sessions[0].turns] == [0.0, 50.0]
    assert len(closed.warnings) == 1


def test_a_flat_list_has_no_sessions_and_shares_nothing() -> None:
    workload = generate(arrival_interval_ms=1.0, input_tokens=17)
    assert [session.turns[0].request_id for session in workload.sessions][:2] == ["request_1", "request_2"]
    assert workload.sessions[0].turns[0].session_id is None
    resolved = [workload.prompts.resolve(index, 0) for index in range(6)]
    assert {length for length, _ in resolved} == {17}
    assert len({block for _, spans in resolved for block in spelled_out(spans)}) == 6 * 4


def test_sessions_share_the_blocks_of_their_group() -> None:
    workload = generate(
        max_in_flight=2, input_tokens=16, turns_per_session=2, shared_prefix_ratio=0.5, num_prefix_groups=3
    )
    assert [turn.session_id for turn in workload.sessions[1].turns] == ["session_1", "session_1"]
    assert [turn.request_id for turn in workload.sessions[1].turns] == ["request_3", "request_4"]
    resolved = {(s, t): workload.prompts.resolve(s, t)[1] for s in range(6) for t in range(2)}
    groups = [0, 1, 0, 1, 2, 1]
    for (session, turn), blocks in resolved.items():
        assert len(spelled_out(blocks)) == 4
        for (other, other_turn), other_blocks in resolved.items():
            if (session, turn) != (other, other_turn):
                assert shared_blocks(blocks, other_blocks) == (2 if groups[session] == groups[other] else 0)


def test_half_a_shared_block_rounds_up() -> None:
    workload = generate(max_in_flight=1, input_tokens=8, shared_prefix_ratio=0.25, num_prefix_groups=1)
    first, second = (workload.prompts.resolve(session, 0)[1] for session in range(2))
    assert shared_blocks(first, second) == 1


def test_a_shared_last_block_that_is_not_full_is_not_cached() -> None:
    workload = generate(max_in_flight=1, input_tokens=10, shared_prefix_ratio=1.0, num_prefix_groups=1)
    first, second = (workload.prompts.resolve(session, 0)[1] for session in range(2))
    assert len(spelled_out(first)) == 2
    assert first == second


@pytest.mark.parametrize("fields", [{"shared_prefix_ratio": 0.5}, {"num_prefix_groups": 2}])
def test_ratio_and_groups_alone_make_sessions_that_share_nothing(fields: dict[str, Any]) -> None:
    workload = generate(max_in_flight=1, **fields)
    assert workload.sessions[0].turns[0].session_id == "session_0"
    first, second = (workload.prompts.resolve(session, 0)[1] for session in range(2))
    assert set(first).isdisjoint(second)


@pytest.mark.parametrize(
    "fields", [{"turns_per_session": 0}, {"inter_turn_delay_ms": -1.0}, {"shared_prefix_ratio": -0.5}]
)
def test_odd_values_that_make_no_sessions_pass(fields: dict[str, Any]) -> None:
    assert generate(max_in_flight=1, **fields).sessions[0].turns[0].session_id is None


def test_prompts_beyond_the_cache_cost_no_memory() -> None:
    workload = generate(max_in_flight=1, input_tokens=10**15)
    length, blocks = workload.prompts.resolve(0, 0)
    assert (length, len(spelled_out(blocks))) == (10**15, 1000)
