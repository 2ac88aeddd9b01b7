"""Running mean over the last values."""

from __future__ import annotations

from collections import deque


class MovingAverage:
    """Mean of the last `length` values; zeros before the first positive value are not counted."""

    def __init__(self, length: int) -> None:
        self._values: deque[float] = deque()
        self._length = length
        self._sum = 0.0
        self._has_begun = False

    def add(self, value: float) -> None:
        """Take a value."""
        self._has_begun = self._has_begun or value > 0
        if not self._has_begun:
            return
        self._values.append(value)
        self._sum += value
        if len(self._values) > self._length:
            self._sum -= self._values.popleft()

    @property
    def value(self) -> float:
        """The mean; 0 if there is no value."""
        return self._sum / len(self._values) if self._values else 0.0
