"""The provider `schedule`: pool sizes by a timetable."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from messages.planner import ScheduleConfig


class SchedulePolicy:
    """A scaling policy that asks at given times for given sizes, whatever the cluster does."""

    def __init__(self, config: ScheduleConfig) -> None:
        self._ticks = config.ticks
        self._next = 0

    def initial_tick_ms(self) -> float:
        """Time of the first entry; infinite if there is none."""
        return self._ticks[0].at_ms if self._ticks else math.inf

    def on_tick(self, snapshot: Mapping[str, Any]) -> dict[str, Any]:
        """The sizes of the next entry, and the time of the one after it."""
        tick = self._ticks[self._next]
        self._next += 1
        following = self._ticks[self._next].at_ms if self._next < len(self._ticks) else None
        return {
            "target_prefill": tick.target_prefill,
            "target_decode": tick.target_decode,
            "next_tick_ms": following,
        }
