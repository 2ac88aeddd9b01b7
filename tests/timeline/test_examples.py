"""Timelines of all sorts of clusters keep the rules of the format, tell of every pass, and change no result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import replay
from actors.commands.examples import example_names, example_path
from messages.envelope import Envelope
from messages.passes import PassOutputs
from messages.report import ReplayReport
from tests.scenario import cluster, two_pools
from tests.timeline.trace_format import Event, events_of, of_kind

_BURST = [(float(at_ms), 9 + 5 * (at_ms % 4), 1 + at_ms % 7) for at_ms in range(0, 40, 2)]
_TIGHT = {"blocks": 14, "workers": 2}


def _with(spec: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {**spec, **changes}


def _ranks(spec: dict[str, Any], **engine: Any) -> dict[str, Any]:
    return _with(spec, engine={**spec["engine"], **engine})


_SGLANG = {"backend": "sglang", "sglang": {"clip_max_new_tokens": 0}}
_SPECULATING = {"aic_nextn": 2, "aic_nextn_accept_rates": "0.8,0.5"}
_PLAIN = cluster(*_BURST, **_TIGHT)
_TARGETS = [{"at_ms": 5.0, "target_prefill": 2, "target_decode": 3}, {"at_ms": 30.0, "target_decode": 1}]
_SCALING = {"scaling": {"provider": "schedule", "config": {"ticks": _TARGETS}}}
SPECS: dict[str, dict[str, Any]] = {
    "aggregated": _PLAIN,
    "fifo preemption": cluster(*_BURST, **_TIGHT, preemption_mode="fifo"),
    "no chunks": cluster(*_BURST, **_TIGHT, enable_chunked_prefill=False, max_num_batched_tokens=20),
    "small budget": cluster(*_BURST, **_TIGHT, max_num_batched_tokens=8),
    "no prefix cache": cluster(*_BURST, **_TIGHT, enable_prefix_caching=False),
    "instant": cluster(*_BURST, **_TIGHT, timing_model={"type": "fixed", "prefill_ms": 0.0, "decode_ms": 0.0}),
    "speculating": cluster(*_BURST, **_TIGHT, **_SPECULATING),
    "rejections": cluster(*_BURST, blocks=5),
    "trtllm": cluster(*_BURST, **_TIGHT, backend="trtllm"),
    "sglang": cluster(*_BURST, **_TIGHT, **_SGLANG),
    "sglang speculating": cluster(*_BURST, **_TIGHT, **_SGLANG, **_SPECULATING),
    "attention-DP": _ranks(_PLAIN, dp_size=2),
    "attention-DP of sglang": _ranks(cluster(*_BURST, blocks=14, **_SGLANG), dp_size=3),
    "KV router": _with(_PLAIN, adapters={"placement": {"provider": "kv_router"}}),
    "telemetry": _with(_PLAIN, telemetry={"sample_interval_ms": 7.0}),
    "time limit": _with(_PLAIN, max_sim_time_ms=45.0),
    "closed loop": _with(_PLAIN, max_in_flight=3),
    "scaling": _with(_PLAIN, adapters=_SCALING),
    "two pools": two_pools(_PLAIN, latency_ms=2.5, prefill=2, decode=2),
    "two pools, no latency": two_pools(cluster(*_BURST, blocks=60)),
    "two pools, little room": two_pools(cluster(*_BURST, blocks=40), latency_ms=1.0, num_gpu_blocks=12),
    "two pools, too little room": two_pools(cluster(*_BURST, blocks=40), latency_ms=1.0, num_gpu_blocks=4),
    "two pools of sglang": two_pools(cluster(*_BURST, blocks=40, **_SGLANG), latency_ms=2.5, num_gpu_blocks=14),
    "two pools of sglang, too little room": two_pools(cluster(*_BURST, blocks=40, **_SGLANG), num_gpu_blocks=4),
    "two pools speculating": two_pools(cluster(*_BURST, blocks=40, **_SPECULATING), latency_ms=1.0),
    "two pools with routers": _with(
        two_pools(_PLAIN, latency_ms=1.0, prefill=2, decode=2), adapters={"placement": {"provider": "kv_router"}}
    ),
    "two pools that scale": _with(two_pools(_PLAIN, latency_ms=1.0), adapters=_SCALING),
}


@pytest.mark.parametrize("options", [{}, {"step": True}, {"runtime": "threads"}], ids=["jumping", "step", "threads"])
@pytest.mark.parametrize("name", SPECS)
def test_every_sort_of_cluster(name: str, options: dict[str, Any], tmp_path: Path) -> None:
    passes: dict[tuple[str, int, int], int] = {}

    def count(envelope: Envelope) -> None:
        message = envelope.message
        if isinstance(message, PassOutputs) and envelope.receiver == "collector":
            key = (f"{message.pool} pool", message.worker_id, message.dp_rank)
            passes[key] = passes.get(key, 0) + len(message.ends_ms)

    plain = replay(SPECS[name], observe=count, **options)
    report, messages = _observed(SPECS[name], tmp_path, **options)
    assert results(report) == results(plain)
    assert messages
    events = events_of(SPECS[name], tmp_path, **options)
    check_requests(events, plain)
    if "too little room" not in name:  # who is given up there ends without a pass
        assert sum(event["args"]["passes"] for event in of_kind(events, "X")) == sum(passes.values())


def _observed(spec: dict[str, Any], folder: Path, **options: Any) -> tuple[ReplayReport, int]:
    """The report of a run that both an observer and a timeline follow, and how many messages the observer saw."""
    messages: list[Envelope] = []
    report = replay(spec, observe=messages.append, timeline=folder / "both.json.gz", **options)
    return report, len(messages)


def results(report: ReplayReport) -> tuple[Any, ...]:
    """All that is the same in every run."""
    host = ("wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s")
    summary = {key: value for key, value in report.summary.items() if key not in host}
    return summary, report.requests, report.telemetry, report.planner, report.routing, report.warnings


def check_requests(events: list[Event], report: ReplayReport) -> None:
    """The track of every request begins and ends with it, and its phases fill it."""
    assert report.requests is not None
    records = {record.request_id: record for record in report.requests}
    tracks: dict[int, list[Event]] = {}
    for event in of_kind(events, "b", "e"):
        tracks.setdefault(event["id"], []).append(event)
    ended = 0
    for first, *phases, last in tracks.values():
        assert sum(end["ts"] - begin["ts"] for begin, end in zip(phases[::2], phases[1::2], strict=True)) == (
            last["ts"] - first["ts"]
        )
        if first["args"]["status"] == "unfinished":
            continue
        record = records[first["name"]]
        ended += 1
        assert first["ts"] == round(record.arrival_time_ms * 1000.0)
        assert last["ts"] == round(record.terminal_time_ms * 1000.0)
        assert first["args"]["status"] == record.terminal_status
        assert first["args"]["output_tokens"] == record.output_length
        assert first["args"].get("reason") == record.terminal_reason
    assert ended == len(records)
    rejections = [event for event in of_kind(events, "i") if event["name"] in ("rejected", "failed")]
    assert len(rejections) == sum(record.terminal_status != "completed" for record in records.values())


@pytest.mark.parametrize("name", [name for name in SPECS if "limit" not in name])
def test_whoever_completes_has_emitted_all_tokens(name: str) -> None:
    for step in (False, True):
        for record in replay(SPECS[name], step=step).requests or ():
            if record.terminal_status == "completed":
                assert record.output_length == record.requested_output_length
                assert record.last_token_ms == record.terminal_time_ms


@pytest.mark.parametrize("example", example_names())
def test_examples_of_the_command(example: str, tmp_path: Path) -> None:
    events = events_of(example_path(example), tmp_path)
    assert of_kind(events, "X")
    plain = replay(example_path(example))
    check_requests(events, plain)
