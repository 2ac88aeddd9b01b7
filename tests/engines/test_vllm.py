"""The vLLM scheduler alone: forward-pass rows, KV events, runs of decode passes and what cuts them."""

from __future__ import annotations

from typing import Any

import pytest

from engines.engine import Engine, EngineOptions, RankOutputs
from engines.schedulers import build_engine
from engines.timing.durations import Durations
from engines.timing.fixed import FixedModel
from messages.kv import BlocksRemoved, BlocksStored
from messages.passes import Admission, Terminal
from messages.requests import Request, Status
from messages.spec import EngineSpec, RankSpec


def scheduler(*, blocks: int = 16, options: dict[str, Any] | None = None, **rank: Any) -> Engine:
    spec = EngineSpec(rank=RankSpec(num_gpu_blocks=blocks, block_size=4, **rank))
    durations = Durations.of_rank(spec.rank, FixedModel(10.0, 1.0))
    return build_engine(spec, durations, EngineOptions(**(options or {})))


def request(ordinal: int, inputs: int, outputs: int, family: int | None = None) -> Request:
    """A prompt that shares its leading blocks with those of the same family."""
    first = 1000 * (ordinal + 1) if family is None else 100_000 * (family + 1)
    return Request(ordinal, inputs, outputs, ((first, first + inputs // 4),))


def one_pass(engine: Engine, now_ms: float = 0.0) -> tuple[float, RankOutputs]:
    """Form a pass, or plan a run of which only one takes place; returns its end and outputs."""
    begun = engine.begin_pass(now_ms)
    (outputs,) = engine.end_pass(1)
    return begun.ends_ms[0], outputs


def whole_run(engine: Engine, now_ms: float = 0.0) -> tuple[float, RankOutputs]:
    """Form and end a pass or all passes of a run; returns the end of the last and the outputs."""
    begun = engine.begin_pass(now_ms)
    (outputs,) = engine.end_pass(len(begun.ends_ms))
    return begun.ends_ms[-1], outputs


def test_forward_pass_rows_of_a_prefill_a_mixed_and_a_decode_pass() -> None:
    engine = scheduler(max_num_seqs=2, max_num_batched_tokens=16, options={"capture_metrics": True})
    for ordinal, inputs in enumerate((6, 20, 9)):
        engine.submit(0, request(ordinal, inputs, 4))
    row = one_pass(engine)[1].metrics
    assert row is not None
    assert (row.wall_time_s, row.num_prefill_requests, row.sum_prefill_tokens) == (0.01, 2, 16)
    assert (row.var_prefill_length, row.sum_prefill_kv_tokens) == (49.0, 0)
    assert (row.num_decode_requests, row.num_queued_prefill, row.sum_queued_prefill_tokens) == (0, 1, 9)

    row = one_pass(engine, 10.0)[1].metrics
    assert row is not None
    assert (row.num_prefill_requests, row.sum_prefill_tokens, row.sum_prefill_kv_tokens) == (1, 10, 10)
    assert (row.num_decode_requests, row.sum_decode_kv_tokens, row.var_decode_kv_tokens) == (1, 7, 0.0)

    end_ms, outputs = whole_run(engine, 21.0)
    assert outputs.metrics is not None
    assert (end_ms, outputs.terminals) == (23.0, (Terminal(0, Status.COMPLETED),))
    assert (outputs.metrics.num_decode_requests, outputs.metrics.sum_decode_kv_tokens) == (2, 9 + 22)
    assert outputs.metrics.var_decode_kv_tokens == 42.25
    assert outputs.metrics.wall_time_s == 0.001


def test_rows_of_a_run_equal_those_of_its_last_pass_alone() -> None:
    def rows(*, merge: bool) -> RankOutputs:
        engine = scheduler(options={"capture_metrics": True, "merge_passes": merge})
        engine.submit(0, request(0, 6, 8))
        engine.submit(0, request(1, 9, 8))
        now_ms, _ = whole_run(engine)
        while engine.has_work:
            now_ms, outputs = whole_run(engine, now_ms)
        return outputs

    assert rows(merge=True).metrics == rows(merge=False).metrics


def test_preempted_requests_are_queued_decodes() -> None:
    engine = scheduler(blocks=8, options={"capture_metrics": True, "merge_passes": False})
    engine.submit(0, request(0, 15, 9))
    engine.submit(0, request(1, 15, 9))
    now_ms = 0.0
    while True:
        now_ms, outputs = one_pass(engine, now_ms)
        if outputs.preempted:
            break
    assert outputs.metrics is not None
    assert (outputs.metrics.num_queued_prefill, outputs.metrics.num_queued_decode) == (0, 1)
    assert outputs.metrics.sum_queued_decode_kv_tokens == 15 + 2


def test_kv_events_tell_what_is_stored_and_evicted() -> None:
    engine = scheduler(blocks=4, options={"capture_kv_events": True})
    engine.submit(0, request(0, 9, 1))
    engine.submit(0, request(1, 12, 1))
    _, outputs = one_pass(engine)
    assert outputs.kv_events == (BlocksStored(0, None, ((1000, 1002),)),)
    _, outputs = one_pass(engine)
    # The tail of a sequence is evicted before its head.
    assert outputs.kv_events == (BlocksRemoved(1, ((1001, 1002),)), BlocksStored(2, None, ((2000, 2003),)))


def test_no_kv_events_without_a_consumer_or_without_prefix_caching() -> None:
    for engine in (scheduler(), scheduler(enable_prefix_caching=False, options={"capture_kv_events": True})):
        engine.submit(0, request(0, 9, 1))
        assert one_pass(engine)[1].kv_events == ()


@pytest.mark.parametrize("merge", [False, True])
def test_generated_blocks_are_stored_where_others_may_repeat_them(merge: bool) -> None:
    """In the pass that computes their last token; and not at all where they are a request's own."""
    engine = scheduler(options={"capture_kv_events": True, "merge_passes": merge})
    engine.submit(0, Request(0, 8, 9, ((0, 4),)))
    engine.submit(0, request(1, 8, 9))
    stored = []
    now_ms = 0.0
    while engine.has_work:
        run = engine.begin_pass(now_ms)
        now_ms = run.ends_ms[-1]
        (outputs,) = engine.end_pass(len(run.ends_ms))
        stored += [(now_ms, event) for event in outputs.kv_events]
    assert stored == [
        (10.0, BlocksStored(0, None, ((0, 2),))),
        (10.0, BlocksStored(1, None, ((2000, 2002),))),
        (14.0, BlocksStored(2, 1, ((2, 3),))),
        (18.0, BlocksStored(3, 2, ((3, 4),))),
    ]


def test_a_run_foretells_what_it_evicts() -> None:
    engine = scheduler(blocks=6, options={"capture_kv_events": True})
    engine.submit(0, request(0, 12, 1))
    now_ms, _ = one_pass(engine)
    engine.submit(0, request(1, 8, 30))
    now_ms, _ = one_pass(engine, now_ms)
    # One block is free, three are cached; the request takes one after every fourth pass.
    run = engine.begin_pass(now_ms)
    (planned,) = run.evictions
    assert planned.evicted_blocks[:10].tolist() == [0, 0, 0, 0, 1, 1, 1, 1, 2, 2]
    assert planned.evictions == ((3, (1000, 1003)),)
    (outputs,) = engine.end_pass(6)
    assert outputs.kv_events == (BlocksRemoved(2, ((1002, 1003),)),)


def test_a_run_ends_where_a_request_finishes() -> None:
    engine = scheduler()
    engine.submit(0, request(0, 8, 4))
    engine.submit(0, request(1, 8, 6))
    now_ms, _ = one_pass(engine)
    run = engine.begin_pass(now_ms)
    assert run.ends_ms.tolist() == [11.0, 12.0, 13.0]
    assert run.cut_on_submit


def test_a_run_follows_the_pass_that_builds_the_last_prompt() -> None:
    def outputs_of(passes: int) -> tuple[list[float], RankOutputs]:
        engine = scheduler()
        engine.submit(0, request(0, 8, 4))
        begun = engine.begin_pass(5.0)
        assert begun.cut_on_submit
        (outputs,) = engine.end_pass(passes)
        return begun.ends_ms.tolist(), outputs

    for passes, terminals in ((1, ()), (3, ()), (4, (Terminal(0, Status.COMPLETED),))):
        ends_ms, outputs = outputs_of(passes)
        assert ends_ms == [15.0, 16.0, 17.0, 18.0]
        assert (outputs.resumed, outputs.admissions) == ((0,), (Admission(0, 5.0, 0),))
        assert outputs.terminals == terminals


@pytest.mark.parametrize(
    "options",
    [{"capture_kv_events": True}, {"capture_metrics": True}, {"show_first_tokens": True}, {"merge_passes": False}],
    ids=lambda options: next(iter(options)),
)
def test_a_pass_ends_by_itself_where_somebody_sees_when(options: dict[str, Any]) -> None:
    engine = scheduler(options=options)
    engine.submit(0, request(0, 8, 4))
    assert engine.begin_pass(5.0).ends_ms.tolist() == [15.0]


def test_a_pass_with_an_end_ends_by_itself() -> None:
    engine = scheduler()
    engine.submit(0, request(0, 8, 4))
    engine.submit(0, request(1, 8, 1))
    assert engine.begin_pass(5.0).ends_ms.tolist() == [15.0]


def test_a_run_can_be_cut_at_any_boundary() -> None:
    engine = scheduler()
    engine.submit(0, request(0, 8, 9))
    now_ms, _ = one_pass(engine)
    engine.begin_pass(now_ms)
    (outputs,) = engine.end_pass(3)
    assert (outputs.resumed, outputs.paused, outputs.terminals) == ((), (), ())
    assert len(engine.begin_pass(13.0).ends_ms) == 5


def test_a_run_ends_before_the_pass_that_must_preempt() -> None:
    engine = scheduler(blocks=8)
    engine.submit(0, request(0, 13, 20))
    engine.submit(0, request(1, 13, 20))
    now_ms, _ = one_pass(engine)
    assert len(engine.begin_pass(now_ms).ends_ms) == 3


def test_a_run_does_not_outlive_the_horizon() -> None:
    engine = scheduler(options={"horizon_ms": 13.5})
    engine.submit(0, request(0, 8, 20))
    now_ms, _ = one_pass(engine)
    assert engine.begin_pass(now_ms).ends_ms.tolist() == [11.0, 12.0, 13.0]


@pytest.mark.parametrize(
    ("rank", "head"),
    [
        ({"max_num_seqs": 1}, request(1, 8, 4)),
        ({"blocks": 6}, request(1, 20, 4)),
        ({"enable_chunked_prefill": False, "max_num_batched_tokens": 12}, request(1, 12, 4)),
    ],
    ids=["seats", "blocks", "budget"],
)
def test_a_run_goes_on_behind_a_queue_head_that_cannot_be_admitted(rank: dict[str, Any], head: Request) -> None:
    engine = scheduler(**rank)
    engine.submit(0, request(0, 8, 9))
    now_ms, _ = one_pass(engine)
    engine.submit(0, head)
    run = engine.begin_pass(now_ms)
    assert len(run.ends_ms) == 8
    assert not run.cut_on_submit


def test_the_last_prompt_token_of_a_chunked_prefill_is_no_decode() -> None:
    engine = scheduler(max_num_batched_tokens=8)
    engine.submit(0, request(0, 9, 5))
    now_ms, outputs = one_pass(engine)
    assert outputs.resumed == ()
    end_ms, outputs = one_pass(engine, now_ms)
    assert (end_ms, outputs.resumed, outputs.committed_prefill_tokens) == (20.0, (0,), 1)


def test_an_effect_free_attempt_under_strict() -> None:
    engine = scheduler(enable_chunked_prefill=False, max_num_batched_tokens=4, options={"strict": True})
    engine.submit(0, request(0, 8, 1))
    begun = engine.begin_pass(5.0)
    assert (begun.ends_ms.tolist(), begun.has_effect) == ([5.0], False)


def test_an_impossible_head_is_rejected_with_a_reason() -> None:
    engine = scheduler(enable_chunked_prefill=False, max_num_batched_tokens=4)
    engine.submit(0, request(0, 8, 1))
    end_ms, outputs = one_pass(engine, 5.0)
    reason = "a prompt of 8 tokens does not fit into one pass of 4 tokens, and chunked prefill is off"
    assert (end_ms, outputs.terminals) == (5.0, (Terminal(0, Status.REJECTED, reason),))
    assert not engine.has_work
