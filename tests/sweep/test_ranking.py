"""Feasibility, the best point and the Pareto front."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from actors.sweep.points import load_sweep
from actors.sweep.results import Ranking, point_results, rank
from messages.sweep import PointOutcome, PointResult
from tests.sweep.documents import BLOCKS, ONE_REQUEST, write_sweep


def ranked(folder: Path, outcomes: list[PointOutcome], **document: Any) -> tuple[list[PointResult], Ranking]:
    axes = {BLOCKS: [100 + index for index in range(len(outcomes))]}
    sweep = load_sweep(write_sweep(folder, {"base": ONE_REQUEST, "axes": axes, **document}))
    results = point_results(
        sweep, {point.digest: outcome for point, outcome in zip(sweep.points, outcomes, strict=True)}
    )
    return results, rank(sweep, results)


def outcome(gpu_hours: float | None, p99_ttft_ms: float | None) -> PointOutcome:
    return PointOutcome(None, {"gpu_hours": gpu_hours, "p99_ttft_ms": p99_ttft_ms})


LEAST_HOURS = {"key": "gpu_hours", "goal": "min"}


def test_the_best_point_is_feasible_and_ties_go_to_the_second_objective_then_the_first_point(tmp_path: Path) -> None:
    outcomes = [
        outcome(1.0, 900.0),
        outcome(2.0, 400.0),
        outcome(2.0, 300.0),
        outcome(2.0, 300.0),
        PointOutcome("a dead end"),
        outcome(0.5, None),
    ]
    results, ranking = ranked(
        tmp_path,
        outcomes,
        objective=LEAST_HOURS,
        constraints=[{"key": "p99_ttft_ms", "op": "<=", "value": 500}, {"key": "gpu_hours", "op": "!=", "value": 0.5}],
    )
    assert ranking.best == 2
    assert [result.feasible for result in results] == [False, True, True, True, False, False]
    assert [result.violated for result in results] == [
        ["p99_ttft_ms <= 500"],
        [],
        [],
        [],
        [],
        ["p99_ttft_ms <= 500", "gpu_hours != 0.5"],
    ]
    assert [result.status for result in results] == ["ok"] * 4 + ["failed", "ok"]
    assert ranking.front == (2, 3)


def test_the_front_holds_what_no_feasible_point_beats(tmp_path: Path) -> None:
    outcomes = [
        outcome(1.0, 900.0),
        outcome(2.0, 400.0),
        outcome(2.0, 500.0),
        outcome(3.0, 400.0),
        outcome(4.0, 100.0),
        outcome(5.0, None),
    ]
    _, ranking = ranked(tmp_path, outcomes, objective=LEAST_HOURS)
    assert [objective.key for objective in ranking.objectives] == ["gpu_hours", "p99_ttft_ms"]
    assert ranking.best == 0
    assert ranking.front == (0, 1, 4)
    _, turned = ranked(
        tmp_path, outcomes, objective={"key": "p99_ttft_ms", "goal": "max"}, second_objective=LEAST_HOURS
    )
    assert (turned.best, turned.front) == (0, (0,))


def test_without_an_objective_nothing_is_best(tmp_path: Path) -> None:
    results, ranking = ranked(tmp_path, [outcome(1.0, 2.0)])
    assert (ranking.objectives, ranking.best, ranking.front) == ((), None, ())
    assert results[0].feasible


def test_a_best_point_needs_no_second_figure(tmp_path: Path) -> None:
    _, ranking = ranked(tmp_path, [outcome(2.0, 5.0), outcome(1.0, None)], objective=LEAST_HOURS)
    assert (ranking.best, ranking.front) == (1, (0,))
