"""The SGLang scheduler alone: what passes emit, runs of decode passes, retraction, forward-pass rows, KV events."""

from __future__ import annotations

import random
from typing import Any

import pytest

from engines.engine import Engine, EngineOptions, RankOutputs
from engines.schedulers import build_engine
from engines.timing.durations import Durations
from engines.timing.fixed import FixedModel
from messages.kv import BlocksRemoved, BlocksStored
from messages.passes import Admission, Terminal
from messages.requests import Request, Status
from messages.spec import EngineSpec, RankSpec, SglangSpec

FIRST = 1000
"""The identities of request n begin at FIRST * (n + 1)."""


def scheduler(
    *,
    pages: int = 100,
    page_size: int = 1,
    dp_size: int = 1,
    options: dict[str, Any] | None = None,
    sglang: dict[str, Any] | None = None,
    **rank: Any,
) -> Engine:
    spec = EngineSpec(
        rank=RankSpec(
            backend="sglang",
            num_gpu_blocks=pages,
            block_size=page_size,
            sglang=SglangSpec(**(sglang or {})),
            **rank,
        ),
        dp_size=dp_size,
    )
    durations = Durations.of_rank(spec.rank, FixedModel(10.0, 1.0))
    return build_engine(spec, durations, EngineOptions(**(options or {})))


def request(ordinal: int, inputs: int, outputs: int, page_size: int = 1) -> Request:
    first = FIRST * (ordinal + 1)
    return Request(ordinal, inputs, outputs, ((first, first + inputs // page_size),))


def one_pass(engine: Engine, now_ms: float = 0.0) -> tuple[float, RankOutputs]:
    """Form and end a pass or a whole run; returns its end and outputs."""
    begun = engine.begin_pass(now_ms)
    assert begun.has_effect
    (outputs,) = engine.end_pass(len(begun.ends_ms))
    return begun.ends_ms[-1], outputs


def test_a_prefill_pass_has_nobody_decode() -> None:
    engine = scheduler()
    engine.submit(0, request(0, 8, 9))
    end_ms, outputs = one_pass(engine)
    assert (end_ms, outputs.admissions, outputs.committed_prefill_tokens) == (10.0, (Admission(0, 0.0, 0),), 8)
    assert (outputs.resumed, outputs.first_tokens) == ((0,), (0,))
    engine.submit(0, request(1, 5, 3))
    end_ms, outputs = one_pass(engine, end_ms)
    assert (outputs.resumed, outputs.paused, outputs.first_tokens) == ((1,), (0,), (1,))
    end_ms, outputs = one_pass(engine, end_ms)
    assert (end_ms, outputs.resumed, outputs.paused) == (22.0, (0,), ())
    assert outputs.terminals == (Terminal(1, Status.COMPLETED),)


@pytest.mark.parametrize("merge", [False, True])
def test_a_chunk_and_what_fits_beside_it(merge: bool) -> None:
    engine = scheduler(sglang={"chunked_prefill_size": 8}, options={"merge_passes": merge})
    engine.submit(0, request(0, 12, 2))
    engine.submit(0, request(1, 6, 2))
    _, outputs = one_pass(engine)
    assert (outputs.resumed, [admission.ordinal for admission in outputs.admissions]) == ((), [0])
    _, outputs = one_pass(engine, 10.0)
    assert (outputs.resumed, [admission.ordinal for admission in outputs.admissions]) == ((0,), [1])
    assert outputs.committed_prefill_tokens == 8
    _, outputs = one_pass(engine, 20.0)
    assert (outputs.resumed, outputs.paused, outputs.admissions) == ((1,), (0,), ())


def test_a_request_without_output_reuses_its_whole_prompt_in_no_time() -> None:
    engine = scheduler()
    engine.submit(0, request(0, 8, 1))
    one_pass(engine)
    engine.submit(0, Request(1, 8, 0, ((FIRST, FIRST + 8),)))
    end_ms, outputs = one_pass(engine, 10.0)
    assert (end_ms, outputs.admissions) == (10.0, (Admission(1, 10.0, 8),))
    assert (outputs.resumed, outputs.terminals) == ((), (Terminal(1, Status.COMPLETED),))


@pytest.mark.parametrize("merge", [False, True])
def test_retraction_takes_the_request_with_the_fewest_tokens(merge: bool) -> None:
    engine = scheduler(pages=30, sglang={"clip_max_new_tokens": 0}, options={"merge_passes": merge})
    engine.submit(0, request(0, 10, 20))
    engine.submit(0, request(1, 10, 20))
    now_ms, _ = one_pass(engine)
    retracted: RankOutputs | None = None
    while retracted is None:
        now_ms, outputs = one_pass(engine, now_ms)
        retracted = outputs if outputs.preempted else None
    assert now_ms == 10.0 + 4.0 + 1.0
    assert (retracted.preempted, retracted.paused, retracted.resumed) == ((0,), (0,), ())
    while engine.has_work:
        now_ms, outputs = one_pass(engine, now_ms)
        if outputs.admissions:
            # The tokens that it had emitted are part of what is computed again, and none is its first.
            assert (outputs.admissions[0].ordinal, outputs.resumed, outputs.first_tokens) == (0, (0,), ())
    assert outputs.terminals == (Terminal(0, Status.COMPLETED),)


@pytest.mark.parametrize("merge", [False, True])
def test_first_tokens_without_pages_come_later(merge: bool) -> None:
    engine = scheduler(pages=12, sglang={"clip_max_new_tokens": 0}, options={"merge_passes": merge})
    engine.submit(0, request(0, 5, 3))
    engine.submit(0, request(1, 6, 4))
    _, outputs = one_pass(engine)
    assert (outputs.resumed, outputs.first_tokens, len(outputs.admissions)) == ((), (), 2)
    _, outputs = one_pass(engine, 10.0)
    assert (outputs.resumed, outputs.paused, outputs.first_tokens, outputs.preempted) == ((1,), (), (1,), (0,))


def test_rounds_without_prefill_pass_at_once_where_nobody_decodes() -> None:
    engine = scheduler(prefill_decode_interval=5, sglang={"chunked_prefill_size": 8})
    engine.submit(0, request(0, 12, 9))
    now_ms, _ = one_pass(engine)
    now_ms, outputs = one_pass(engine, now_ms)
    assert (now_ms, outputs.resumed) == (20.0, (0,))
    engine.submit(0, request(1, 4, 2))
    for _ in range(5):
        now_ms, outputs = one_pass(engine, now_ms)
        assert not outputs.admissions
    assert one_pass(engine, now_ms)[1].admissions == (Admission(1, 25.0, 0),)


def test_ranks_share_the_chunk_and_reserve_less() -> None:
    engine = scheduler(dp_size=2, sglang={"chunked_prefill_size": 8})
    engine.submit(0, request(0, 8, 2))
    engine.submit(1, request(1, 4, 2))
    assert engine.begin_pass(0.0).ends_ms.tolist() == [10.0]
    first, second = engine.end_pass(1)
    assert (first.resumed, second.resumed) == ((), (1,))


def test_bursts_take_the_place_of_single_tokens() -> None:
    engine = scheduler(aic_nextn=2, aic_nextn_accept_rates="1,1")
    engine.submit(0, request(0, 4, 6))
    _, outputs = one_pass(engine)
    assert (outputs.bursts, outputs.decode_forwards, outputs.first_tokens) == (((0, 1),), 0, (0,))
    _, outputs = one_pass(engine)
    assert (outputs.bursts, outputs.decode_forwards, outputs.accepted_tokens) == (((0, 3),), 1, 3)
    _, outputs = one_pass(engine)
    assert (outputs.bursts, outputs.accepted_tokens, len(outputs.terminals)) == (((0, 2),), 3, 1)


def test_a_run_ends_where_a_request_finishes_and_can_be_cut() -> None:
    engine = scheduler()
    engine.submit(0, request(0, 8, 9))
    engine.submit(0, request(1, 8, 12))
    now_ms, _ = one_pass(engine)
    run = engine.begin_pass(now_ms)
    assert (len(run.ends_ms), run.cut_on_submit) == (8, True)
    (outputs,) = engine.end_pass(3)
    assert (outputs.resumed, outputs.terminals) == ((), ())
    assert len(engine.begin_pass(13.0).ends_ms) == 5


def test_a_run_goes_on_while_the_head_of_the_queue_is_refused() -> None:
    engine = scheduler(pages=110)
    engine.submit(0, request(0, 20, 60))
    now_ms, _ = one_pass(engine)
    engine.submit(0, request(1, 20, 30))
    run = engine.begin_pass(now_ms)
    assert (len(run.ends_ms), run.cut_on_submit) == (59, False)


def test_a_run_ends_before_the_head_of_the_queue_can_be_admitted() -> None:
    def passes(*, merge: bool) -> int:
        engine = scheduler(pages=1000, options={"merge_passes": merge})
        engine.submit(0, request(0, 20, 600))
        now_ms, _ = one_pass(engine)
        engine.submit(0, request(1, 20, 542))
        count = 0
        while True:
            begun = engine.begin_pass(now_ms)
            (outputs,) = engine.end_pass(len(begun.ends_ms))
            if outputs.admissions:
                return count
            now_ms = begun.ends_ms[-1]
            count += len(begun.ends_ms)

    # The ratio decays faster than the cache fills.
    assert passes(merge=True) == passes(merge=False) == 8


@pytest.mark.parametrize(
    ("head", "rank", "reason"),
    [
        (50, {}, "50 tokens to compute and 3 reserved for output do not fit the KV cache of 40 tokens"),
        (20, {"sglang": {"max_prefill_tokens": 16}}, "a chunk of 20 tokens exceeds max_prefill_tokens 16"),
        (
            20,
            {"dp_size": 2, "page_size": 4, "sglang": {"chunked_prefill_size": 4}},
            "a chunk of 2 tokens is smaller than a page of 4",
        ),
    ],
    ids=["cache", "max_prefill_tokens", "share of the chunk"],
)
def test_an_impossible_head_is_rejected_with_a_reason(head: int, rank: dict[str, Any], reason: str) -> None:
    engine = scheduler(pages=40, **rank)
    engine.submit(0, request(0, head, 3))
    end_ms, outputs = one_pass(engine, 5.0)
    assert (end_ms, outputs.terminals) == (5.0, (Terminal(0, Status.REJECTED, reason),))
    assert not engine.has_work


@pytest.mark.parametrize("merge", [False, True])
def test_a_lone_request_without_a_page_is_rejected_and_keeps_its_tokens(merge: bool) -> None:
    engine = scheduler(pages=12, sglang={"clip_max_new_tokens": 0}, options={"merge_passes": merge})
    engine.submit(0, request(0, 10, 9))
    now_ms, outputs = one_pass(engine)
    assert outputs.first_tokens == (0,)
    now_ms, _ = one_pass(engine, now_ms)
    end_ms, outputs = one_pass(engine, now_ms)
    assert (end_ms, outputs.paused) == (11.0, (0,))
    reason = "token 13 of the only running request finds no page: the cache has 12"
    assert outputs.terminals == (Terminal(0, Status.REJECTED, reason),)
    engine.submit(0, request(1, 11, 1))
    assert one_pass(engine, end_ms)[1].terminals == (Terminal(1, Status.COMPLETED),)


def test_an_impossible_request_exhausts_the_rank_under_strict() -> None:
    engine = scheduler(pages=40, options={"strict": True})
    engine.submit(0, request(0, 50, 3))
    begun = engine.begin_pass(5.0)
    assert (begun.ends_ms.tolist(), begun.has_effect, begun.exhausted) == ([5.0], False, True)


def test_a_rank_that_comes_to_nothing_waits_for_the_others() -> None:
    engine = scheduler(pages=40, dp_size=2, options={"strict": True})
    engine.submit(0, request(0, 50, 3))
    engine.submit(1, request(1, 5, 2))
    for end_ms in (10.0, 11.0):
        begun = engine.begin_pass(end_ms)
        assert (begun.has_effect, begun.exhausted) == (True, False)
        engine.end_pass(1)
    assert engine.begin_pass(11.0).exhausted


def test_forward_pass_rows() -> None:
    engine = scheduler(max_num_seqs=2, options={"capture_metrics": True})
    for ordinal, inputs in enumerate((6, 10, 9)):
        engine.submit(0, request(ordinal, inputs, 4))
    row = one_pass(engine)[1].metrics
    assert row is not None
    assert (row.wall_time_s, row.num_prefill_requests, row.sum_prefill_tokens) == (0.01, 2, 16)
    assert (row.var_prefill_length, row.num_decode_requests) == (4.0, 0)
    assert (row.num_queued_prefill, row.sum_queued_prefill_tokens, row.num_queued_decode) == (1, 9, 0)
    row = one_pass(engine, 10.0)[1].metrics
    assert row is not None
    # The last pass of the run.
    assert (row.wall_time_s, row.num_prefill_requests, row.num_decode_requests) == (0.001, 0, 2)
    assert (row.sum_decode_kv_tokens, row.var_decode_kv_tokens) == (7 + 11 + 2 * 2, 4.0)


def test_kv_events_tell_what_is_stored_and_evicted() -> None:
    engine = scheduler(pages=8, options={"capture_kv_events": True})
    engine.submit(0, request(0, 4, 2))
    _, outputs = one_pass(engine)
    # Pages of generated tokens are the request's own, and nobody hears of them.
    assert outputs.kv_events == (BlocksStored(0, None, ((1000, 1004),)),)
    _, outputs = one_pass(engine, 10.0)
    assert outputs.kv_events == ()
    engine.submit(0, request(1, 6, 1))
    _, outputs = one_pass(engine, 11.0)
    assert outputs.kv_events == (BlocksRemoved(1, ((1002, 1004),)), BlocksStored(2, None, ((2000, 2006),)))


def test_contents_computed_twice_are_stored_once() -> None:
    engine = scheduler(options={"capture_kv_events": True}, page_size=4)
    engine.submit(0, Request(0, 8, 1, ((0, 2),)))
    engine.submit(0, Request(1, 12, 1, ((0, 3),)))
    _, outputs = one_pass(engine)
    assert outputs.kv_events == (BlocksStored(0, None, ((0, 2),)), BlocksStored(1, 1, ((2, 3),)))


def test_no_kv_events_without_a_consumer_or_without_prefix_caching() -> None:
    for engine in (scheduler(), scheduler(enable_prefix_caching=False, options={"capture_kv_events": True})):
        engine.submit(0, request(0, 9, 2))
        assert one_pass(engine)[1].kv_events == ()


@pytest.mark.parametrize("seed", range(10))
def test_stored_and_removed_contents_balance(seed: int) -> None:
    rng = random.Random(seed)
    size = rng.choice((1, 4))
    engine = scheduler(
        pages=80 // size,
        page_size=size,
        sglang={"clip_max_new_tokens": rng.choice((0, 4096)), "chunked_prefill_size": 16},
        options={"capture_kv_events": True},
    )
    resident: set[int] = set()
    now_ms = 0.0
    for ordinal in range(60):
        inputs = rng.randint(1, 40)
        shared = rng.randint(0, inputs)
        spans = [(0, shared // size), (FIRST * (ordinal + 1), FIRST * (ordinal + 1) + inputs // size - shared // size)]
        engine.submit(
            0,
            Request(ordinal, inputs, rng.randint(0, 30), tuple(span for span in spans if span[0] < span[1])),
        )
        for _ in range(rng.randint(0, 30)):
            if not engine.has_work:
                break
            now_ms, outputs = one_pass(engine, now_ms)
            for event in outputs.kv_events:
                blocks = {identity for start, end in event.spans for identity in range(start, end)}
                if isinstance(event, BlocksStored):
                    assert event.parent is None or event.parent in resident
                    resident |= blocks
                else:
                    assert blocks <= resident
                    resident -= blocks
                assert len(blocks) == sum(end - start for start, end in event.spans)
        assert len(resident) <= 80 // size
