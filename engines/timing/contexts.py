"""Decode times by batch size and mean context, interpolated where that is nearly exact."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 3e-4
"""Relative error of a straight line at the quarter points of a stretch, up to which the stretch is interpolated."""

_CHUNK = 256
_SHORTEST = 4


class ContextTables:
    """Times by batch size (requests) and mean context (tokens per request), filled where they are used.

    Contexts come in chunks of 256. A stretch of contexts is interpolated linearly between its ends, middle and quarter
    points, if the straight line between its ends is within `TOLERANCE` of the exact times at the others; otherwise its
    halves are judged, and stretches of 4 contexts are computed exactly. So a value depends on nothing but its batch
    size and context, in whatever order they are asked for.

    exact: time in ms of one decode pass of a batch size and a mean context, both at least 1.
    """

    def __init__(self, exact: Callable[[int, int], float]) -> None:
        self._exact = exact
        self._chunks: dict[tuple[int, int], NDArray[np.float64]] = {}

    def at(self, count: int, context: int) -> float:
        """The time of one pass."""
        return self._chunk(count, context // _CHUNK).item(context % _CHUNK)

    def run(self, count: int, context: int, passes: int) -> NDArray[np.float64]:
        """The times of passes in a row, of which each adds a token to every context."""
        first, last = context // _CHUNK, (context + passes - 1) // _CHUNK
        start = context % _CHUNK
        if first == last:
            return self._chunk(count, first)[start : start + passes]
        chunks = [self._chunk(count, index) for index in range(first, last + 1)]
        return np.concatenate(chunks)[start : start + passes]

    def _chunk(self, count: int, index: int) -> NDArray[np.float64]:
        chunk = self._chunks.get((count, index))
        if chunk is None:
            first = index * _CHUNK
            chunk = np.empty(_CHUNK)
            known: dict[int, float] = {}
            self._fill(chunk, first, count, first, first + _CHUNK, known)
            chunk.flags.writeable = False
            self._chunks[count, index] = chunk
        return chunk

    def _fill(
        self, chunk: NDArray[np.float64], first: int, count: int, low: int, high: int, known: dict[int, float]
    ) -> None:
        """Fill a chunk that begins at context `first` from `low` to before `high`."""
        if high - low <= _SHORTEST:
            for context in range(low, high):
                chunk[context - first] = self._time(count, context, known)
            return
        quarter = (high - low) // 4
        knots = [low, low + quarter, low + 2 * quarter, low + 3 * quarter, high]
        times = [self._time(count, context, known) for context in knots]
        slope = (times[-1] - times[0]) / (high - low)
        if all(
            abs(times[0] + slope * (context - low) - time_ms) <= TOLERANCE * time_ms
            for context, time_ms in zip(knots[1:-1], times[1:-1], strict=True)
        ):
            chunk[low - first : high - first] = np.interp(np.arange(low, high), knots, times)
            return
        self._fill(chunk, first, count, low, knots[2], known)
        self._fill(chunk, first, count, knots[2], high, known)

    def _time(self, count: int, context: int, known: dict[int, float]) -> float:
        time_ms = known.get(context)
        if time_ms is None:
            time_ms = known[context] = self._exact(count, max(context, 1))
        return time_ms
