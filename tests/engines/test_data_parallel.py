"""Attention-DP: the ranks of a worker behind one barrier."""

from __future__ import annotations

from typing import Any

import pytest

from engines.data_parallel import RankGroup
from engines.engine import EngineOptions
from engines.timing.durations import Durations
from engines.timing.fixed import FixedModel
from engines.vllm import VllmScheduler
from messages.requests import Request
from messages.spec import RankSpec
from tests.scenario import cluster, messages_of


def group(ranks: int, **rank: Any) -> RankGroup:
    spec = RankSpec(num_gpu_blocks=32, block_size=4, **rank)
    durations = Durations.of_rank(spec, FixedModel(10.0, 1.0))
    schedulers = [
        VllmScheduler(spec, durations, EngineOptions(dp_rank=dp_rank, dp_size=ranks)) for dp_rank in range(ranks)
    ]
    return RankGroup(schedulers, None)


def request(ordinal: int, outputs: int) -> Request:
    return Request(ordinal, 8, outputs, ())


@pytest.mark.parametrize("step", [False, True])
def test_a_rank_waits_for_the_end_of_its_siblings_pass(step: bool) -> None:
    spec = cluster((0.0, 8, 4), (2.0, 12, 2))
    spec["engine"]["dp_size"] = 2
    _, report = messages_of(spec, step=step)
    assert report.requests is not None
    first, second = report.requests
    # The second request reaches an idle rank at 2 ms, and starts with the pass that begins at 10 ms.
    assert (second.first_admit_ms, second.first_token_ms) == (10.0, 20.0)
    # The first one decodes its second token in that pass, which takes as long as its sibling's prefill.
    assert (first.ttst_ms, first.terminal_time_ms) == (10.0, 22.0)
    assert (first.decode_worker_idx, second.decode_worker_idx) == (0, 1)


def test_a_run_lasts_as_long_as_every_ranks() -> None:
    engine = group(2)
    engine.submit(0, request(0, 9))
    engine.submit(1, request(1, 5))
    begun = engine.begin_pass(0.0)
    engine.end_pass(1)
    assert begun.ends_ms.tolist() == [10.0]
    run = engine.begin_pass(10.0)
    assert run.ends_ms.tolist() == [11.0, 12.0, 13.0, 14.0]
    outputs = engine.end_pass(4)
    assert [(rank.dp_rank, len(rank.terminals)) for rank in outputs] == [(0, 0), (1, 1)]


def test_a_run_is_cut_for_an_idle_rank_but_not_behind_full_seats() -> None:
    engine = group(2, max_num_seqs=1)
    engine.submit(0, request(0, 9))
    engine.begin_pass(0.0)
    engine.end_pass(1)
    assert engine.begin_pass(10.0).cut_on_submit
    engine.end_pass(1)
    engine.submit(1, request(1, 9))
    engine.begin_pass(11.0)
    engine.end_pass(1)
    assert not engine.begin_pass(21.0).cut_on_submit


def test_all_but_every_nth_pass_of_a_group_leaves_prompts_to_wait() -> None:
    spec = cluster((0.0, 8, 12), (0.5, 8, 12), (10.5, 8, 2), prefill_schedule_interval=4)
    spec["engine"]["dp_size"] = 2
    _, report = messages_of(spec)
    assert report.requests is not None
    # Passes begin at 0, 10, 20, 21 and 22 ms; those with numbers 0 and 4 are free to prefill on a decoding rank.
    assert [record.first_admit_ms for record in report.requests] == [0.0, 10.0, 22.0]
