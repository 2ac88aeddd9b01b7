"""`--timeline-from` and `--timeline-to`: what lies in a stretch of time, and the values that hold at its ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.scenario import cluster, two_pools
from tests.timeline.listing import listing
from tests.timeline.test_examples import SPECS
from tests.timeline.trace_format import Event, events_of, of_kind

_NAMES = ("aggregated", "two pools", "two pools of sglang", "attention-DP", "rejections", "scaling")


def test_what_reaches_beyond_is_clipped(tmp_path: Path) -> None:
    spec = cluster((0.0, 9, 3), (2.0, 4, 2))
    events = events_of(spec, tmp_path, timeline_from_ms=5.0, timeline_to_ms=11.5)
    first = "passes 1, prompt_tokens 9, admitted 1, output_tokens 1, whole_start_ms 0.0, whole_end_ms 10.0"
    second = "passes 1, prompt_tokens 4, admitted 1, decode_requests 1, output_tokens 2"
    assert listing(events, "X") == [
        f"agg worker 0: 5-10 prefill {first}",
        f"agg worker 0: 10-11.5 mixed {second}, whole_start_ms 10.0, whole_end_ms 21.0",
    ]
    assert [line for line in listing(events, "be") if "input" not in line][-4:] == [
        "requests: 10 end of queued",
        "requests: 10 prefill rank agg worker 0, reused_tokens 0, whole_start_ms 10.0, whole_end_ms 21.0",
        "requests: 11.5 end of prefill",
        "requests: 11.5 end of b",
    ]
    assert sorted(listing(events, "C")) == [
        "agg worker 0 KV blocks: 10 used 4, cached 0",
        "agg worker 0 KV blocks: 11.5 used 4, cached 0",
        "agg worker 0 KV blocks: 5 used 3, cached 0",
        "agg worker 0 requests: 10 running 2, waiting 0",
        "agg worker 0 requests: 11.5 running 2, waiting 0",
        "agg worker 0 requests: 5 running 1, waiting 1",
        "agg workers: 11.5 active 1, starting 0, draining 0",
        "agg workers: 5 active 1, starting 0, draining 0",
    ]


def test_an_arrow_needs_both_of_its_ends(tmp_path: Path) -> None:
    spec = two_pools(cluster((0.0, 9, 3)), latency_ms=5.0)
    for bounds, arrows in (((None, 14.0), 0), ((10.0, None), 0), ((9.0, 15.0), 0), ((9.0, 16.0), 1)):
        events = events_of(spec, tmp_path, timeline_from_ms=bounds[0], timeline_to_ms=bounds[1])
        assert len(of_kind(events, "s")) == arrows


def test_nothing_is_left_after_the_end(tmp_path: Path) -> None:
    assert events_of(cluster((0.0, 9, 3)), tmp_path, timeline_from_ms=50.0) == []


@pytest.mark.parametrize("bounds", [(0.0, 7.25), (12.5, None), (10.0, 20.0), (33.333, 61.7), (None, 1000.0)])
@pytest.mark.parametrize("name", _NAMES)
def test_a_stretch_is_a_part_of_the_whole(name: str, bounds: tuple[float | None, float | None], tmp_path: Path) -> None:
    from_us, to_us = (limit if limit is None else round(limit * 1000.0) for limit in bounds)
    whole = events_of(SPECS[name], tmp_path)
    part = events_of(SPECS[name], tmp_path, timeline_from_ms=bounds[0], timeline_to_ms=bounds[1])
    low, high = from_us or 0, to_us or 10**12

    def clipped(event: Event) -> tuple[Any, ...]:
        start, end = event["ts"], event["ts"] + event["dur"]
        return event["tid"], max(start, low), min(end, high), event["name"], event["args"]["passes"]

    slices = [clipped(event) for event in of_kind(whole, "X") if _overlaps(event, low, high)]
    assert [clipped(event) for event in of_kind(part, "X")] == slices
    instants = [event for event in of_kind(whole, "i") if low <= event["ts"] <= high]
    assert of_kind(part, "i") == instants
    assert all(low <= event["ts"] <= high for event in part if event["ph"] != "M")
    for at_us in {event["ts"] for event in part if event["ph"] == "C"}:
        assert _values(part, at_us) == _values(whole, at_us)


def _overlaps(event: Event, low: int, high: int) -> bool:
    start, end = event["ts"], event["ts"] + event["dur"]
    return (start < high and end > low) if start < end else low <= start <= high


def _values(events: list[Event], at_us: int) -> dict[tuple[int, str], dict[str, int]]:
    """What each group of series shows at a time."""
    return {(event["pid"], event["name"]): event["args"] for event in of_kind(events, "C") if event["ts"] <= at_us}
