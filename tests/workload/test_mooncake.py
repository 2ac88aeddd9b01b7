from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from actors.workload.loading import load_workload
from actors.workload.sessions import SessionDriver
from actors.workload.source import Workload
from messages.requests import Span
from tests.workload.builders import load_rows, replay_spec, row, shared_blocks, spelled_out


def arrivals(workload: Workload) -> list[float]:
    return [session.first_arrival_ms for session in workload.sessions]


def delays(workload: Workload) -> list[list[float]]:
    return [[turn.delay_ms for turn in session.turns] for session in workload.sessions]


def resolve(workload: Workload, session: int, turn: int = 0) -> tuple[int, tuple[Span, ...]]:
    return workload.prompts.resolve(session, turn)


class TestTimes:
    def test_the_earliest_arrival_becomes_zero(self, tmp_path: Path) -> None:
        rows = [row(timestamp=t) for t in (1000, -500, 1010, 1900)]
        workload = load_rows(tmp_path, rows)
        assert arrivals(workload) == [1500.0, 0.0, 1510.0, 2400.0]

    def test_the_speedup_divides_arrivals_and_think_times(self, tmp_path: Path) -> None:
        rows = [
            row(session_id="a", timestamp=-500),
            row(session_id="b", timestamp=1000),
            row(session_id="a", timestamp=None, delay=50),
        ]
        workload = load_rows(tmp_path, rows, arrival_speedup_ratio=2.5)
        assert arrivals(workload) == [0.0, 600.0]
        assert delays(workload) == [[0.0, 20.0], [0.0]]

    def test_epoch_timestamps_and_fractions_keep_their_differences(self, tmp_path: Path) -> None:
        rows = [row(timestamp=1700000000000.25), row(timestamp=1700000000000)]
        assert arrivals(load_rows(tmp_path, rows)) == [0.25, 0.0]

    def test_closed_loop_neither_normalises_nor_scales_and_warns_of_the_ratio(self, tmp_path: Path) -> None:
        rows = [row(session_id="a", timestamp=7), row(session_id="a", timestamp=None, delay=50)]
        workload = load_rows(tmp_path, rows, max_in_flight=2, arrival_speedup_ratio=0.0)
        assert delays(workload) == [[0.0, 50.0]]
        assert len(workload.warnings) == 1
        assert "arrival_speedup_ratio" in workload.warnings[0]

    def test_think_time_is_the_delay_else_the_gap_of_timestamps_else_nothing(self, tmp_path: Path) -> None:
        turns: list[dict[str, Any]] = [
            {"timestamp": 1000},
            {"timestamp": 1300, "delay": 50},
            {"timestamp": 1450},
            {"timestamp": None},
            {"timestamp": 1500},
        ]
        workload = load_rows(tmp_path, [row(session_id="s", **turn) for turn in turns])
        assert delays(workload) == [[0.0, 50.0, 150.0, 0.0, 50.0]]

    def test_seventeen_digits_are_read_as_the_reference_reads_them(self, tmp_path: Path) -> None:
        rows = [row(timestamp=t) for t in (112.47000762292527, 152.47000762292527, 192.47000762292527)]
        assert arrivals(load_rows(tmp_path, rows)) == [0.0, 39.999999999999986, 79.99999999999999]


class TestSessions:
    def test_single_turns_in_open_loop_report_no_session(self, tmp_path: Path) -> None:
        workload = load_rows(tmp_path, [row(session_id="x"), row(session_id="y")])
        assert [(turn.session_id, turn.turn_index) for s in workload.sessions for turn in s.turns] == [(None, None)] * 2

    def test_one_session_of_two_turns_makes_all_sessions_known(self, tmp_path: Path) -> None:
        rows: list[dict[str, Any] | str] = [row(session_id=""), "", row(), row(session_id="", delay=1)]
        workload = load_rows(tmp_path, rows)
        found = [[(turn.session_id, turn.turn_index) for turn in session.turns] for session in workload.sessions]
        assert found == [[("", 0), ("", 1)], [("request_3", 0)]]

    def test_closed_loop_always_knows_sessions(self, tmp_path: Path) -> None:
        workload = load_rows(tmp_path, [row(timestamp=None), row(timestamp=None)], max_in_flight=1)
        assert [session.turns[0].session_id for session in workload.sessions] == ["request_1", "request_2"]

    def test_request_ids_are_the_authored_ones_else_the_line(self, tmp_path: Path) -> None:
        workload = load_rows(tmp_path, [row(request_id="mine"), " \t", row(), row(request_id="mine")])
        assert [session.turns[0].request_id for session in workload.sessions] == ["mine", "request_3", "mine"]


class TestPrompts:
    def test_common_tokens_are_cut_at_the_block_size_of_the_engine(self, tmp_path: Path) -> None:
        rows = [
            row(hash_ids=[1, 2], input_length=200),
            row(hash_ids=[1, 3], input_length=200),
            row(hash_ids=[1, 2, 5], input_length=250),
            row(hash_ids=[1], input_length=70),
        ]
        workload = load_rows(tmp_path, rows, block_size=100, rank={"block_size": 64})
        blocks = [resolve(workload, session)[1] for session in range(4)]
        assert [len(spelled_out(spans)) for spans in blocks] == [3, 3, 3, 1]
        assert shared_blocks(blocks[0], blocks[1]) * 64 == 64
        assert shared_blocks(blocks[0], blocks[2]) * 64 == 192
        assert shared_blocks(blocks[0], blocks[3]) * 64 == 64

    def test_the_length_is_that_of_the_hash_ids_where_none_is_given(self, tmp_path: Path) -> None:
        workload = load_rows(tmp_path, [row(input_length=None, hash_ids=[1, 2, 3])])
        assert resolve(workload, 0)[0] == 24

    def test_ids_take_64_bits(self, tmp_path: Path) -> None:
        rows = [row(hash_ids=[2**64 - 1, first]) for first in (2**63, 2**63 + 1)]
        workload = load_rows(tmp_path, rows)
        assert shared_blocks(resolve(workload, 0)[1], resolve(workload, 1)[1]) == 2

    def test_surplus_ids_are_ignored_with_one_warning(self, tmp_path: Path) -> None:
        rows = [row(), *[row(hash_ids=[1, 2, 9])] * 5]
        workload = load_rows(tmp_path, rows)
        assert [warning.rpartition("trace.jsonl: ")[2] for warning in workload.warnings] == [
            "5 rows have more hash_ids than input_length needs (lines 2, 3, 4 and 2 more); ignored"
        ]

    def test_an_output_of_astronomic_length_costs_nothing_to_load(self, tmp_path: Path) -> None:
        for format_name in ("mooncake", "mooncake-delta"):
            rows = [row(session_id="s", output_length=10**18), row(session_id="s", delay=0)]
            workload = load_rows(tmp_path, rows, format=format_name)
            assert resolve(workload, 0)[0] == 10
            assert workload.sessions[0].turns[0].output_length == 10**18

    def test_short_outputs_and_aliases_are_fine(self, tmp_path: Path) -> None:
        aliased = {"created_time": 3, "input_tokens": 9, "output_tokens": 1, "hash_ids": [1, 2], "delay_ms": 0}
        workload = load_rows(tmp_path, [row(output_length=0), aliased])
        lengths = [(session.turns[0].input_length, session.turns[0].output_length) for session in workload.sessions]
        assert lengths == [(10, 0), (9, 1)]
        assert arrivals(workload) == [0.0, 3.0]


class TestTokens:
    def test_authored_outputs_are_hit_by_prompts_that_repeat_them(self, tmp_path: Path) -> None:
        # Hash ids count up from 0 in order of appearance: the second prompt is 8 zeros, then 8 ones.
        rows = [
            row(hash_ids=[70], input_length=8, output_length=8, output_token_ids=[1] * 8),
            row(hash_ids=[70, 80], input_length=16, output_length=0),
        ]
        workload = load_rows(tmp_path, rows)
        assert resolve(workload, 0)[1] == resolve(workload, 1)[1]

    def test_a_delta_prompt_is_the_history_with_its_outputs(self, tmp_path: Path) -> None:
        rows = [
            row(session_id="s", hash_ids=[1], input_length=8, output_length=6),
            row(session_id="s", hash_ids=[2], input_length=5, output_length=3, delay=0),
            row(session_id="s", hash_ids=[3], input_length=8, output_length=0, delay=0),
        ]
        workload = load_rows(tmp_path, rows, format="mooncake-delta")
        first_length, first = resolve(workload, 0, 0)
        workload.prompts.completed(0)
        second_length, second = resolve(workload, 0, 1)
        workload.prompts.completed(0)
        third_length, third = resolve(workload, 0, 2)
        assert (first_length, second_length, third_length) == (8, 19, 30)
        assert shared_blocks(first, second) == 3
        assert shared_blocks(second, third) == 22 // 4

    def test_a_rejected_turn_leaves_its_prompt_but_no_output_in_the_history(self, tmp_path: Path) -> None:
        rows = [row(session_id="s", delay=0)] * 2
        workload = load_rows(tmp_path, rows, format="mooncake_delta")
        resolve(workload, 0, 0)
        assert resolve(workload, 0, 1)[0] == 20

    def test_only_tokens_emitted_before_max_model_len_enter_the_history(self, tmp_path: Path) -> None:
        rows = [row(session_id="s", delay=0, output_length=50)] * 2
        workload = load_rows(tmp_path, rows, format="mooncake-delta", rank={"max_model_len": 25})
        resolve(workload, 0, 0)
        workload.prompts.completed(0)
        assert resolve(workload, 0, 1)[0] == 25 + 10

    def test_histories_beyond_the_cache_only_count(self, tmp_path: Path) -> None:
        rows = [row(session_id="s", delay=0, output_length=10**15)] * 2
        workload = load_rows(tmp_path, rows, format="mooncake-delta", rank={"num_gpu_blocks": 6})
        assert len(spelled_out(resolve(workload, 0, 0)[1])) == 6
        workload.prompts.completed(0)
        length, blocks = resolve(workload, 0, 1)
        assert (length, len(spelled_out(blocks))) == (10**15 + 20, 6)


@pytest.fixture
def conversation_trace() -> Path:
    shared = os.environ.get("AISIM_SHARED")
    path = Path(shared or ".") / "data" / "traces" / "mooncake-conversation.jsonl"
    if shared is None or not path.exists():
        if os.environ.get("AISIM_REQUIRE_PARITY") == "1":
            pytest.fail("AISIM_SHARED does not name a folder with data/traces/mooncake-conversation.jsonl")
        pytest.skip("AISIM_SHARED does not name a folder with data/traces/mooncake-conversation.jsonl")
    return path


def test_an_hour_of_conversations_resolves_to_all_complete_blocks(conversation_trace: Path) -> None:
    workload_spec = {"kind": "trace", "path": conversation_trace.name}
    spec = replay_spec(workload_spec, rank={"block_size": 64, "num_gpu_blocks": 16384})
    workload = load_workload(spec, conversation_trace.parent)
    released = SessionDriver(workload).release(1e12)
    assert len(released) == 12_031
    with conversation_trace.open() as lines:
        expected = sum(json.loads(line)["input_length"] // 64 for line in lines)
    assert sum(end - start for release in released for start, end in release.request.spans) == expected
