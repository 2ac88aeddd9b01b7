from __future__ import annotations

from pathlib import Path
from typing import Any

from actors.workload.loading import load_workload
from actors.workload.source import Workload
from tests.workload.builders import replay_spec, shared_blocks, spelled_out


def lower(*requests: dict[str, Any], max_in_flight: int | None = None) -> Workload:
    documents = [
        {"id": f"r{index}", "arrival_time_ms": 0.0, "input_tokens": 8, "output_tokens": 3, **request}
        for index, request in enumerate(requests)
    ]
    return load_workload(replay_spec(requests=documents, max_in_flight=max_in_flight), Path())


def test_requests_run_by_arrival_and_keep_their_times() -> None:
    workload = lower({"arrival_time_ms": 9.5}, {"arrival_time_ms": 5.5}, {"arrival_time_ms": 9.5})
    assert [(s.turns[0].request_id, s.first_arrival_ms) for s in workload.sessions] == [
        ("r1", 5.5),
        ("r0", 9.5),
        ("r2", 9.5),
    ]


def test_an_empty_list_is_a_workload() -> None:
    assert lower().sessions == []


def test_names_and_metadata_are_only_reported() -> None:
    workload = lower({"session_id": "s", "turn_index": 4, "metadata": {"team": "x"}}, {"session_id": "s"})
    assert len(workload.sessions) == 2
    turn = workload.sessions[0].turns[0]
    assert (turn.session_id, turn.turn_index, turn.metadata) == ("s", 4, {"team": "x"})


def test_length_only_prompts_share_nothing() -> None:
    workload = lower({}, {}, {"input_tokens": 7})
    resolved = [workload.prompts.resolve(index, 0) for index in range(3)]
    assert [(length, len(spelled_out(spans))) for length, spans in resolved] == [(8, 2), (8, 2), (7, 1)]
    assert len({block for _, spans in resolved for block in spelled_out(spans)}) == 5


def test_authored_tokens_are_compared_with_each_other_and_with_counted_ones() -> None:
    counted = [1000003 + k for k in range(8)]
    workload = lower(
        {"input_token_ids": [1, 2, 3, 4, 5, 6, 7, 8]},
        {},
        {"input_token_ids": [1, 2, 3, 4, 5, 6, 7, 9]},
        {"input_token_ids": counted},
    )
    first, length_only, third, fourth = (workload.prompts.resolve(index, 0)[1] for index in range(4))
    assert shared_blocks(first, third) == 1
    assert length_only == fourth


def test_authored_outputs_replace_the_length_and_can_be_repeated() -> None:
    workload = lower(
        {"input_token_ids": [1] * 8, "output_token_ids": [2] * 5},
        {"input_tokens": 12, "input_token_ids": [1] * 8 + [2] * 4},
    )
    assert workload.sessions[0].turns[0].output_length == 5
    assert workload.prompts.resolve(0, 0)[1] == workload.prompts.resolve(1, 0)[1]
