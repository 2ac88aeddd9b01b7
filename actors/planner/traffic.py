"""Traffic windows, merged until a tick asks for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from messages.planner_report import Traffic


class _Window(NamedTuple):
    """Sums and weighted means since the last tick that asked."""

    duration_s: float
    num_req: float
    isl: float
    osl: float
    shapes: int
    hit_rate: float
    hits: int
    accept_length: float | None
    forwards: int


class PendingTraffic:
    """Collects the windows of ticks that have no use for them."""

    def __init__(self) -> None:
        self._window: _Window | None = None

    def add(self, traffic: Mapping[str, Any]) -> None:
        """Take the window of a snapshot."""
        new = _Window(
            traffic["duration_s"],
            traffic["num_req"],
            traffic["avg_isl"],
            traffic["avg_osl"],
            traffic["shape_count"],
            traffic["avg_kv_hit_rate"],
            traffic["hit_rate_count"],
            traffic["avg_accept_length"],
            traffic["accept_length_forward_count"],
        )
        self._window = new if self._window is None else _merge(self._window, new)

    def take(self) -> Traffic | None:
        """Everything since the last call; None if no time has passed."""
        window, self._window = self._window, None
        if window is None or window.duration_s <= 0:
            return None
        return Traffic(
            window.duration_s,
            float(window.num_req),
            window.isl,
            window.osl,
            window.hit_rate,
            window.accept_length,
        )


def _merge(old: _Window, new: _Window) -> _Window:
    if old.accept_length is None or new.accept_length is None:
        accept_length = new.accept_length if old.accept_length is None else old.accept_length
    else:
        accept_length = _mean(old.accept_length, old.forwards, new.accept_length, new.forwards)
    return _Window(
        old.duration_s + new.duration_s,
        old.num_req + new.num_req,
        _mean(old.isl, old.shapes, new.isl, new.shapes),
        _mean(old.osl, old.shapes, new.osl, new.shapes),
        old.shapes + new.shapes,
        _mean(old.hit_rate, old.hits, new.hit_rate, new.hits),
        old.hits + new.hits,
        accept_length,
        old.forwards + new.forwards,
    )


def _mean(a: float, a_weight: int, b: float, b_weight: int) -> float:
    weight = a_weight + b_weight
    return (a * a_weight + b * b_weight) / weight if weight else 0.0
