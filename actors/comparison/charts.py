"""Charts of a comparison: latencies of all runs over each other, and how those of requests changed."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from markupsafe import Markup

from actors.comparison.inputs import RunInput
from actors.comparison.join import REQUEST_LATENCIES, Pair, changes_ms
from actors.pages.charts import Axis, Bars, Chart, Mark, Part, Series, cdf_chart, columns, line_chart
from actors.pages.thinning import cdf_points

_TITLES = dict(
    zip(
        REQUEST_LATENCIES,
        ("Time to first token", "Mean inter-token latency of a request", "End-to-end latency"),
        strict=True,
    )
)
_SHOWN_SHARE = 0.99  # of the requests; the rest would leave the others no room
_DECADES = 4


def distribution_charts(runs: Sequence[RunInput]) -> list[Markup]:
    """Distributions of the latencies of all runs that have records; none without any."""
    if not any(run.records for run in runs):
        return []
    return [
        cdf_chart(f"distribution-{key}", title, Axis(f"{title} (ms)", log=True), _samples(key, runs))
        for key, title in _TITLES.items()
    ]


def difference_charts(runs: Sequence[RunInput], pairs: Mapping[str, Sequence[Pair]]) -> list[Markup]:
    """Distributions of the changes per request. pairs: requests of the first run and another, by label of the other."""
    return [_differences(key, title, runs, pairs) for key, title in _TITLES.items()]


def change_charts(label: str, first: str, pairs: Sequence[Pair]) -> list[Markup]:
    """Histograms of the changes of the run `label` to the first, per request."""
    return [_histogram(key, title, label, first, pairs) for key, title in _TITLES.items()]


def _samples(key: str, runs: Sequence[RunInput]) -> dict[str, list[float]]:
    """Runs without records are there too, so that every run looks the same in all charts."""
    return {
        _name(run): [value for record in run.records or () if (value := getattr(record, key)) is not None]
        for run in runs
    }


def _differences(key: str, title: str, runs: Sequence[RunInput], pairs: Mapping[str, Sequence[Pair]]) -> Markup:
    changes = [changes_ms(key, pairs.get(run.label, ())) for run in runs]
    low, high = 0.0, 0.0
    for change in changes:
        if len(change):
            edges = np.quantile(change, [(1.0 - _SHOWN_SHARE) / 2.0, (1.0 + _SHOWN_SHARE) / 2.0]).tolist()
            low, high = min(low, edges[0]), max(high, edges[1])
    series = []
    for run, change in zip(runs, changes, strict=True):
        values, shares = cdf_points(change)
        inside = (values >= low) & (values <= high)
        series.append(Series(_name(run), values[inside], shares[inside], "step"))
    chart = Chart(
        key=f"differences-{key}",
        title=f"{title}: change from {runs[0].label}",
        x=Axis("Change (ms)", low=low, high=high),
        y=Axis("Share of requests", percent=True, low=0.0, high=1.0),
        series=series,
        marks=[Mark(0.0, "no change")],
        note=f"The middle {100.0 * _SHOWN_SHARE:.0f} % of the requests of every run.",
    )
    return line_chart(chart)


def _histogram(key: str, title: str, label: str, first: str, pairs: Sequence[Pair]) -> Markup:
    changes = changes_ms(key, pairs)
    largest = float(np.max(np.abs(changes), initial=0.0)) or 1.0
    top = min(max(math.floor(math.log10(largest)), _DECADES - 4), 6)
    bounds = [10.0**power for power in range(top - _DECADES + 1, top + 1)]
    texts = [_short(bound) for bound in bounds]
    names = [*(f"-{text}" for text in reversed(texts)), "<0", "0", ">0", *texts]
    sizes = np.searchsorted(bounds, np.abs(changes), side="right") + 1
    places = len(bounds) + 1 + np.where(changes < 0.0, -sizes, np.where(changes > 0.0, sizes, 0))
    shares = np.bincount(places, minlength=len(names)) / max(len(changes), 1)
    middle = len(bounds) + 1
    at = np.arange(len(names))
    return columns(
        Bars(
            key=f"changes-{label.lower()}-{key}",
            title=f"{title}: change from {first} to {label}",
            category="Change (ms), from each bound outwards to the next",
            categories=names,
            value=Axis("Share of requests", percent=True),
            parts=[
                Part("better", np.where(at < middle, shares, 0.0)),
                Part("equal", np.where(at == middle, shares, 0.0)),
                Part("worse", np.where(at > middle, shares, 0.0)),
            ],
        )
    )


def _short(bound: float) -> str:
    return f"{bound / 1000.0:g}k" if bound >= 1000.0 else f"{bound:g}"


def _name(run: RunInput) -> str:
    return f"{run.label}: {run.path}"
