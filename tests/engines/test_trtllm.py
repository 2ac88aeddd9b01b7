"""The TensorRT-LLM scheduler: nobody is admitted who could not run to the end, and nobody is preempted."""

from __future__ import annotations

from typing import Any

from actors import replay
from messages.report import RequestRecord
from tests.scenario import cluster


def records(spec: dict[str, Any]) -> list[RequestRecord]:
    report = replay(spec)
    assert report.requests is not None
    return report.requests


def test_a_request_waits_until_its_whole_length_fits_beside_the_others() -> None:
    """The first will hold 6 of 8 blocks; the second needs 3, so it waits although 5 are free."""
    first, second = records(cluster((0.0, 12, 9), (0.0, 8, 4), blocks=8, backend="trtllm"))
    assert (first.first_admit_ms, first.terminal_time_ms) == (0.0, 18.0)
    assert second.first_admit_ms == 18.0
    assert first.readmission_count == second.readmission_count == 0


def test_an_output_is_cut_to_what_the_cache_can_take() -> None:
    (record,) = records(cluster((0.0, 28, 20), blocks=8, backend="trtllm"))
    assert (record.output_length, record.requested_output_length) == (4, 20)


def test_a_prompt_that_fills_the_cache_is_rejected() -> None:
    (record,) = records(cluster((0.0, 32, 1), blocks=8, backend="trtllm"))
    assert record.terminal_status == "rejected"
    assert record.terminal_reason == "33 tokens to its end need 9 KV blocks, the cache has 8"


def test_a_prompt_that_is_cached_as_a_whole_costs_a_decode_step_only() -> None:
    spec = cluster((0.0, 8, 2), (20.0, 8, 2), backend="trtllm")
    for request in spec["requests"]:
        request["input_token_ids"] = [1, 2, 3, 4, 5, 6, 7, 8]
    _, again = records(spec)
    assert (again.reused_input_tokens, again.first_token_ms, again.terminal_time_ms) == (8, 21.0, 22.0)
