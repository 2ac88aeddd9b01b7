"""The page of a comparison, `comparison.html`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from markupsafe import Markup, escape
from msgspec import Struct

from actors.comparison.charts import change_charts, difference_charts, distribution_charts
from actors.comparison.inputs import RunInput
from actors.comparison.join import Pair, matching
from actors.comparison.texts import (
    change_texts,
    join_text,
    metric_texts,
    ms_text,
    request_text,
    spec_values,
    statistic_rows,
    value_text,
)
from actors.pages.page import render
from actors.pages.tables import Table
from messages.comparison import Comparison, Join, Metric

_TEMPLATE = "compare.html"
_MOST_BROAD_RUNS = 4
_LOOKS = {"better": ("good", "✓ "), "worse": ("bad", "✗ ")}
"""Class and sign of a verdict, which is told in words too."""


class _JoinPart(Struct, frozen=True):
    """What the page says of the requests of one run. statistics: None where all latencies are equal."""

    title: str
    text: str
    statistics: Table | None
    charts: list[Markup]
    most_changed: Table | None


def comparison_page(comparison: Comparison, runs: Sequence[RunInput]) -> str:
    """Return the HTML page of a comparison of these runs."""
    headlines = [metric for metric in comparison.metrics if metric.headline]
    first = comparison.runs[0].label
    by_label = {run.label: run.records or [] for run in runs}
    pairs = {join.run: matching(by_label[first], by_label[join.run]) for join in comparison.joins}
    return render(
        f"Comparison of {len(comparison.runs)} runs",
        _TEMPLATE,
        first=first,
        warnings=comparison.warnings,
        broken=[check for check in comparison.bounds if check.finding is not None],
        runs=_runs(comparison),
        headlines=_metrics("Chief metrics", comparison, headlines),
        everything=_metrics("All metrics", comparison, comparison.metrics),
        count=len(comparison.metrics),
        spec=_spec(comparison),
        no_spec="Fewer than two runs have a spec to compare."
        if comparison.spec_differences is None
        else "The specs are equal.",
        distributions=distribution_charts(runs),
        differences=difference_charts(runs, pairs) if len(comparison.joins) > 1 else [],
        joins=[_join(join, first, pairs[join.run]) for join in comparison.joins],
    )


def _runs(comparison: Comparison) -> Table:
    rows = [
        [
            run.label,
            run.path,
            f"{run.completed_requests:,} of {run.num_requests:,}",
            "yes" if run.has_spec else "no",
            "yes" if run.has_records else "no",
        ]
        for run in comparison.runs
    ]
    return Table("Runs", ["Run", "Path", "Requests completed", "Spec", "Requests recorded"], rows, (0, 1, 3, 4), True)


def _metrics(caption: str, comparison: Comparison, metrics: Iterable[Metric]) -> Table:
    labels = [run.label for run in comparison.runs]
    # Of many runs the columns have to be narrow.
    separator = Markup("<br>") if len(labels) > _MOST_BROAD_RUNS else Markup(", ")
    rows: list[list[str]] = []
    for metric in metrics:
        first, *others = metric_texts(metric)
        row = [_key(metric.key), metric.better or "", first]
        for text, change in zip(others, metric.changes, strict=True):
            amount, share = change_texts(metric, change)
            look, sign = _LOOKS.get(change.verdict or "", ("", ""))
            row.append(
                Markup('{}<br>{}{}<span class="{}">{}{}</span>').format(text, amount, separator, look, sign, share)
            )
        rows.append(row)
    return Table(
        f"{caption}, with the change from {labels[0]} below each value", ["Metric", "Better", *labels], rows, (0,)
    )


def _spec(comparison: Comparison) -> Table | None:
    if not comparison.spec_differences:
        return None
    rows = []
    for difference in comparison.spec_differences:
        values = [
            Markup("<strong>{}</strong>: {}").format(", ".join(labels), _value(value, missing=missing))
            for labels, value, missing in spec_values(difference, comparison.runs)
        ]
        rows.append([_key(difference.path), Markup("<br>").join(values)])
    return Table("Fields that differ", ["Field", "Runs and their values"], rows, (0, 1))


def _value(value: Any, *, missing: bool) -> Markup:
    """A value as JSON; one that is long is there in full, folded."""
    short = value_text(value, missing=missing)
    if not isinstance(value, dict | list) or short == value_text(value, missing=missing, most=None):
        return escape(short)
    full = json.dumps(value, ensure_ascii=False, indent=2)
    return Markup('<details><summary>{}</summary><pre tabindex="0">{}</pre></details>').format(short, full)


def _key(key: str) -> Markup:
    """A name that is broken between its words alone."""
    words = re.split(r"(?<=[._])", key)
    return Markup('<code class="key">{}</code>').format(Markup("<wbr>").join(words))


def _join(join: Join, first: str, pairs: Sequence[Pair]) -> _JoinPart:
    title = f"{join.run} and {first}"
    text = join_text(join, first)
    if all(one.requests == one.equal for one in join.differences):
        equal = " Their latencies are equal." if join.matched else ""
        return _JoinPart(title, text + "." + equal, None, [], None)
    statistics = Table(
        f"Differences per request, {join.run} - {first} (ms)",
        ["Statistic", *(one.key for one in join.differences)],
        statistic_rows(join),
    )
    return _JoinPart(title, text + ".", statistics, change_charts(join.run, first, pairs), _most_changed(join, first))


def _verdict(verdict: str) -> Markup:
    look, sign = _LOOKS[verdict]
    return Markup('<span class="{}">{}{}</span>').format(look, sign, verdict)


def _most_changed(join: Join, first: str) -> Table:
    rows: list[list[Any]] = [
        [
            request_text(request),
            one.key,
            ms_text(request.first, sign=""),
            ms_text(request.other, sign=""),
            ms_text(request.difference),
            _verdict("better" if request.difference < 0.0 else "worse"),
        ]
        for one in join.differences
        for request in one.most_changed
    ]
    columns = ["Request", "Latency", f"{first} (ms)", f"{join.run} (ms)", f"{join.run} - {first} (ms)", "Verdict"]
    return Table("Requests that changed most", columns, rows, (0, 1, 5))
