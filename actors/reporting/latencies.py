"""Latencies of every request, derived from its token times in one sweep over all requests."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from actors.reporting.timeline import Timelines

Floats = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Latencies:
    """One element per request, in release order; NaN where a request has too few tokens for a value.

    tokens: number of emitted tokens. first_ms, last_ms: simulated time of the first and last token.
    ttft_ms: arrival to first token. ttst_ms: first to second token. e2e_ms: arrival to last token.
    tpot_ms: mean gap between tokens.
    """

    tokens: NDArray[np.int64]
    first_ms: Floats
    last_ms: Floats
    ttft_ms: Floats
    ttst_ms: Floats
    e2e_ms: Floats
    tpot_ms: Floats


def derive_latencies(timelines: Timelines) -> Latencies:
    """Derive the latencies of all requests, whatever their status."""
    times, offsets = timelines.token_times_ms, timelines.token_offsets
    count = len(timelines.requests)
    arrival = np.fromiter((request.arrived.arrival_time_ms for request in timelines.requests), np.float64, count)
    tokens = np.diff(offsets)
    some, several = tokens >= 1, tokens >= 2
    starts, ends = offsets[:-1], offsets[1:]

    first, second, last = (np.full(count, np.nan) for _ in range(3))
    first[some] = times[starts[some]]
    last[some] = times[ends[some] - 1]
    second[several] = times[starts[several] + 1]
    tpot = np.full(count, np.nan)
    tpot[several] = np.maximum(last[several] - first[several], 0.0) / (tokens[several] - 1)
    return Latencies(
        tokens=tokens,
        first_ms=first,
        last_ms=last,
        ttft_ms=np.maximum(first - arrival, 0.0),
        ttst_ms=np.maximum(second - first, 0.0),
        e2e_ms=np.maximum(last - arrival, 0.0),
        tpot_ms=tpot,
    )


def token_gaps(timelines: Timelines, counted: NDArray[np.bool_]) -> Floats:
    """Gaps in ms between the consecutive tokens of each counted request, in release order."""
    times, offsets = timelines.token_times_ms, timelines.token_offsets
    if len(times) < 2:
        return np.empty(0)
    gaps = np.diff(times)
    np.maximum(gaps, 0.0, out=gaps)
    within = np.ones(len(gaps), np.bool_)
    borders = offsets[1:-1]
    within[borders[(borders > 0) & (borders < len(times))] - 1] = False
    for start, end in zip(offsets[:-1][~counted].tolist(), offsets[1:][~counted].tolist(), strict=True):
        within[start : max(end - 1, start)] = False
    return gaps[within]
