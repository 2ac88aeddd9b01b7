"""A bounded set of samples that keeps its variety: the fullest region loses its oldest sample first."""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

from actors.planner.regression import Point

_Cell = tuple[int, int]


class Sample(NamedTuple):
    """A forward pass: its two regressors and its duration in ms."""

    point: Point
    value_ms: float


class SampleGrid:
    """At most `capacity` samples, sorted into cells of a grid over the logarithms of their regressors.

    The grid spans all samples ever seen. Among equally full cells the one that was filled first gives way.
    """

    def __init__(self, capacity: int, cells: int) -> None:
        self._capacity = capacity
        self._per_axis = math.isqrt(cells)
        self._samples: deque[Sample] = deque()
        self._cells: dict[_Cell, deque[Sample]] = {}
        self._low = [math.inf, math.inf]
        self._high = [-math.inf, -math.inf]

    @property
    def samples(self) -> list[Sample]:
        """All samples, oldest first."""
        return list(self._samples)

    def add(self, sample: Sample) -> None:
        """Take a sample, and give one up if there are too many."""
        self._samples.append(sample)
        if self._stretch(sample):
            self._cells.clear()
            for each in self._samples:
                self._cells.setdefault(self._cell(each), deque()).append(each)
        else:
            self._cells.setdefault(self._cell(sample), deque()).append(sample)
        if len(self._samples) > self._capacity:
            self._drop_one()

    def _drop_one(self) -> None:
        fullest = max(self._cells, key=lambda cell: len(self._cells[cell]))
        oldest = self._cells[fullest].popleft()
        if not self._cells[fullest]:
            del self._cells[fullest]
        # By identity: an equal sample of the same cell is younger.
        index = next(i for i, each in enumerate(self._samples) if each is oldest)
        del self._samples[index]

    def _stretch(self, sample: Sample) -> bool:
        """Widen the grid over a sample; whether it had to be."""
        has_grown = False
        for axis, x in enumerate(sample.point):
            coordinate = math.log1p(x)
            if coordinate < self._low[axis]:
                self._low[axis], has_grown = coordinate, True
            if coordinate > self._high[axis]:
                self._high[axis], has_grown = coordinate, True
        return has_grown

    def _cell(self, sample: Sample) -> _Cell:
        first, second = (self._place(axis, math.log1p(x)) for axis, x in enumerate(sample.point))
        return first, second

    def _place(self, axis: int, coordinate: float) -> int:
        low, high = self._low[axis], self._high[axis]
        if high <= low:
            return 0
        return min(max(int((coordinate - low) / (high - low) * self._per_axis), 0), self._per_axis - 1)
