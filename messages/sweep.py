"""SweepSpec: the JSON document that describes a sweep, and what one point of it comes to.

What a document says is checked here as far as it can be told from itself; the keys of the report and the specs of the
points are judged in `actors.sweep`.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from messages.fields import Strict
from messages.report import Number

Goal = Literal["min", "max"]
Operator = Literal["<", "<=", ">", ">=", "==", "!="]
Text = Annotated[str, Meta(min_length=1)]


class Objective(Strict, frozen=True):
    """A figure of report.json that shall be small or large."""

    key: Text
    goal: Goal


class Constraint(Strict, frozen=True):
    """What a figure of report.json has to keep; one without a value keeps nothing."""

    key: Text
    op: Operator
    value: int | float

    def __str__(self) -> str:
        return f"{self.key} {self.op} {msgspec.json.encode(self.value).decode()}"


class SweepSpec(Strict, frozen=True):
    """The whole document.

    base: the spec that all points start from, or the path of its file.
    axes: dotted path in the spec (list elements by index) -> the values it takes, of any JSON type.
    mode: "grid" takes every combination, the last axis fastest; "list" the first values of all axes, then the second...
    objective: what makes a point the best. second_objective: what it is weighed against in the Pareto front.
    constraints: what a point must keep to be feasible.
    schema_uri: where an editor finds a JSON Schema; of no other use.
    """

    base: Text | dict[str, Any]
    axes: dict[str, list[Any]]
    mode: Literal["grid", "list"] = "grid"
    objective: Objective | None = None
    second_objective: Objective | None = None
    constraints: list[Constraint] = msgspec.field(default_factory=list)
    schema_uri: str | UnsetType = msgspec.field(name="$schema", default=UNSET)

    def __post_init__(self) -> None:
        if not self.axes:
            raise ValueError("axes: expected at least one path with its values")
        for path, values in self.axes.items():
            if not path or not all(path.split(".")):
                raise ValueError(f'axes: expected dotted paths such as "engine.rank.block_size", got "{path}"')
            if not values:
                raise ValueError(f"axes: {path}: expected at least one value")
        lengths = {path: len(values) for path, values in self.axes.items()}
        if self.mode == "list" and len(set(lengths.values())) > 1:
            found = ", ".join(f"{path} {length}" for path, length in lengths.items())
            raise ValueError(f'axes: mode "list" takes equally many values of every axis, got {found}')
        if self.second_objective is not None:
            if self.objective is None:
                raise ValueError("second_objective: needs an objective")
            if self.second_objective.key == self.objective.key:
                raise ValueError(f"second_objective.key: {self.objective.key} is the objective already")


class PointOutcome(msgspec.Struct, frozen=True):
    """How the run of a point ended.

    error: why it failed, None where it did not.
    summary: the figures of report.json that depend on the input alone; None where the run broke off.
    timings: those that tell of this run on its host.
    warnings: oddities of the input, a line each.
    """

    error: str | None
    summary: dict[str, Number | str | None] | None = None
    timings: dict[str, Number] | None = None
    warnings: list[str] = []


class PointResult(msgspec.Struct, frozen=True):
    """A line of results.jsonl. violated: the constraints that it does not keep; feasible: it ran, and keeps all."""

    point: int
    axes: dict[str, Any]
    status: Literal["ok", "failed"]
    error: str | None
    feasible: bool
    violated: list[str]
    summary: dict[str, Number | str | None] | None
