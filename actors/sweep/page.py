"""The page of a sweep: the best point, the Pareto plot and all points in a table."""

from __future__ import annotations

from markupsafe import Markup

from actors.pages.charts import Axis, Chart, Mark, Series, scatter
from actors.pages.page import render
from actors.pages.scales import MISSING
from actors.pages.tables import Table
from actors.sweep.points import axes_text, value_text
from actors.sweep.results import Ranking, figure
from actors.sweep.table import number_text, short_paths, shown_keys, standing, verdict
from messages.report import Number
from messages.sweep import Constraint, Objective, PointResult, SweepSpec

_GOALS = {"min": "less is better", "max": "more is better"}
_LOG_FROM = 50.0  # ratio of the extremes from which an axis is logarithmic


def sweep_page(name: str, sweep: SweepSpec, results: list[PointResult], ranking: Ranking) -> str:
    """Return the page as HTML. name: how to call the sweep."""
    best = next((result for result in results if result.point == ranking.best), None)
    return render(
        f"Sweep {name}",
        "sweep.html",
        verdict=verdict(results, ranking),
        best=None if best is None else _best_figures(best, sweep, ranking),
        best_title="" if best is None else f"Best: point {best.point}",
        failures=[f"Point {r.point} ({axes_text(r.axes)}): {r.error}" for r in results if r.status == "failed"],
        plot=_pareto_plot(sweep, results, ranking),
        constraints=[str(bound) for bound in sweep.constraints],
        points=_points_table(sweep, results, ranking),
        axes=[(path, ", ".join(map(value_text, values))) for path, values in sweep.axes.items()],
        mode=sweep.mode,
        count=len(results),
    )


def _best_figures(best: PointResult, sweep: SweepSpec, ranking: Ranking) -> list[tuple[str, str, str]]:
    """Name, value and remark of what is to be seen first of the best point."""
    goals = {goal.key: _GOALS[goal.goal] for goal in ranking.objectives}
    bounds = {bound.key: f"must be {bound.op} {bound.value:,}" for bound in sweep.constraints}
    names = short_paths(list(sweep.axes))
    axes = [(path, value_text(best.axes[full]), "") for path, full in zip(names, sweep.axes, strict=True)]
    keys = shown_keys(sweep, ranking)
    return axes + [(key, number_text(figure(best, key)), bounds.get(key) or goals.get(key, "")) for key in keys]


def _pareto_plot(sweep: SweepSpec, results: list[PointResult], ranking: Ranking) -> Markup | None:
    """The objective over what it is weighed against; None without an objective."""
    if not ranking.objectives:
        return None
    y, x = ranking.objectives
    labels = {result.point: f"{result.point}: {', '.join(map(value_text, result.axes.values()))}" for result in results}
    groups: dict[str, list[PointResult]] = {"Feasible": [], "Violates a constraint": [], "Best": []}
    for result in results:
        if result.status == "ok":
            group = (
                "Best" if result.point == ranking.best else "Feasible" if result.feasible else "Violates a constraint"
            )
            groups[group].append(result)
    series = [
        Series(
            name,
            [_coordinate(result, x.key) for result in group],
            [_coordinate(result, y.key) for result in group],
            "points",
            [labels[result.point] for result in group],
        )
        for name, group in groups.items()
    ]
    front = sorted(
        (_coordinate(result, x.key), _coordinate(result, y.key)) for result in results if result.point in ranking.front
    )
    line = Series("Pareto front", [at[0] for at in front], [at[1] for at in front], "line") if front else None
    shown = [result for result in results if result.status == "ok"]
    chart = Chart(
        key="pareto",
        title=f"{y.key} against {x.key}",
        x=_axis(x, shown),
        y=_axis(y, shown),
        series=series,
        marks=[_mark(bound, x) for bound in sweep.constraints if bound.key in (x.key, y.key)],
        note=(
            "The front joins the feasible points that no other beats in one figure without losing in the other. "
            f"Labels: point: {', '.join(short_paths(list(sweep.axes)))}."
        ),
        from_zero=False,
    )
    return scatter(chart, line)


def _axis(goal: Objective, results: list[PointResult]) -> Axis:
    values = [value for result in results if (value := figure(result, goal.key)) is not None]
    wide = bool(values) and min(values) > 0.0 and max(values) > _LOG_FROM * min(values)
    return Axis(f"{goal.key} ({_GOALS[goal.goal]})", log=wide)


def _mark(bound: Constraint, x: Objective) -> Mark:
    return Mark(float(bound.value), f"{bound.op} {bound.value:,}", "x" if bound.key == x.key else "y")


def _coordinate(result: PointResult, key: str) -> float:
    value = figure(result, key)
    return float("nan") if value is None else float(value)


def _points_table(sweep: SweepSpec, results: list[PointResult], ranking: Ranking) -> Table:
    keys = shown_keys(sweep, ranking)
    names = short_paths(list(sweep.axes))
    rows = [
        [
            str(result.point),
            *(value_text(result.axes[path]) for path in sweep.axes),
            *(_cell(figure(result, key)) for key in keys),
            standing(result, ranking),
        ]
        for result in results
    ]
    columns = ["Point", *names, *keys, "Standing"]
    return Table("All points", columns, rows, (0, len(columns) - 1), hide_caption=True)


def _cell(value: Number | None) -> str:
    return MISSING if value is None else number_text(value)
