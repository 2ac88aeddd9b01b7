"""How values, changes and fields are written, in the terminal and in the page."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from messages.comparison import Change, ChangedRequest, ComparedRun, Join, Metric, SpecDifference
from messages.report import Number

NOTHING = "N/A"

_VALUE_LENGTH = 80
_LARGE = 10.0  # from here on two decimals tell enough


def metric_texts(metric: Metric) -> list[str]:
    """Write the values of a metric, all with the same number of decimals."""
    return [
        NOTHING if value is None else value if isinstance(value, str) else _number(value, _decimals(metric))
        for value in metric.values
    ]


def change_texts(metric: Metric, change: Change) -> tuple[str, str]:
    """Write a change: its amount, and its percentage with the verdict in words."""
    amount = NOTHING if change.absolute is None else _number(change.absolute, _decimals(metric), sign="+")
    share = NOTHING if change.percent is None else percent_text(change.percent)
    if change.verdict is None:
        return amount, share
    if change.verdict == "equal" or change.percent is None:
        return amount, change.verdict
    return amount, f"{share} {change.verdict}"


def percent_text(percent: float) -> str:
    """Write a change in percent."""
    return f"{percent:+,.2f} %"


def ms_text(ms: float | None, *, sign: str = "+") -> str:
    """Write a time, by default one that is a difference."""
    return NOTHING if ms is None else f"{ms:{sign},.2f}"


def share_text(count: int, total: int) -> str:
    """Write a count with its share of a total."""
    return f"{count:,} ({100.0 * count / total:.1f} %)" if total else f"{count:,}"


def join_text(join: Join, first: str) -> str:
    """Say how many requests there are on both sides."""
    return (
        f"{join.matched:,} in both, {join.only_first:,} only in {first}, {join.only_other:,} only in {join.run}, "
        f"{join.other_endings:,} ended differently"
    )


def statistic_rows(join: Join) -> list[list[str]]:
    """Return the rows of a table with a column per latency, their names first."""
    columns = join.differences
    times = ("mean", "min", "p50", "p90", "p99", "max")
    return [
        ["requests", *(f"{one.requests:,}" for one in columns)],
        *([name, *(ms_text(getattr(one, name)) for one in columns)] for name in times),
        *(
            [name, *(share_text(getattr(one, name), one.requests) for one in columns)]
            for name in ("better", "worse", "equal")
        ),
    ]


def spec_values(difference: SpecDifference, runs: Sequence[ComparedRun]) -> list[tuple[list[str], Any, bool]]:
    """Return the distinct values of a field in runs with a spec: labels, value, and whether the field is missing."""
    groups: list[tuple[list[str], Any, bool]] = []
    for run, value in zip(runs, difference.values, strict=True):
        missing = run.label in difference.missing
        labels = next((labels for labels, one, none in groups if (one, none) == (value, missing)), None)
        if run.has_spec and labels is None:
            groups.append(([run.label], value, missing))
        elif run.has_spec and labels is not None:
            labels.append(run.label)
    return groups


def value_text(value: Any, *, missing: bool = False, most: int | None = _VALUE_LENGTH) -> str:
    """Write the value of a field as JSON, cut to `most` characters; `(none)` where the spec has no such field."""
    text = "(none)" if missing else json.dumps(value, ensure_ascii=False)
    return text if most is None or len(text) <= most else f"{text[: most - 3]}..."


def request_text(request: ChangedRequest) -> str:
    """Write the name of a request on one line, with its turn where it is one of a session."""
    if request.session_id is None:
        return _printable(request.request_id)
    return f"{_printable(request.request_id)} ({_printable(request.session_id)}, turn {request.turn_index})"


def _printable(text: str) -> str:
    """A text in which control characters, which a terminal would obey, are told as escapes."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _decimals(metric: Metric) -> int:
    """Small figures, such as ratios, need more."""
    return 2 if any(abs(value) >= _LARGE for value in metric.values if isinstance(value, int | float)) else 4


def _number(value: Number, decimals: int, sign: str = "") -> str:
    return f"{value:{sign},d}" if isinstance(value, int) else f"{value:{sign},.{decimals}f}"
