"""Merging runs of identical decode passes changes no result: it equals stepping through every pass."""

from __future__ import annotations

import json
import tempfile
from collections import defaultdict, deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from actors import replay
from actors.emission import EmittingRequests
from actors.routing.placement import Decision, Placement, PlacementPolicy
from actors.routing.round_robin import RoundRobin
from messages.envelope import Envelope, Phase
from messages.kv import BlocksRemoved, EvictionForecast
from messages.passes import PassCompleted, PassOutputs, StartPass
from messages.requests import Request
from tests.comparison import simulated_figures

Entry = tuple[Any, ...]


class KvAware(RoundRobin):
    """Round robin that has KV events produced."""

    consumes_kv_events = True


class Patient(RoundRobin):
    """Lets requests wait while more than two are placed, and releases them at first tokens and ends."""

    follows_requests = True

    def __init__(self) -> None:
        super().__init__()
        self._waiting: deque[Request] = deque()
        self._placed: set[int] = set()

    def place(self, request: Request, now_ms: float) -> Decision:
        self._waiting.append(request)
        return Decision(None, self._release(now_ms))

    def prefill_completed(self, ordinal: int, now_ms: float) -> tuple[Placement, ...]:
        self._placed.discard(ordinal)
        return self._release(now_ms)

    def request_terminal(self, ordinal: int, now_ms: float) -> tuple[Placement, ...]:
        self._placed.discard(ordinal)
        return self._release(now_ms)

    def _release(self, now_ms: float) -> tuple[Placement, ...]:
        released = []
        while self._waiting and len(self._placed) < 2:
            request = self._waiting.popleft()
            placement = super().place(request, now_ms).placement
            assert placement is not None
            self._placed.add(request.ordinal)
            released.append(placement)
        return tuple(released)


TABLE = """\
prefill_tokens,prefill_kv_tokens,decode_requests,decode_kv_tokens,ms
4,0,,,2.1
30,0,,,7.3
12,16,,,4.9
,,1,8,1.2
,,1,60,1.31
,,4,100,1.77
20,0,4,100,6.5
"""
CALIBRATION = {
    "timing_model": {"type": "table", "path": "table.csv"},
    "adjust": {"decode_scale": 1.07, "pass_overhead_ms": 0.25},
    "errors": {"ttft_mean": 0.01},
}

POLICIES: dict[str, Callable[[], PlacementPolicy | None]] = {
    "of the spec": lambda: None,
    "KV-aware": KvAware,
    "patient": Patient,
    "KV router": lambda: None,
}


@st.composite
def kv_routers(draw: st.DrawFn) -> dict[str, Any]:
    """Configurations of the KV router; half of them let requests wait."""
    config = {
        "router_queue_threshold": draw(st.sampled_from((None, None, 0.0, 0.01))),
        "router_queue_policy": draw(st.sampled_from(("fcfs", "lcfs", "wspt"))),
        "kv_event_lag_ms": draw(st.sampled_from((0.0, 0.0, 1.0, 17.3))),
        "overlap_score_credit_decay": draw(st.sampled_from((0.0, 4.0))),
        "router_temperature": draw(st.sampled_from((0.0, 0.0, 1.0))),
        "decode_active_request_weight": draw(st.sampled_from((0.0, 2.5))),
    }
    return {"placement": {"provider": "kv_router", "config": config}}


@st.composite
def timing_models(draw: st.DrawFn) -> dict[str, Any]:
    kind = draw(st.sampled_from(("polynomial", "fixed", "profile", "table", "calibrated")))
    if kind == "fixed":
        milliseconds = st.sampled_from((0.0, 0.7, 1.0, 10.0))
        return {"type": "fixed", "prefill_ms": draw(milliseconds), "decode_ms": draw(milliseconds)}
    if kind == "profile":
        return {"type": "external", "provider": "dynamo_profile", "config": {"path": "profile.npz"}}
    if kind == "calibrated":
        return {"type": "calibrated", "path": "timing.json"}
    adjustments = (None, {"prefill_scale": 1.3, "decode_scale": 0.7, "pass_overhead_ms": 0.4})
    path = {"path": "table.csv"} if kind == "table" else {}
    return {"type": kind, **path, "adjust": draw(st.sampled_from(adjustments))}


@st.composite
def traces(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows on a coarse time grid, so that arrivals meet pass boundaries; prompts share prefixes."""
    rows = []
    known = set()
    authored = draw(st.booleans())
    for index in range(draw(st.integers(1, 12))):
        ids = draw(st.lists(st.integers(0, 3), min_size=1, max_size=6))
        outputs = draw(st.integers(0, 25))
        row: dict[str, Any] = {
            "timestamp": draw(st.integers(0, 60)) if draw(st.booleans()) else draw(st.floats(0.0, 60.0)),
            "hash_ids": ids,
            "input_length": draw(st.integers(8 * len(ids) - 7, 8 * len(ids))),
            "output_length": outputs,
            "session_id": draw(st.sampled_from(("x", "y", f"s{index}"))),
        }
        if authored:
            row["output_token_ids"] = [index % 2] * outputs
        if row["session_id"] in known:
            row["delay"] = draw(st.sampled_from((0, 1, 10.5)))
        known.add(row["session_id"])
        rows.append(row)
    return rows


@st.composite
def sglang_fields(draw: st.DrawFn, dp_size: int) -> dict[str, Any]:
    size = draw(st.sampled_from((1, 2, 4, 8)))
    return {
        "block_size": size,
        "num_gpu_blocks": draw(st.integers(20, 300)) // size,
        "enable_chunked_prefill": True,
        "prefill_decode_interval": draw(st.sampled_from((0, 0, 1, 3))),
        "sglang": {
            "schedule_policy": draw(st.sampled_from(("fifo", "lpm"))),
            "max_prefill_tokens": draw(st.sampled_from((30, 16384))),
            "chunked_prefill_size": dp_size * size * draw(st.sampled_from((1, 3, 8, 1024))),
            "clip_max_new_tokens": draw(st.sampled_from((0, 3, 4096))),
            "schedule_conservativeness": draw(st.sampled_from((0.0, 0.3, 1.0, 2.0))),
        },
    }


@st.composite
def specs(draw: st.DrawFn, backends: tuple[str, ...]) -> dict[str, Any]:
    backend = draw(st.sampled_from(backends))
    dp_size = draw(st.sampled_from((1, 1, 2, 3)))
    rank = {
        "backend": backend,
        "block_size": draw(st.sampled_from((2, 4, 8))),
        "num_gpu_blocks": draw(st.integers(2, 60)),
        "max_num_seqs": draw(st.sampled_from((1, 2, 4, None))),
        "max_num_batched_tokens": draw(st.sampled_from((1, 8, 30, 512, None))),
        "max_model_len": draw(st.sampled_from((None, None, 40))),
        "prefill_schedule_interval": draw(st.integers(1, 4)) if backend == "vllm" else 1,
        "enable_prefix_caching": draw(st.booleans()),
        "enable_chunked_prefill": draw(st.booleans()),
        "preemption_mode": draw(st.sampled_from(("lifo", "fifo"))),
        "speedup_ratio": draw(st.sampled_from((1.0, 1.0, 2.5))),
        "timing_model": draw(timing_models()),
    }
    if backend == "sglang":
        rank |= draw(sglang_fields(dp_size))
    return {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": draw(st.integers(1, 3))}},
        "engine": {"rank": rank, "dp_size": dp_size},
        "workload": {
            "kind": "trace",
            "path": "trace.jsonl",
            "format": draw(st.sampled_from(("mooncake", "mooncake-delta"))),
            "block_size": 8,
        },
        "max_in_flight": draw(st.sampled_from((None, None, 1, 3))),
        "max_sim_time_ms": draw(st.sampled_from((None, None, 50.0))),
        "adapters": draw(kv_routers()),
    }


@settings(max_examples=200)
@given(spec=specs(("vllm", "vllm", "trtllm")), trace=traces(), policy=st.sampled_from(sorted(POLICIES)))
def test_merged_equals_stepped(spec: dict[str, Any], trace: list[dict[str, Any]], policy: str) -> None:
    _assert_merged_equals_stepped(spec, trace, policy)


@st.composite
def two_pool_specs(draw: st.DrawFn, backends: tuple[str, ...]) -> dict[str, Any]:
    """As `specs`, with a decode pool that has a cache and limits of its own."""
    spec = draw(specs(backends))
    prefill = spec["engine"]
    if draw(st.booleans()):
        prefill["rank"] |= {
            "kv_transfer_bytes_per_token": draw(st.sampled_from((1_000_000, 131_072))),
            "kv_transfer_bandwidth": draw(st.sampled_from((1.0, 2.0, 40.0))),
            "kv_transfer_timing_mode": draw(st.sampled_from(("full_prompt", "destination_missing"))),
        }
    chunk = prefill["rank"].get("sglang", {}).get("chunked_prefill_size", 2)
    decode = {
        "rank": prefill["rank"] | {"num_gpu_blocks": draw(st.integers(2, 60)), "max_num_seqs": draw(st.integers(1, 6))},
        "dp_size": draw(st.integers(1, min(chunk, 2))),
    }
    if "sglang" in decode["rank"]:
        # The ranks share a chunk, of which each must have something.
        fields = decode["rank"]["sglang"]
        chunk = decode["dp_size"] * fields["chunked_prefill_size"]
        decode["rank"]["sglang"] = fields | {"chunked_prefill_size": chunk}
    workers = [{"initial_workers": draw(st.integers(1, 2))} for _ in range(2)]
    topology = {"kind": "disaggregated", "prefill": workers[0], "decode": workers[1]}
    return {**spec, "topology": topology, "engine": {"prefill": prefill, "decode": decode}}


@settings(max_examples=150)
@given(spec=two_pool_specs(("vllm", "trtllm")), trace=traces(), policy=st.sampled_from(("of the spec", "KV router")))
def test_merged_equals_stepped_on_two_pools(spec: dict[str, Any], trace: list[dict[str, Any]], policy: str) -> None:
    _assert_merged_equals_stepped(spec, trace, policy)


@settings(max_examples=150)
@given(spec=two_pool_specs(("sglang",)), trace=traces(), policy=st.sampled_from(("of the spec", "KV router")))
def test_merged_equals_stepped_on_two_pools_with_sglang(
    spec: dict[str, Any], trace: list[dict[str, Any]], policy: str
) -> None:
    _assert_merged_equals_stepped(spec, trace, policy)


@settings(max_examples=200)
@given(spec=specs(("sglang",)), trace=traces(), policy=st.sampled_from(sorted(POLICIES)))
def test_merged_equals_stepped_with_sglang(spec: dict[str, Any], trace: list[dict[str, Any]], policy: str) -> None:
    _assert_merged_equals_stepped(spec, trace, policy)


def _assert_merged_equals_stepped(spec: dict[str, Any], trace: list[dict[str, Any]], policy: str) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if policy != "KV router":
            spec = {**spec, "adapters": {}}
        (folder / "spec.json").write_text(json.dumps(spec))
        (folder / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in trace))
        _write_profile(folder / "profile.npz")
        (folder / "table.csv").write_text(TABLE)
        (folder / "timing.json").write_text(json.dumps(CALIBRATION))
        merged, stepped = (_run(folder / "spec.json", step, policy) for step in (False, True))
    for ours, theirs in zip(merged, stepped, strict=True):
        assert ours == theirs


def _run(path: Path, step: bool, policy: str) -> tuple[Any, ...]:
    log: list[Envelope] = []
    report = replay(path, step=step, placement=POLICIES[policy](), observe=log.append)
    return simulated_figures(report), report.requests, _conversation(log), _passes(log)


def _conversation(log: list[Envelope]) -> list[Entry]:
    """Everything but passes, in order."""
    return [
        (envelope.at_ms, envelope.round, envelope.phase, envelope.sender, envelope.receiver, envelope.message)
        for envelope in log
        if not isinstance(envelope.message, StartPass | PassCompleted | PassOutputs | EvictionForecast)
        and envelope.sender != "system"
    ]


def _passes(log: list[Envelope]) -> list[Entry]:
    """Start, end and outputs of every single pass, merged ones spelled out."""
    entries: list[Entry] = []
    # The ranks of a worker start together, so the outputs of each tell of the same starts.
    starts: set[Entry] = set()
    emitting: defaultdict[str, EmittingRequests] = defaultdict(EmittingRequests)
    forecasts: dict[tuple[str, int], EvictionForecast] = {}
    for envelope in log:
        message = envelope.message
        if isinstance(message, StartPass):
            starts.add((envelope.at_ms, envelope.receiver, "start"))
        elif isinstance(message, PassOutputs) and envelope.receiver == "collector":
            worker = envelope.sender
            emitted = sorted(emitting[worker].update(message))
            last = len(message.ends_ms) - 1
            for index, end_ms in enumerate(message.ends_ms):
                if index < last:
                    starts.add((end_ms, worker, "start"))
                instant = envelope.phase is Phase.START
                entries.append((end_ms, worker, "instant end" if instant else "end", emitted))
            entries += [(message.ends_ms[last], worker, terminal) for terminal in message.terminals]
            forecast = forecasts.pop((worker, message.dp_rank), None)
            entries += [(*change, worker, message.dp_rank) for change in _cache_changes(message, forecast)]
        elif isinstance(message, EvictionForecast):
            forecasts[envelope.sender, message.dp_rank] = message
    return sorted((*entries, *starts), key=repr)


def _cache_changes(outputs: PassOutputs, forecast: EvictionForecast | None) -> list[Entry]:
    """(when, what, block) of every block stored or removed in a run, removed ones as they were foretold, if so."""
    removed: list[int] = []
    changes: list[Entry] = []
    for event in outputs.kv_events:
        blocks = [identity for start, end in event.spans for identity in range(start, end)]
        if isinstance(event, BlocksRemoved):
            removed += blocks
        else:
            changes += [(outputs.ends_ms[-1], "stored", block) for block in blocks]
    if forecast is None:
        return changes + [(outputs.ends_ms[-1], "removed", block) for block in removed]
    order = [
        span[1] - 1 - position if span is not None else None
        for blocks, span in forecast.evictions
        for position in range(blocks)
    ]
    counts = forecast.evicted_blocks[: len(outputs.ends_ms)]
    foretold = [block for block in order[: counts[-1]] if block is not None]
    assert sorted(foretold) == sorted(removed)
    for before, after, end_ms in zip((0, *counts), counts, outputs.ends_ms, strict=False):
        changes += [(end_ms, "removed", block) for block in order[before:after] if block is not None]
    return changes


def _write_profile(path: Path) -> None:
    np.savez(
        path,
        prefill_isl=np.array([4.0, 20.0, 50.0]),
        prefill_ttft_ms=np.array([2.0, 5.5, 9.0]),
        decode_active_kv_tokens=np.array([8.0, 60.0, 200.0]),
        decode_context_length=np.array([4.0, 40.0]),
        decode_itl=np.array([[1.0, 1.7], [2.0, 2.9], [5.1, 7.7]]),
    )
