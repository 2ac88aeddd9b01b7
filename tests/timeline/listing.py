"""Events of a timeline in a form that reads as a list."""

from __future__ import annotations

from typing import Any

from tests.timeline.trace_format import Event


def listing(events: list[Event], kinds: str) -> list[str]:
    """What the events of some kinds tell, in order: "track: time what (args)". Times are ms."""
    names = {
        (event["pid"], event.get("tid")): event["args"]["name"]
        for event in events
        if event["name"] in ("process_name", "thread_name")
    }
    lines = []
    for event in events:
        kind = event["ph"]
        if kind not in kinds or kind == "M":
            continue
        track = names[event["pid"], event.get("tid")]
        if event["pid"] != 1:
            process = names[event["pid"], None].removesuffix(" pool")
            track = f"{process} {event['name'] if kind == 'C' else track}"
        time = _ms(event["ts"])
        if kind == "X":
            time += f"-{_ms(event['ts'] + event['dur'])}"
        what = {"e": f"end of {event['name']}", "s": f"{event['name']} from", "f": f"{event['name']} to", "C": ""}
        lines.append(" ".join(f"{track}: {time} {what.get(kind, event['name'])} {_args(event)}".split()))
    return lines


def _ms(time_us: int) -> str:
    return f"{time_us / 1000.0:g}"


def _args(event: Event) -> str:
    args: dict[str, Any] = event.get("args", {})
    return ", ".join(f"{key} {value}" for key, value in args.items())
