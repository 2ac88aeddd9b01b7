"""What a comparison of finished runs says: the document of `compare --json` and of `comparison.json`.

Runs have labels, A for the first, which all others are compared with. Times in simulated ms, lengths in tokens.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from messages.report import Number

Direction = Literal["lower", "higher"]
Verdict = Literal["better", "worse", "equal", "different"]


class ComparedRun(msgspec.Struct, frozen=True):
    """A run as it was given. has_spec, has_records: whether its spec and its requests could be compared too."""

    label: str
    path: str
    num_requests: int
    completed_requests: int
    has_spec: bool
    has_records: bool


class Change(msgspec.Struct, frozen=True):
    """From the first run to another: absolute is other - first, percent of the first.

    Both are None where a run has no number, percent also where the first has 0 and the other has not.
    verdict: `different` where neither way is better, None where a run has no value or the two cannot be judged.
    """

    run: str
    absolute: Number | None
    percent: float | None
    verdict: Verdict | None


class Metric(msgspec.Struct, frozen=True):
    """A figure of report.json, those of its objects with dotted keys.

    better: None where neither way is. values: one per run, None where it has none. changes: one per run but the first.
    """

    key: str
    better: Direction | None
    headline: bool
    values: list[Number | str | None]
    changes: list[Change]


class SpecDifference(msgspec.Struct, frozen=True):
    """A field that not all specs have with the same value.

    values: one per run, null also for runs in `missing`, which do not have the field. Paths start from the working
    directory, or are absolute. Of inline requests there are counts.
    """

    path: str
    values: list[Any]
    missing: list[str]


class ChangedRequest(msgspec.Struct, frozen=True):
    """A request of both runs. difference: other - first."""

    request_id: str
    session_id: str | None
    turn_index: int | None
    first: float
    other: float
    difference: float


class RequestDifferences(msgspec.Struct, frozen=True):
    """Differences other - first of a latency, over the requests of both runs that have it in both.

    Less than a nanosecond counts as equal. Statistics are None without a request.
    most_changed: the requests with the largest differences either way, the largest first.
    """

    key: str
    requests: int
    mean: float | None
    min: float | None
    p50: float | None
    p90: float | None
    p99: float | None
    max: float | None
    better: int
    worse: int
    equal: int
    most_changed: list[ChangedRequest]


class Join(msgspec.Struct, frozen=True):
    """The requests of a run beside those of the first.

    matched: in both. only_first, only_other: in one of them.
    other_arrivals, other_lengths: matched ones that arrive at another time, and that have another input length or ask
        for another output length. Arrivals that depend on the run are not counted: of later turns, and in closed loops.
    other_endings: matched ones with another terminal status.
    """

    run: str
    matched: int
    only_first: int
    only_other: int
    other_arrivals: int
    other_lengths: int
    other_endings: int
    differences: list[RequestDifferences]


class BoundCheck(msgspec.Struct, frozen=True):
    """A bound of `--fail-if` and a run. finding: how the run breaks it, None where it does not."""

    bound: str
    run: str
    finding: str | None


class Comparison(msgspec.Struct, frozen=True):
    """metrics: in the order of report.json. spec_differences: None where fewer than two runs have a spec.

    joins: one per run but the first that has records, if the first has. bounds: in the order given.
    warnings: why runs may not be comparable, a line each.
    """

    runs: list[ComparedRun]
    warnings: list[str]
    metrics: list[Metric]
    spec_differences: list[SpecDifference] | None
    joins: list[Join]
    bounds: list[BoundCheck] = []
