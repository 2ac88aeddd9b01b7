"""The search for an adjustment: few parameters, added one by one while the data supports them."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import msgspec
import numpy as np

from actors.calibration.extra import load_scipy
from messages.calibration import Candidate
from messages.errors import InputError
from messages.spec import Adjustment

SCALE, SEPARATE, PASS, REQUEST = "scale", "prefill_scale", "pass_overhead_ms", "request_overhead_ms"
"""What may be free: one scale of all times, a scale of its own for what prompts add, and the two constants."""

_WORTHWHILE_SHARE = 0.2
_WORTHWHILE_POINTS = 0.3
"""A parameter is kept if it takes away this share of the typical error, at least these percentage points, and more
than what may be chance."""

_FIRST_STEPS = {SCALE: 0.01, SEPARATE: 0.1, PASS: 0.05, REQUEST: 0.5}
_BOUNDS = {SCALE: (-0.5, 0.5), SEPARATE: (-1.5, 1.5), PASS: (0.0, 2.0), REQUEST: (0.0, 20.0)}
_MOST_REPLAYS = {1: 25, 2: 40, 3: 60, 4: 80}
"""By the number of free parameters."""
_SCALES = (1e-4, 1e4)
_NEAR = 0.02
_SCAN = np.arange(-6, 7) / 100.0
"""Logarithms of scales around the starting one, of which the best is refined: the error has several minima."""


class Evaluation(NamedTuple):
    """One replay: its typical error, what of that may be chance, and measured over simulated pace of the requests."""

    error_percent: float
    chance_percent: float
    pace: float


class Fit(NamedTuple):
    """The chosen adjustment with the free parameters, why these, and all that were compared."""

    adjust: Adjustment
    parameters: tuple[str, ...]
    reason: str
    candidates: tuple[Candidate, ...]
    replays: int


class _Point(msgspec.Struct, frozen=True):
    """Coordinates of the search, all of the order of 1: logarithms of scales, constants in typical pass times."""

    scale: float
    prefill_scale: float = 0.0
    pass_overhead_ms: float = 0.0
    request_overhead_ms: float = 0.0


def fit(evaluate: Callable[[Adjustment], Evaluation], pass_ms: float, progress: Callable[[int, float], None]) -> Fit:
    """Find the adjustment that makes the error of a replay small.

    evaluate: replays with an adjustment. pass_ms: a typical measured time between tokens, the unit of the constants.
    progress: told the number of replays and the least error in percent so far.

    Raises InputError where scipy is not installed, or the times of the model cannot be adjusted.
    """
    search = _Search(evaluate, pass_ms, progress)
    chosen: tuple[str, ...] = (SCALE,)
    best, error = search.minimum(chosen, search.starting_point())
    tried = {chosen: (best, error)}
    reason = ""
    while True:
        chance = search.evaluation(best).chance_percent
        enough = max(_WORTHWHILE_POINTS, _WORTHWHILE_SHARE * error, chance)
        if error < enough:
            reason += f"; what is left may be chance, or is less than {_WORTHWHILE_POINTS} points"
            break
        further = {
            (*chosen, name): _lowest(search, (*chosen, name), tried)
            for name in (SEPARATE, PASS, REQUEST)
            if name not in chosen
        }
        tried.update(further)
        if not further:
            reason += "; there are no further parameters"
            break
        names, (point, least) = min(further.items(), key=lambda entry: entry[1][1])
        if error - least < enough:
            reason += (
                f"; the best further parameter, {names[-1]}, would only reach {least:.2f} %, and one is kept if it "
                f"takes away {enough:.2f} points (a fifth of the error, {_WORTHWHILE_POINTS}, or what may be chance)"
            )
            break
        reason += f"; {names[-1]} lowers it to {least:.2f} %"
        chosen, best, error = names, point, least
    first = tried[SCALE,][1]
    candidates = tuple(
        Candidate(names, search.adjustment(point), least, names == chosen) for names, (point, least) in tried.items()
    )
    return Fit(
        search.adjustment(best),
        chosen,
        f"one scale of all times has a typical error of {first:.2f} % on the fitted rows{reason}",
        candidates,
        search.replays,
    )


def _lowest(
    search: _Search, names: tuple[str, ...], tried: Mapping[tuple[str, ...], tuple[_Point, float]]
) -> tuple[_Point, float]:
    """The least error with these parameters free, from the best points with one of them less.

    Parameters can stand in for each other, so that the search from one such point alone may end beside it.
    """
    starts = [
        point for others, (point, _) in tried.items() if len(others) == len(names) - 1 and set(others) < set(names)
    ]
    return min((search.minimum(names, start) for start in starts), key=lambda found: found[1])


class _Search:
    def __init__(
        self, evaluate: Callable[[Adjustment], Evaluation], pass_ms: float, progress: Callable[[int, float], None]
    ) -> None:
        self._optimize: Any = load_scipy()
        self._evaluate = evaluate
        self._pass_ms = pass_ms
        self._progress = progress
        self._known: dict[Adjustment, Evaluation] = {}
        self._least = math.inf

    @property
    def replays(self) -> int:
        """How many replays there were so far."""
        return len(self._known)

    def adjustment(self, point: _Point) -> Adjustment:
        """What a point means, rounded to what is worth writing down."""
        decode_scale = math.exp(point.scale)
        return Adjustment(
            prefill_scale=_rounded(decode_scale * math.exp(point.prefill_scale)),
            decode_scale=_rounded(decode_scale),
            pass_overhead_ms=_rounded(point.pass_overhead_ms * self._pass_ms),
            request_overhead_ms=_rounded(point.request_overhead_ms * self._pass_ms),
        )

    def evaluation(self, point: _Point) -> Evaluation:
        """Replay, unless that has been done before."""
        adjustment = self.adjustment(point)
        found = self._known.get(adjustment)
        if found is None:
            found = self._known[adjustment] = self._evaluate(adjustment)
            self._least = min(self._least, found.error_percent)
            self._progress(self.replays, self._least)
        return found

    def starting_point(self) -> _Point:
        """The best of the scales around that at which requests go about as fast as measured."""
        low, high = (math.log(bound) for bound in _SCALES)
        point = _Point(0.0)
        for _ in range(10):
            pace = self.evaluation(point).pace
            if not 0.0 < pace < math.inf:
                raise InputError("timing_model: its times are zero, which no scale can adjust; choose another model")
            if abs(math.log(pace)) < _NEAR:
                break
            point = _Point(min(max(point.scale + math.log(pace), low), high))
        around = [_Point(point.scale + offset) for offset in _SCAN.tolist()]
        return min(around, key=lambda point: self.evaluation(point).error_percent)

    def minimum(self, names: Sequence[str], start: _Point) -> tuple[_Point, float]:
        """The least error with these parameters free, found from a start; never more than there."""
        origin = np.array([getattr(start, name) for name in names])
        centre = np.array([start.scale if name == SCALE else 0.0 for name in names])
        lower, upper = (centre + np.array([_BOUNDS[name][side] for name in names]) for side in (0, 1))

        def point_at(position: Sequence[float]) -> _Point:
            return msgspec.structs.replace(start, **dict(zip(names, map(float, position), strict=True)))

        simplex = [origin]
        for index, name in enumerate(names):
            corner = origin.copy()
            corner[index] += _FIRST_STEPS[name]
            if name == PASS and SCALE in names:
                # What every pass takes in addition, the scale no longer has to make up for.
                corner[list(names).index(SCALE)] -= _FIRST_STEPS[name]
            simplex.append(np.clip(corner, lower, upper))
        found = self._optimize.minimize(
            lambda position: self.evaluation(point_at(position)).error_percent,
            origin,
            method="Nelder-Mead",
            bounds=list(zip(lower, upper, strict=True)),
            options={
                "initial_simplex": np.array(simplex),
                "maxfev": _MOST_REPLAYS[len(names)],
                "xatol": 1e-3,
                "fatol": 1e-2,
            },
        )
        reached, error = point_at(found.x), float(found.fun)
        before = self.evaluation(start).error_percent
        return (reached, error) if error < before else (start, before)


def _rounded(value: float) -> float:
    return float(f"{value:.5g}")
