from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from actors.workload.source import Workload
from messages.errors import InputError
from tests.workload.builders import load_rows, shared_blocks, spelled_out


def session(turns: int = 1, **fields: Any) -> dict[str, Any]:
    return {
        "num_turns": turns,
        "input_prompt_length": 20,
        "assistant_response_length": [5] * turns,
        "tool_call_output_length": [3] * turns,
        "tool_call_latency": [0.5] * turns,
        "final_assistant_response_length": 4,
        **fields,
    }


def load(
    directory: Path, rows: list[dict[str, Any] | str], *, max_in_flight: int | None = 1, **source: Any
) -> Workload:
    return load_rows(directory, rows, format="applied_compute_agentic", max_in_flight=max_in_flight, **source)


def test_prompts_grow_by_responses_and_tool_outputs(tmp_path: Path) -> None:
    workload = load(tmp_path, [session(2)])
    turns = workload.sessions[0].turns
    assert [(turn.input_length, turn.output_length, turn.delay_ms) for turn in turns] == [
        (20, 5, 0.0),
        (28, 5, 500.0),
        (36, 4, 500.0),
    ]
    assert [turn.turn_index for turn in turns] == [0, 1, 2]
    resolved = [workload.prompts.resolve(0, index) for index in range(3)]
    assert [length for length, _ in resolved] == [20, 28, 36]
    assert shared_blocks(resolved[0][1], resolved[1][1]) == 5
    assert shared_blocks(resolved[1][1], resolved[2][1]) == 7


def test_sessions_are_named_and_grouped_by_physical_line(tmp_path: Path) -> None:
    rows: list[dict[str, Any] | str] = [session(), "", session(), session()]
    workload = load(tmp_path, rows, shared_prefix_ratio=1.0, num_prefix_groups=2)
    assert [s.turns[0].session_id for s in workload.sessions] == [
        f"applied_compute_agentic_session_{line}" for line in (1, 3, 4)
    ]
    first, third, fourth = (workload.prompts.resolve(index, 0)[1] for index in range(3))
    assert first == third
    assert shared_blocks(first, fourth) == 0


def test_only_the_share_of_the_first_prompt_is_common(tmp_path: Path) -> None:
    # 20 tokens are 3 trace blocks of 8, of which round(1.5) = 2 are shared: 16 tokens, 4 engine blocks.
    workload = load(tmp_path, [session(), session()], shared_prefix_ratio=0.5, num_prefix_groups=1)
    first, second = (workload.prompts.resolve(index, 0)[1] for index in range(2))
    assert shared_blocks(first, second) == 4


def test_without_groups_nothing_is_common(tmp_path: Path) -> None:
    workload = load(tmp_path, [session(0), session(0)], shared_prefix_ratio=1.0)
    first, second = (workload.prompts.resolve(index, 0)[1] for index in range(2))
    assert set(first).isdisjoint(second)


def test_astronomic_lengths_cost_nothing(tmp_path: Path) -> None:
    workload = load(tmp_path, [session(input_prompt_length=10**18)])
    length, blocks = workload.prompts.resolve(0, 0)
    assert (length, len(spelled_out(blocks))) == (10**18, 1000)


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ({"num_turns": 2}, "assistant_response_length: expected a list of 2, as num_turns says, got 1"),
        ({"input_prompt_length": 0}, "input_prompt_length: expected an integer >= 1, got 0"),
        ({"tool_call_latency": [-1]}, "tool_call_latency[0]: expected a finite number of seconds >= 0, got -1.0"),
        ({"tool_call_latency": None}, "tool_call_latency: expected a list, got null"),
        ({"num_turns": 2**64}, f"num_turns: expected an integer <= {2**64 - 1}, got {2**64}"),
        ({"tool_call_output_length": [0.5]}, "tool_call_output_length[0]: expected an integer, got 0.5"),
    ],
)
def test_a_bad_row_is_named_by_line_and_field(bad: dict[str, Any], expected: str, tmp_path: Path) -> None:
    with pytest.raises(InputError) as caught:
        load(tmp_path, [session(), session(**bad)])
    assert str(caught.value).endswith(f"trace.jsonl:2: {expected}")


def test_a_missing_field_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"trace\.jsonl:1: num_turns: missing"):
        load(tmp_path, ["{}"])


def test_a_field_given_twice_is_refused(tmp_path: Path) -> None:
    twice = json.dumps(session())[:-1] + ', "num_turns": 1}'
    with pytest.raises(InputError, match=r"trace\.jsonl:2: num_turns: given more than once; keep one"):
        load(tmp_path, [session(), twice])


def test_a_trace_without_sessions_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="holds no requests"):
        load(tmp_path, [])
