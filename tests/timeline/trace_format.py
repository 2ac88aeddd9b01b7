"""The rules of the trace event format that a timeline keeps, and files of timelines to hold against them."""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from actors import replay

Event = dict[str, Any]

_KEYS = {
    "X": {"pid", "tid", "ts", "dur", "name", "cat", "args"},
    "b": {"pid", "tid", "ts", "id", "name", "cat", "args"},
    "e": {"pid", "tid", "ts", "id", "name", "cat"},
    "i": {"pid", "tid", "ts", "s", "name", "args"},
    "C": {"pid", "ts", "name", "args"},
    "s": {"pid", "tid", "ts", "id", "name", "cat"},
    "f": {"pid", "tid", "ts", "id", "name", "cat", "bp"},
}
_METADATA = {
    "process_name": ("name", str, False),
    "process_sort_index": ("sort_index", int, False),
    "thread_name": ("name", str, True),
    "thread_sort_index": ("sort_index", int, True),
}


def load(path: Path) -> dict[str, Any]:
    """The document in a file, compressed or not."""
    content = path.read_bytes()
    document: dict[str, Any] = json.loads(gzip.decompress(content) if path.suffix == ".gz" else content)
    return document


def events_of(spec: Any, folder: Path, **options: Any) -> list[Event]:
    """The events of a run, which keep the rules."""
    path = folder / "timeline.json"
    replay(spec, timeline=path, **options)
    document = load(path)
    check(document)
    events: list[Event] = document["traceEvents"]
    return events


def of_kind(events: list[Event], *kinds: str) -> list[Event]:
    """The events of some kinds, in order."""
    return [event for event in events if event["ph"] in kinds]


def check(document: dict[str, Any]) -> None:
    """Assert all rules of the format."""
    assert set(document) == {"traceEvents", "displayTimeUnit", "otherData"}
    assert document["displayTimeUnit"] == "ms"
    events: list[Event] = document["traceEvents"]
    _check_keys(events)
    _check_metadata(events)
    _check_slices(of_kind(events, "X"))
    _check_counters(of_kind(events, "C"))
    _check_nesting(of_kind(events, "b", "e"))
    _check_flows(events)


def _check_keys(events: list[Event]) -> None:
    for event in events:
        if event["ph"] == "M":
            continue
        assert set(event) == {"ph", *_KEYS[event["ph"]]}, event
        for key in ("ts", "dur"):
            assert isinstance(event.get(key, 0), int), event
            assert event.get(key, 0) >= 0, event
        assert isinstance(event["name"], str)
        assert event["name"]
        assert isinstance(event.get("args", {}), dict)
        assert event.get("s", "t") == "t"
        assert event.get("bp", "e") == "e"


def _check_metadata(events: list[Event]) -> None:
    """Every process and thread is described, once and before it is used; and no other is."""
    described: dict[tuple[str, int, int | None], Any] = {}
    used: set[tuple[int, int | None]] = set()
    for event in events:
        place = (event["pid"], event.get("tid"))
        if event["ph"] == "M":
            key, kind, of_thread = _METADATA[event["name"]]
            assert set(event) == {"ph", "pid", "name", "args"} | ({"tid"} if of_thread else set())
            assert set(event["args"]) == {key}
            assert isinstance(event["args"][key], kind)
            assert (event["name"], *place) not in described
            described[event["name"], *place] = event["args"][key]
            continue
        used |= {(event["pid"], None), place}
        for name, (_, _, of_thread) in _METADATA.items():
            if not of_thread or place[1] is not None:
                assert (name, place[0], place[1] if of_thread else None) in described, event
    assert {(pid, tid) for _, pid, tid in described} == used
    threads = [tid for _, tid in used if tid is not None]
    assert len(threads) == len(set(threads))
    assert not {pid for pid, _ in used} & {0, *threads}
    names = [(pid, value) for (name, pid, _), value in described.items() if name == "thread_name"]
    assert len(names) == len(set(names))


def _check_slices(slices: list[Event]) -> None:
    """Slices of a thread come in order, and none begins before the one before has ended."""
    free_us: dict[int, int] = defaultdict(int)
    for event in slices:
        assert event["ts"] >= free_us[event["tid"]], event
        free_us[event["tid"]] = event["ts"] + event["dur"]


def _check_counters(counters: list[Event]) -> None:
    """Values are counts, of the same series each time; times ascend."""
    before: dict[tuple[int, str], Event] = {}
    for event in counters:
        assert event["args"]
        for value in event["args"].values():
            assert isinstance(value, int)
            assert value >= 0, event
        last = before.get((event["pid"], event["name"]))
        if last is not None:
            assert event["ts"] >= last["ts"], (last, event)
            assert event["args"].keys() == last["args"].keys()
        before[event["pid"], event["name"]] = event


def _check_nesting(spans: list[Event]) -> None:
    """What begins on a track ends on it, the innermost first, at times that ascend."""
    opened: dict[tuple[str, int], list[Event]] = defaultdict(list)
    latest_us: dict[tuple[str, int], int] = defaultdict(int)
    for event in spans:
        track = (event["cat"], event["id"])
        assert event["ts"] >= latest_us[track], event
        latest_us[track] = event["ts"]
        if event["ph"] == "b":
            opened[track].append(event)
            continue
        begun = opened[track].pop()
        assert (begun["name"], begun["pid"], begun["tid"]) == (event["name"], event["pid"], event["tid"])
    assert not any(opened.values())


def _check_flows(events: list[Event]) -> None:
    """Each arrow leads from a slice to a slice that begins then or later."""
    slices: dict[int, list[Event]] = defaultdict(list)
    for event in of_kind(events, "X"):
        slices[event["tid"]].append(event)
    started: dict[int, Event] = {}
    ended = set()
    for event in of_kind(events, "s", "f"):
        assert any(part["ts"] <= event["ts"] < part["ts"] + max(part["dur"], 1) for part in slices[event["tid"]]), event
        if event["ph"] == "s":
            assert event["id"] not in started
            started[event["id"]] = event
            continue
        start = started[event["id"]]
        assert event["id"] not in ended
        ended.add(event["id"])
        assert (start["cat"], start["name"]) == (event["cat"], event["name"])
        assert start["ts"] <= event["ts"]
        assert start["pid"] != event["pid"]
    assert ended == set(started)
