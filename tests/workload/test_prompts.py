from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.prompts import EMPTY_HISTORY, TokenIdentities, TraceBlockIdentities
from messages.requests import Span
from tests.workload.builders import shared_blocks, spelled_out

Prompt = tuple[list[int], int]

SIZES = st.integers(1, 9)
IDS = st.lists(st.integers(0, 2), min_size=1, max_size=8)


def tokens_of(prompt: Prompt, trace_block_size: int) -> list[int]:
    hash_ids, length = prompt
    return [hash_id for hash_id in hash_ids for _ in range(trace_block_size)][:length]


def common_tokens(left: list[int], right: list[int]) -> int:
    return next((i for i, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def assert_spans_follow_lines(prompts: list[tuple[Span, ...]]) -> None:
    """Where a span begins, a span of any other prompt begins too, or has not come by."""
    starts = {start for spans in prompts for start, _ in spans}
    assert all(starts.isdisjoint(range(start + 1, end)) for spans in prompts for start, end in spans)


@given(SIZES, SIZES, st.lists(st.tuples(IDS, st.floats(0, 1)), min_size=2, max_size=5), st.sampled_from([None, 3]))
def test_hash_id_prompts_share_as_many_blocks_as_their_spelled_out_tokens(
    trace_block_size: int, block_size: int, drawn: list[tuple[list[int], float]], max_blocks: int | None
) -> None:
    identities = TraceBlockIdentities(trace_block_size, block_size, max_blocks)
    prompts = [(ids, round(share * len(ids) * trace_block_size)) for ids, share in drawn]
    resolved = [identities.identities(*prompt) for prompt in prompts]
    limit = 10**9 if max_blocks is None else max_blocks
    for prompt, spans in zip(prompts, resolved, strict=True):
        tokens = tokens_of(prompt, trace_block_size)
        blocks = spelled_out(spans)
        assert len(blocks) == min(len(tokens) // block_size, limit)
        assert len(set(blocks)) == len(blocks)
        assert all(block >= 0 for block in blocks)
        for other, other_spans in zip(prompts, resolved, strict=True):
            common = common_tokens(tokens, tokens_of(other, trace_block_size))
            shared = min(common // block_size, limit)
            assert shared_blocks(spans, other_spans) == shared
            assert set(blocks[shared:]).isdisjoint(spelled_out(other_spans)[shared:])
    assert_spans_follow_lines(resolved)


@given(SIZES, st.lists(st.lists(st.lists(st.integers(0, 1), max_size=12), max_size=4), min_size=2, max_size=4))
def test_token_histories_share_as_many_blocks_as_their_tokens(block_size: int, grown: list[list[list[int]]]) -> None:
    identities = TokenIdentities(block_size)
    resolved = []
    for parts in grown:
        history = EMPTY_HISTORY
        for part in parts:
            history = identities.extend(history, np.array(part, np.uint32))
        tokens = [token for part in parts for token in part]
        assert history.spans == identities.identities(np.array(tokens, np.uint32))
        assert history.blocks == len(spelled_out(history.spans)) == len(tokens) // block_size
        assert history.tail.tolist() == tokens[history.blocks * block_size :]
        resolved.append((tokens, history.spans))
    for tokens, spans in resolved:
        for other, other_spans in resolved:
            assert shared_blocks(spans, other_spans) == common_tokens(tokens, other) // block_size
    assert_spans_follow_lines([spans for _, spans in resolved])


def test_a_repeated_token_and_a_block_of_its_bytes_do_not_collide() -> None:
    identities = TokenIdentities(2)
    mixed = np.array([7, 8], np.uint32)
    same = np.array([7, 7], np.uint32)
    assert len({identities.identities(mixed), identities.identities(same)}) == 2


def test_fresh_prompts_share_nothing_with_any_other() -> None:
    identities = TraceBlockIdentities(8, 4)
    known = identities.identities([1, 2], 16)
    first, second = identities.fresh(23), identities.fresh(23)
    after = identities.identities([1, 3], 16)
    assert len(spelled_out(first)) == len(spelled_out(second)) == 5
    assert len({identity for spans in (known, first, second, after) for identity in spelled_out(spans)}) == 16


def test_one_trace_block_of_equal_tokens_is_cut_into_distinct_blocks() -> None:
    assert len(set(spelled_out(TraceBlockIdentities(512, 64).identities([5], 512)))) == 8


def test_trace_blocks_beyond_any_prompt_need_neither_time_nor_memory() -> None:
    identities = TraceBlockIdentities(10**18, 64, max_blocks=16)
    assert len(spelled_out(identities.identities([1], 10**17))) == 16
    assert len(spelled_out(identities.fresh(10**17))) == 16
    assert shared_blocks(identities.identities([1], 640), identities.identities([1], 320)) == 5


def test_too_few_hash_ids_are_refused() -> None:
    with pytest.raises(ValueError, match="2 hash ids are needed, got 1"):
        TraceBlockIdentities(8, 4).identities([1], 16)
