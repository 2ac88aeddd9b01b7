"""The conversation around the KV router: overlaps, a queue, forecasts; and silence where nobody asks for KV events."""

from __future__ import annotations

from typing import Any

import pytest

from actors import replay
from actors.names import worker_id
from messages.envelope import Envelope
from messages.kv import EvictionForecast
from messages.passes import PassOutputs
from messages.report import RoutingEntry
from tests.scenario import cluster, messages_of, two_pools

PROMPT = list(range(1, 13))


def kv_router(spec: dict[str, Any], **config: Any) -> dict[str, Any]:
    return {**spec, "adapters": {"placement": {"provider": "kv_router", "config": config}}}


def sharing(spec: dict[str, Any], *lengths: int) -> dict[str, Any]:
    """The same requests with so many leading tokens of one prompt each; their other tokens are their own."""
    for number, (request, length) in enumerate(zip(spec["requests"], lengths, strict=True)):
        own = [1000 * (number + 1) + index for index in range(request["input_tokens"] - length)]
        request["input_token_ids"] = [*PROMPT[:length], *own]
    return spec


def routing_of(report: Any) -> list[RoutingEntry]:
    assert report.requests is not None
    return [entry for record in report.requests for entry in record.routing_history]


def test_a_request_follows_its_prefix_and_another_waits_for_room() -> None:
    """b repeats a's prompt and goes where it is cached; c finds all workers busy and waits for the end of a prefill."""
    spec = cluster((0.0, 12, 3), (10.5, 16, 1), (11.5, 9, 1), workers=2)
    spec = kv_router(sharing(spec, 12, 12, 0), router_queue_threshold=0.0)
    spec["requests"].append({"id": "d", "arrival_time_ms": 10.5, "input_tokens": 8, "output_tokens": 1})
    log, report = messages_of(spec)
    assert log == [
        (0.0, "worker_ready", "system > pool: StartPool"),
        (0.0, "worker_ready", "pool > router: WorkerReady"),
        (0.0, "worker_ready", "pool > router: WorkerReady"),
        (0.0, "worker_ready", "pool > router: TopologySettled"),
        (0.0, "admission", "system > client: ReleaseArrivals"),
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > router: PlaceRequest a"),
        (0.0, "admission", "router > collector: RequestRouted a"),
        (0.0, "admission", "router > worker-0: Dispatch a"),
        (0.0, "start", "worker-0 > worker-0: StartPass"),
        # The end of the prefill tells the router what is cached, and that the prompt is built.
        (10.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (10.0, "completions", "worker-0 > router: PassOutputs (admitted a, tokens a)"),
        (10.0, "completions", "worker-0 > collector: PassOutputs (admitted a, tokens a)"),
        (10.0, "start", "worker-0 > worker-0: StartPass"),
        (10.5, "admission", "client > client: ReleaseArrivals"),
        (10.5, "admission", "client > collector: RequestArrived b"),
        (10.5, "admission", "client > router: PlaceRequest b"),
        (10.5, "admission", "client > collector: RequestArrived d"),
        (10.5, "admission", "client > router: PlaceRequest d"),
        (10.5, "admission", "router > collector: RequestRouted b"),
        (10.5, "admission", "router > worker-0: Dispatch b"),
        (10.5, "admission", "router > collector: RequestRouted d"),
        (10.5, "admission", "router > worker-1: Dispatch d"),
        (10.5, "start", "worker-1 > worker-1: StartPass"),
        (11.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (11.0, "completions", "worker-0 > collector: PassOutputs (tokens a)"),
        (11.0, "start", "worker-0 > worker-0: StartPass"),
        (11.5, "admission", "client > client: ReleaseArrivals"),
        (11.5, "admission", "client > collector: RequestArrived c"),
        # Both workers have prompts to build: no answer for now.
        (11.5, "admission", "client > router: PlaceRequest c"),
        (20.5, "completions", "worker-1 > worker-1: PassCompleted"),
        (20.5, "completions", "worker-1 > router: PassOutputs (admitted d, tokens d, completed d)"),
        (20.5, "completions", "worker-1 > collector: PassOutputs (admitted d, tokens d, completed d)"),
        (20.5, "completions", "worker-1 > client: PassOutputs (admitted d, tokens d, completed d)"),
        (20.5, "completions", "router > collector: RequestRouted c"),
        (20.5, "completions", "router > worker-1: Dispatch c"),
        (20.5, "start", "worker-1 > worker-1: StartPass"),
        (22.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (22.0, "completions", "worker-0 > router: PassOutputs (admitted b, tokens a b, completed a, completed b)"),
        (22.0, "completions", "worker-0 > collector: PassOutputs (admitted b, tokens a b, completed a, completed b)"),
        (22.0, "completions", "worker-0 > client: PassOutputs (admitted b, tokens a b, completed a, completed b)"),
        (30.5, "completions", "worker-1 > worker-1: PassCompleted"),
        (30.5, "completions", "worker-1 > router: PassOutputs (admitted c, tokens c, completed c)"),
        (30.5, "completions", "worker-1 > collector: PassOutputs (admitted c, tokens c, completed c)"),
        (30.5, "completions", "worker-1 > client: PassOutputs (admitted c, tokens c, completed c)"),
        (30.5, "completions", "system > collector: ConcludeRun"),
    ]
    waits = [(entry.outcome, entry.queue_wait_ms, entry.selected_overlap_blocks) for entry in routing_of(report)]
    assert waits == [("immediate", 0.0, 0), ("immediate", 0.0, 3), ("immediate", 0.0, 0), ("queued", 9.0, 0)]
    assert report.routing is not None
    assert (report.routing["agg"].placements, report.routing["agg"].overlap_tokens) == (4, 12)


def test_a_worker_foretells_what_its_run_evicts() -> None:
    """Of nine blocks, a leaves three cached and b takes them one after the other, while c and d look for them."""
    spec = cluster((0.0, 12, 1), (10.0, 24, 14), (17.0, 16, 1), (31.0, 16, 1), blocks=9, max_num_seqs=1)
    log, report = messages_of(kv_router(sharing(spec, 12, 0, 12, 12)))
    forecasts = [(at_ms, what) for at_ms, _, what in log if "Forecast" in what]
    assert forecasts == [(20.0, "worker-0 > router: EvictionForecast")]
    # The first block of b's output is taken at its prefill's end, at 20 ms; two more by 28 ms.
    assert [entry.selected_overlap_blocks for entry in routing_of(report)] == [0, 0, 3, 0]


@pytest.mark.parametrize("pools", [1, 2])
def test_round_robin_produces_and_carries_no_kv_event(pools: int) -> None:
    spec = sharing(cluster((0.0, 12, 9), (3.0, 16, 9), (40.0, 16, 1), blocks=9, workers=2), 12, 12, 12)
    assert _kv_messages(two_pools(spec) if pools == 2 else spec) == set()


def test_of_two_pools_only_prefill_workers_tell_kv_events() -> None:
    spec = sharing(cluster((0.0, 12, 9), (3.0, 16, 9), (40.0, 16, 1), blocks=9), 12, 12, 12)
    assert _kv_messages(kv_router(two_pools(spec))) == {"prefill-0"}


def _kv_messages(spec: dict[str, Any]) -> set[str]:
    """Who sent any KV event or forecast."""
    senders: set[str] = set()

    def observe(envelope: Envelope) -> None:
        message = envelope.message
        if isinstance(message, EvictionForecast) or (isinstance(message, PassOutputs) and message.kv_events):
            assert worker_id(envelope.sender) is not None
            senders.add(envelope.sender)

    replay(spec, observe=observe)
    return senders


def test_events_count_after_their_lag() -> None:
    spec = sharing(cluster((0.0, 12, 1), (14.9, 16, 1), (15.0, 16, 1)), 12, 12, 12)
    _, report = messages_of(kv_router(spec, kv_event_lag_ms=5.0))
    assert [entry.selected_overlap_blocks for entry in routing_of(report)] == [0, 0, 3]
