"""Small runs, and all that their timelines tell, track by track."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.scenario import cluster, two_pools
from tests.timeline.listing import listing
from tests.timeline.trace_format import events_of


def test_passes_requests_and_counters_of_one_worker(tmp_path: Path) -> None:
    """b waits for the end of the first pass, and is prefilled while a decodes. Then both decode together."""
    events = events_of(cluster((0.0, 9, 3), (2.0, 4, 2)), tmp_path)
    assert listing(events, "X") == [
        "agg worker 0: 0-10 prefill passes 1, prompt_tokens 9, admitted 1, output_tokens 1",
        "agg worker 0: 10-21 mixed passes 1, prompt_tokens 4, admitted 1, decode_requests 1, output_tokens 2",
        "agg worker 0: 21-22 decode passes 1, decode_requests 2, output_tokens 2",
    ]
    assert listing(events, "be") == [
        "requests: 0 a input_tokens 9, requested_output_tokens 3, output_tokens 3, status completed",
        "requests: 0 prefill rank agg worker 0, reused_tokens 0",
        "requests: 10 end of prefill",
        "requests: 10 decode",
        "requests: 22 end of decode",
        "requests: 22 end of a",
        "requests: 2 b input_tokens 4, requested_output_tokens 2, output_tokens 2, status completed",
        "requests: 2 queued",
        "requests: 10 end of queued",
        "requests: 10 prefill rank agg worker 0, reused_tokens 0",
        "requests: 21 end of prefill",
        "requests: 21 decode",
        "requests: 22 end of decode",
        "requests: 22 end of b",
    ]
    assert sorted(listing(events, "C")) == [
        "agg worker 0 KV blocks: 0 used 3, cached 0",
        "agg worker 0 KV blocks: 10 used 4, cached 0",
        "agg worker 0 KV blocks: 22 used 0, cached 3",
        "agg worker 0 requests: 0 running 1, waiting 0",
        "agg worker 0 requests: 10 running 2, waiting 0",
        "agg worker 0 requests: 2 running 1, waiting 1",
        "agg worker 0 requests: 22 running 0, waiting 0",
        "agg workers: 0 active 1, starting 0, draining 0",
        "agg workers: 22 active 1, starting 0, draining 0",
    ]
    assert listing(events, "isf") == []


def test_a_preempted_request_waits_and_is_prefilled_again(tmp_path: Path) -> None:
    events = events_of(cluster((0.0, 12, 9), (0.0, 12, 9), blocks=7), tmp_path)
    assert listing(events, "Xi") == [
        "agg worker 0: 0-10 prefill passes 1, prompt_tokens 24, admitted 2, output_tokens 2",
        "agg worker 0: 10-11 decode passes 1, decode_requests 1, output_tokens 1",
        "agg worker 0: 10 preemption requests ['b']",
        "agg worker 0: 11-18 decode passes 7, decode_requests 1, output_tokens 7",
        "agg worker 0: 11 eviction blocks 1",
        "agg worker 0: 18-29 prefill passes 1, prompt_tokens 5, admitted 1, output_tokens 1",
        "agg worker 0: 29-36 decode passes 7, decode_requests 1, output_tokens 7",
        "agg worker 0: 18 eviction blocks 3",
    ]
    assert listing(events, "be")[6:] == [
        "requests: 0 b input_tokens 12, requested_output_tokens 9, output_tokens 9, status completed",
        "requests: 0 prefill rank agg worker 0, reused_tokens 0",
        "requests: 10 end of prefill",
        "requests: 10 preempted",
        "requests: 18 end of preempted",
        "requests: 18 prefill rank agg worker 0, reused_tokens 8",
        "requests: 29 end of prefill",
        "requests: 29 decode",
        "requests: 36 end of decode",
        "requests: 36 end of b",
    ]


def test_a_retracted_request_of_sglang(tmp_path: Path) -> None:
    spec = cluster(
        (0.0, 5, 3), (0.0, 6, 4), blocks=12, backend="sglang", sglang={"clip_max_new_tokens": 0}, block_size=1
    )
    events = events_of(spec, tmp_path)
    assert listing(events, "i")[0] == "agg worker 0: 10 retraction requests ['a']"


def test_a_request_that_can_never_run(tmp_path: Path) -> None:
    events = events_of(cluster((0.0, 9, 3), (2.0, 40, 2), blocks=6), tmp_path)
    reason = "reason 40 tokens need 10 KV blocks, the cache has 6"
    assert listing(events, "i") == [f"rejected and failed: 11 rejected request b, {reason}"]
    assert listing(events, "be")[:4] == [
        f"requests: 2 b input_tokens 40, requested_output_tokens 2, output_tokens 0, status rejected, {reason}",
        "requests: 2 queued",
        "requests: 11 end of queued",
        "requests: 11 end of b",
    ]


def test_cached_blocks_make_room(tmp_path: Path) -> None:
    events = events_of(cluster((0.0, 12, 1), (20.0, 12, 1), (40.0, 12, 1), blocks=7), tmp_path)
    assert listing(events, "i") == ["agg worker 0: 40 eviction blocks 2"]
    assert [line for line in listing(events, "C") if "KV" in line] == [
        "agg worker 0 KV blocks: 10 used 0, cached 3",
        "agg worker 0 KV blocks: 30 used 0, cached 6",
        "agg worker 0 KV blocks: 50 used 0, cached 7",
    ]


def test_a_prompt_is_handed_over(tmp_path: Path) -> None:
    """The arrow leads from the pass that builds the prompt to the first that decodes it."""
    events = events_of(two_pools(cluster((0.0, 9, 3)), latency_ms=5.0), tmp_path)
    assert listing(events, "Xsf") == [
        "prefill worker 0: 0-10 prefill passes 1, prompt_tokens 9, admitted 1, output_tokens 0",
        "decode worker 0: 15-18 decode passes 3, decode_requests 1, output_tokens 3",
        "prefill worker 0: 9.999 handoff from",
        "decode worker 0: 15 handoff to",
    ]
    assert listing(events, "be") == [
        "requests: 0 a input_tokens 9, requested_output_tokens 3, output_tokens 3, status completed",
        "requests: 0 prefill rank prefill worker 0, reused_tokens 0",
        "requests: 10 end of prefill",
        "requests: 10 transfer",
        "requests: 15 end of transfer",
        "requests: 15 decode rank decode worker 0",
        "requests: 18 end of decode",
        "requests: 18 end of a",
    ]
    assert [line for line in listing(events, "C") if "workers" not in line] == [
        "prefill worker 0 requests: 0 running 1, waiting 0, held 0",
        "prefill worker 0 requests: 10 running 0, waiting 0, held 1",
        "prefill worker 0 KV blocks: 0 used 3, cached 0",
        "decode worker 0 requests: 10 running 0, waiting 1",
        "decode worker 0 KV blocks: 10 used 3, cached 0",
        "decode worker 0 requests: 15 running 1, waiting 0",
        "prefill worker 0 requests: 15 running 0, waiting 0, held 0",
        "prefill worker 0 requests: 18 running 0, waiting 0, held 0",
        "prefill worker 0 KV blocks: 15 used 0, cached 2",
        "prefill worker 0 KV blocks: 18 used 0, cached 2",
        "decode worker 0 requests: 18 running 0, waiting 0",
        "decode worker 0 KV blocks: 18 used 0, cached 2",
    ]


def test_a_destination_is_waited_for(tmp_path: Path) -> None:
    """With SGLang before the prompt is built, with vLLM after it: until a is over."""
    requests = [(0.0, 9, 9), (1.0, 9, 3)]

    def phases(spec: dict[str, Any]) -> list[str]:
        lines = listing(events_of(two_pools(spec, latency_ms=5.0, num_gpu_blocks=5), tmp_path), "b")
        _, *second = lines[next(place for place, line in enumerate(lines) if " b input" in line) :]
        return [line.removeprefix("requests: ").split(" rank")[0] for line in second]

    assert phases(cluster(*requests)) == ["1 queued", "10 prefill", "20 reserve", "24 transfer", "29 decode"]
    assert phases(cluster(*requests, backend="sglang")) == ["1 reserve", "24 prefill", "34 transfer", "39 decode"]


def test_ranks_of_a_worker_share_their_passes(tmp_path: Path) -> None:
    spec = cluster((0.0, 9, 3), (2.0, 4, 2))
    spec["engine"]["dp_size"] = 2
    assert listing(events_of(spec, tmp_path), "X") == [
        "agg worker 0 rank 0: 0-10 prefill passes 1, prompt_tokens 9, admitted 1, output_tokens 1",
        "agg worker 0 rank 0: 10-20 decode passes 1, decode_requests 1, output_tokens 1",
        "agg worker 0 rank 1: 10-20 prefill passes 1, prompt_tokens 4, admitted 1, output_tokens 1",
        "agg worker 0 rank 0: 20-21 decode passes 1, decode_requests 1, output_tokens 1",
        "agg worker 0 rank 1: 20-21 decode passes 1, decode_requests 1, output_tokens 1",
    ]


def test_a_pool_grows_and_shrinks(tmp_path: Path) -> None:
    ticks = [{"at_ms": 5.0, "target_decode": 2}, {"at_ms": 12.0, "target_decode": 1}]
    spec = {
        **cluster((0.0, 9, 3), (9.0, 4, 9)),
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1, "startup_delay_ms": 3.0}},
        "adapters": {"scaling": {"provider": "schedule", "config": {"ticks": ticks}}},
    }
    events = events_of(spec, tmp_path)
    assert listing(events, "i") == [
        "agg scaling: 5 scaling_decision target 2, tick 0",
        "agg scaling: 5 worker_starting worker 1, cause planner_scale",
        "agg scaling: 8 worker_ready worker 1, cause worker_ready_event",
        "agg scaling: 12 scaling_decision target 1, tick 1",
        "agg scaling: 12 worker_draining worker 1, cause planner_scale",
        "agg scaling: 27 worker_removed worker 1, cause drain_settlement",
    ]
    assert [line for line in listing(events, "C") if "workers" in line or "worker 1 KV" in line] == [
        "agg workers: 0 active 1, starting 0, draining 0",
        "agg workers: 5 active 1, starting 1, draining 0",
        "agg workers: 8 active 2, starting 0, draining 0",
        "agg worker 1 KV blocks: 9 used 1, cached 0",
        "agg workers: 12 active 1, starting 0, draining 1",
        "agg workers: 27 active 1, starting 0, draining 0",
        "agg worker 1 KV blocks: 27 used 0, cached 0",
    ]
