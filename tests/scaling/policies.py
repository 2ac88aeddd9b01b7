"""Scaling policies for tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


class Scripted:
    """Decides at given times: ticks are (at_ms, target_prefill, target_decode). Keeps what it was shown."""

    def __init__(self, ticks: Sequence[Mapping[str, Any]]) -> None:
        self._ticks = ticks
        self.snapshots: list[dict[str, Any]] = []

    def initial_tick_ms(self) -> float:
        return float(self._ticks[0]["at_ms"]) if self._ticks else math.inf

    def on_tick(self, snapshot: dict[str, Any]) -> dict[str, Any]:
        tick = self._ticks[len(self.snapshots)]
        self.snapshots.append(snapshot)
        following = self._ticks[len(self.snapshots) :]
        return {
            "target_prefill": tick["target_prefill"],
            "target_decode": tick["target_decode"],
            "next_tick_ms": following[0]["at_ms"] if following else None,
        }


def ticks(*decisions: tuple[float, int | None, int | None]) -> list[dict[str, Any]]:
    """Ticks as `Scripted` takes them, from (at_ms, target_prefill, target_decode)."""
    return [
        {"at_ms": at_ms, "target_prefill": prefill, "target_decode": decode} for at_ms, prefill, decode in decisions
    ]
