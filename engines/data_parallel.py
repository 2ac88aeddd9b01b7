"""Attention data parallelism: the ranks of a logical worker behind one pass barrier."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engines.engine import Pass, RankOutputs, RankPass, RankScheduler
from messages.requests import Request


class RankGroup:
    """Implements `Engine`: all ranks with work start together, and the slowest ends the pass for all.

    A run of the group lasts as long as every rank that takes part has a run; each of its passes takes as long as the
    slowest rank's.

    horizon_ms: runs end at the last boundary that is not later; None for no limit.
    """

    def __init__(self, ranks: Sequence[RankScheduler], horizon_ms: float | None) -> None:
        self._ranks = ranks
        self._horizon_ms = horizon_ms
        self._wave = 0
        self._active: list[RankScheduler] = []

    @property
    def has_work(self) -> bool:
        return any(rank.has_work for rank in self._ranks)

    def submit(self, dp_rank: int, request: Request) -> None:
        self._ranks[dp_rank].submit(request)

    def begin_pass(self, now_ms: float) -> Pass:
        self._active = [rank for rank in self._ranks if rank.has_work]
        formed = [rank.begin_pass(now_ms, self._wave) for rank in self._active]
        runs = [planned.steps_ms for planned in formed if planned.steps_ms is not None]
        if len(runs) == len(formed):
            ends_ms = self._run(now_ms, runs)
            # An idle rank can be given work that it does not start before the group's next pass.
            cut_on_submit = len(formed) < len(self._ranks) or any(planned.cut_on_submit for planned in formed)
            return Pass(ends_ms, cut_on_submit=cut_on_submit)
        prefilled = any(planned.prefilled for planned in formed)
        worked = any(planned.worked for planned in formed)
        for rank in self._ranks:
            rank.group_formed(prefilled=prefilled, worked=worked)
        has_effect = any(planned.has_effect for planned in formed)
        if not has_effect:
            # Every attempt counts as a pass of the group.
            self._wave += 1
        end_ms = max([_end_ms(planned, now_ms) for planned in formed])
        exhausted = any(planned.exhausted for planned in formed)
        return Pass(array("d", (end_ms,)), has_effect=has_effect, exhausted=exhausted)

    def end_pass(self, passes: int) -> tuple[RankOutputs, ...]:
        outputs = tuple([rank.end_pass(passes) for rank in self._active])
        self._wave = self._wave + passes if self.has_work else 0
        return outputs

    def _run(self, now_ms: float, runs: list[NDArray[np.float64]]) -> array[float]:
        passes = min(map(len, runs))
        # Sums from left to right, as stepping would add them.
        ends = np.empty(passes + 1)
        ends[0] = now_ms
        ends[1:] = runs[0][:passes] if len(runs) == 1 else np.maximum.reduce([steps[:passes] for steps in runs])
        ends_ms = array("d", np.add.accumulate(ends)[1:].tobytes())
        if self._horizon_ms is not None and ends_ms[-1] > self._horizon_ms:
            # Where not even the first pass ends in time, it is still the one under way.
            ends_ms = ends_ms[: max(bisect_right(ends_ms, self._horizon_ms), 1)]
        return ends_ms


def _end_ms(planned: RankPass, now_ms: float) -> float:
    return planned.end_ms if planned.steps_ms is None else now_ms + float(planned.steps_ms[0])
