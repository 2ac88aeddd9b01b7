"""Attention data parallelism: the ranks of a logical worker behind one pass barrier."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from engines.engine import (
    DestinationRank,
    HandoffRank,
    Pass,
    RankOutputs,
    RankPass,
    RankScheduler,
    Reservation,
    SourceRank,
)
from messages.gauges import Gauges
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
        self._until_ms = horizon_ms
        self._wave = 0
        self._active: list[RankScheduler] = []

    @property
    def has_work(self) -> bool:
        for rank in self._ranks:  # noqa: SIM110  (asked several times per pass: a generator costs more than the answer)
            if rank.has_work:
                return True
        return False

    @property
    def holds_requests(self) -> bool:
        return self.has_work

    def run_until(self, at_ms: float | None) -> None:
        limits = [limit_ms for limit_ms in (at_ms, self._horizon_ms) if limit_ms is not None]
        self._until_ms = min(limits, default=None)

    @property
    def wants_pass_end(self) -> bool:
        """Whether the end of an attempt without effect can change something too."""
        return False

    def submit(self, dp_rank: int, request: Request) -> None:
        self._ranks[dp_rank].submit(request)

    def begin_pass(self, now_ms: float) -> Pass:
        while True:
            self._active = [rank for rank in self._ranks if rank.has_work]
            formed = [rank.begin_pass(now_ms, self._wave) for rank in self._active]
            steps_ms = _common_run(formed)
            if steps_ms is not None:
                # An idle rank can be given work that it does not start before the group's next pass.
                cut_on_submit = len(formed) < len(self._ranks) or any(planned.cut_on_submit for planned in formed)
                ends_ms = self._within_horizon(_ends_of_run(now_ms, steps_ms)[1:])
                evictions = tuple([planned.evictions for planned in formed if planned.evictions is not None])
                return Pass(ends_ms, cut_on_submit=cut_on_submit, evictions=evictions)
            single = formed[0] if len(formed) == 1 else _slowest(formed, now_ms)
            for rank in self._ranks:
                rank.group_formed(prefilled=single.prefilled, worked=single.worked)
            if not single.has_effect:
                # Every attempt counts as a pass of the group.
                self._wave = self._wave + 1 if self.has_work else 0
                if single.retry and self.has_work and not self.wants_pass_end:
                    continue
            if single.then_ms is not None:
                ends_ms = self._within_horizon(_ends_of_run(single.end_ms, single.then_ms))
                return Pass(ends_ms, cut_on_submit=len(self._ranks) > 1 or single.cut_on_submit)
            return Pass(
                array("d", (single.end_ms,)),
                has_effect=single.has_effect,
                exhausted=single.exhausted,
                out_of_attempts=single.out_of_attempts,
            )

    def end_pass(self, passes: int) -> tuple[RankOutputs, ...]:
        outputs = tuple([rank.end_pass(passes) for rank in self._active])
        self._wave = self._wave + passes if self.has_work else 0
        return outputs

    def gauges(self, dp_rank: int) -> Gauges:
        return self._ranks[dp_rank].gauges()

    def _within_horizon(self, ends_ms: array[float]) -> array[float]:
        if self._until_ms is not None and ends_ms[-1] > self._until_ms:
            # Where not even the first pass ends in time, it is still the one under way.
            ends_ms = ends_ms[: max(bisect_right(ends_ms, self._until_ms), 1)]
        return ends_ms


class HandoffGroup(RankGroup):
    """A group whose ranks take part in hand-offs; see `HandoffRank` for what the methods do on one of them."""

    def __init__(self, ranks: Sequence[HandoffRank], horizon_ms: float | None) -> None:
        super().__init__(ranks, horizon_ms)
        self._handoff_ranks = ranks

    def abandon_head(self) -> RankOutputs | None:
        """Have the first rank that waits for room give up a request."""
        for rank in self._handoff_ranks:
            outputs = rank.abandon_head()
            if outputs is not None:
                return outputs
        return None


class SourceGroup(HandoffGroup):
    """The ranks of a prefill worker; see `SourceRank`."""

    def __init__(self, ranks: Sequence[SourceRank], horizon_ms: float | None) -> None:
        super().__init__(ranks, horizon_ms)
        self._sources = ranks

    @property
    def holds_requests(self) -> bool:
        return self.has_work or any(rank.holds_sources for rank in self._sources)

    def release_source(self, dp_rank: int, ordinal: int) -> None:
        self._sources[dp_rank].release_source(ordinal)


class DestinationGroup(HandoffGroup):
    """The ranks of a decode worker; see `DestinationRank`."""

    def __init__(self, ranks: Sequence[DestinationRank], horizon_ms: float | None) -> None:
        super().__init__(ranks, horizon_ms)
        self._destinations = ranks

    @property
    def wants_pass_end(self) -> bool:
        """Whether the end of a pass can grant a reservation on any rank."""
        return any(rank.wants_pass_end for rank in self._destinations)

    def begin_pass(self, now_ms: float) -> Pass:
        begun = super().begin_pass(now_ms)
        if len(begun.ends_ms) > 1 and self.wants_pass_end:
            # A rank that takes no part in the pass can be granted a reservation at its end.
            return Pass(begun.ends_ms[:1])
        return begun

    def reserve(self, dp_rank: int, request: Request) -> str | None:
        return self._destinations[dp_rank].reserve(request)

    def try_reserve(self, dp_rank: int) -> Reservation | None:
        return self._destinations[dp_rank].try_reserve()

    def activate(self, dp_rank: int, ordinal: int) -> None:
        self._destinations[dp_rank].activate(ordinal)

    def cancel(self, dp_rank: int, ordinal: int) -> None:
        self._destinations[dp_rank].cancel(ordinal)


def _ends_of_run(begin_ms: float, steps_ms: NDArray[np.float64]) -> array[float]:
    """The beginning of a run and the end of each of its passes."""
    # Sums from left to right, as stepping would add them.
    ends_ms = np.empty(len(steps_ms) + 1)
    ends_ms[0] = begin_ms
    ends_ms[1:] = steps_ms
    return array("d", np.add.accumulate(ends_ms, out=ends_ms).tobytes())


def _common_run(formed: list[RankPass]) -> NDArray[np.float64] | None:
    """The durations of the passes for which all ranks have a run; None where one of them has not."""
    if len(formed) == 1:
        return formed[0].steps_ms
    runs = [planned.steps_ms for planned in formed if planned.steps_ms is not None]
    if len(runs) < len(formed):
        return None
    passes = min(map(len, runs))
    slowest: NDArray[np.float64] = np.maximum.reduce([steps[:passes] for steps in runs])
    return slowest


def _slowest(formed: list[RankPass], now_ms: float) -> RankPass:
    """What a single pass of several ranks comes to. Of a run only the first pass takes place."""
    ends_ms = [
        planned.end_ms if planned.steps_ms is None else now_ms + float(planned.steps_ms[0]) for planned in formed
    ]
    has_effect = any(planned.has_effect for planned in formed)
    return RankPass(
        max(ends_ms),
        has_effect=has_effect,
        # A rank that comes to nothing waits for as long as others get on.
        exhausted=any(planned.exhausted and planned.has_effect == has_effect for planned in formed),
        out_of_attempts=any(planned.out_of_attempts for planned in formed) and not has_effect,
        prefilled=any(planned.prefilled for planned in formed),
        worked=any(planned.worked for planned in formed),
        retry=any(planned.retry for planned in formed),
    )
