"""Distributions of the latencies, with the bounds of the SLA."""

from __future__ import annotations

import numpy as np
from markupsafe import Markup

from actors.pages.charts import Axis, Mark, Series, cdf_chart
from actors.pages.report.columns import Columns, Floats
from actors.pages.scales import significant
from actors.pages.sections import Section, paragraph, side_by_side
from actors.reporting.results import Results
from actors.reporting.statistics import PERCENTILES
from messages.spec import Sla

_LOG_FROM = 20.0
"""A distribution is drawn on a logarithmic axis if its largest value is so many times its first percentile."""


def latency_section(results: Results, columns: Columns | None, sla: Sla) -> Section:
    """Return the distributions of TTFT, ITL and E2E; of ITL both the means of requests and percentiles of all gaps."""
    ttft = gaps = e2e = np.zeros(0)
    if columns is not None:
        ttft, gaps, e2e = map(columns.sample, (columns.ttft_ms, columns.gap_ms, columns.e2e_ms))
    charts = [
        _chart("cdf-ttft", "Time to first token (TTFT)", {"requests": ttft}, results, "ttft_ms", sla.ttft_ms),
        _chart(
            "cdf-itl",
            "Inter-token latency (ITL)",
            {"mean gap of each request": gaps},
            results,
            "itl_ms",
            sla.itl_ms,
            points="percentiles of all gaps",
            note="Records keep the mean gap of a request. Of all gaps the report has percentiles, drawn as points.",
        ),
        _chart("cdf-e2e", "End-to-end latency (E2E)", {"requests": e2e}, results, "e2e_latency_ms", sla.e2e_ms),
    ]
    blocks = [side_by_side(charts)]
    if columns is None:
        blocks.insert(0, paragraph("Without records of requests, these are the percentiles that the report has."))
    return Section("latencies", "Distributions of latencies", blocks)


def _chart(
    key: str,
    title: str,
    samples: dict[str, Floats],
    results: Results,
    suffix: str,
    bound: float | None,
    *,
    points: str = "percentiles",
    note: str = "",
) -> Markup:
    (sample,) = samples.values()
    exact = _percentiles(results, suffix, points) if suffix == "itl_ms" or not len(sample) else None
    extra = [exact] if exact is not None else []
    values = np.concatenate([sample, *(np.asarray(series.xs, np.float64) for series in extra)])
    marks = [Mark(bound, f"SLA {significant(bound)} ms")] if bound is not None else []
    return cdf_chart(
        key,
        title,
        Axis(f"{title.partition('(')[2].rstrip(')')} (ms)", log=_spread_out(values)),
        samples,
        marks=marks,
        note=note,
        extra=extra,
    )


def _percentiles(results: Results, suffix: str, name: str) -> Series | None:
    """What the report tells of a distribution, as points."""
    shares = {
        "min": 0.0,
        **{statistic: percentile / 100.0 for statistic, percentile in PERCENTILES.items()},
        "max": 1.0,
    }
    found = {results.figure(f"{statistic}_{suffix}"): share for statistic, share in shares.items()}
    known = [(value, share) for value, share in found.items() if value is not None]
    if not known:
        return None
    return Series(name, [value for value, _ in known], [share for _, share in known], "points")


def _spread_out(values: Floats) -> bool:
    positive = values[values > 0.0]
    if len(positive) < max(2.0, 0.99 * len(values)):
        return False
    return bool(positive.max() > _LOG_FROM * np.quantile(positive, 0.01))
