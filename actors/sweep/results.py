"""From the outcomes of points to results: what is feasible, what is best, what lies on the Pareto front."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

import msgspec

from actors.sweep.points import Sweep
from messages.report import Number
from messages.sweep import Constraint, Objective, PointOutcome, PointResult

_COMPARE: dict[str, Callable[[Number, Number], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
    "!=": operator.ne,
}
_COSTS = (Objective(key="gpu_hours", goal="min"), Objective(key="p99_ttft_ms", goal="min"))
"""What an objective is weighed against where the sweep does not say: the first that it is not itself."""


class Ranking(msgspec.Struct, frozen=True):
    """What a sweep comes to.

    objectives: none, or the objective and what it is weighed against.
    best: index of the feasible point with the best objective; of equal ones that with the better second objective, then
        the first. None where no point is feasible, or nothing is asked for.
    front: indices of the feasible points that no other feasible one beats in one objective without losing in the other.
    """

    objectives: tuple[Objective, ...]
    best: int | None
    front: tuple[int, ...]


def point_results(sweep: Sweep, outcomes: Mapping[str, PointOutcome]) -> list[PointResult]:
    """Return a result per point, in order. outcomes: digest -> how that run ended, for every point."""
    results = []
    for point in sweep.points:
        outcome = outcomes[point.digest]
        failed = outcome.error is not None
        violated = [] if failed else [str(bound) for bound in sweep.spec.constraints if not _keeps(bound, outcome)]
        results.append(
            PointResult(
                point=point.index,
                axes=point.axes,
                status="failed" if failed else "ok",
                error=outcome.error,
                feasible=not failed and not violated,
                violated=violated,
                summary=outcome.summary,
            )
        )
    return results


def rank(sweep: Sweep, results: list[PointResult]) -> Ranking:
    """Find the best point and the Pareto front among the feasible points that have the figures."""
    objective = sweep.spec.objective
    if objective is None:
        return Ranking((), None, ())
    second = sweep.spec.second_objective or next(cost for cost in _COSTS if cost.key != objective.key)
    losses: dict[int, tuple[float, float]] = {}
    for result in results:
        loss, second_loss = _loss(objective, result), _loss(second, result)
        if result.feasible and loss is not None:
            losses[result.point] = (loss, math.inf if second_loss is None else second_loss)
    best = min(losses, key=lambda point: (*losses[point], point), default=None)
    return Ranking((objective, second), best, _front(losses))


def sweep_document(results: list[PointResult], ranking: Ranking) -> bytes:
    """Return all results and their ranking as one indented JSON object with a final newline."""
    content = {
        "objectives": ranking.objectives,
        "best": ranking.best,
        "front": ranking.front,
        "results": results,
    }
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def figure(result: PointResult, key: str) -> Number | None:
    """Return a number of the summary; None where there is none."""
    value = (result.summary or {}).get(key)
    return value if isinstance(value, int | float) else None


def _front(losses: Mapping[int, tuple[float, float]]) -> tuple[int, ...]:
    """The points with finite losses that are not dominated, by index; of points with equal losses all."""
    front: list[int] = []
    least = math.inf
    kept: tuple[float, float] | None = None
    for point in sorted(losses, key=lambda point: (losses[point], point)):
        if losses[point][1] < least or losses[point] == kept:
            front.append(point)
            kept = losses[point]
            least = losses[point][1]
    return tuple(sorted(front))


def _loss(objective: Objective, result: PointResult) -> float | None:
    value = figure(result, objective.key)
    if value is None:
        return None
    return -value if objective.goal == "max" else value


def _keeps(bound: Constraint, outcome: PointOutcome) -> bool:
    value = (outcome.summary or {}).get(bound.key)
    return isinstance(value, int | float) and _COMPARE[bound.op](value, bound.value)
