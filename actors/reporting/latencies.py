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
    times, owners, begins, ends = timelines.times_ms, timelines.owners, timelines.begins, timelines.ends
    count = len(timelines.requests)
    arrival = np.fromiter((request.arrived.arrival_time_ms for request in timelines.requests), np.float64, count)
    tokens = np.zeros(count, np.int64)
    np.add.at(tokens, owners, ends - begins)

    changes = owners[1:] != owners[:-1]
    edge = np.ones(min(len(owners), 1), np.bool_)
    firsts = np.nonzero(np.concatenate((edge, changes)))[0]
    lasts = np.nonzero(np.concatenate((changes, edge)))[0]
    some = owners[firsts]
    first, second, last = (np.full(count, np.nan) for _ in range(3))
    first[some] = times[begins[firsts]]
    last[some] = times[ends[lasts] - 1]
    several = tokens >= 2
    follows = firsts[several[some]]
    in_first = ends[follows] - begins[follows] >= 2
    # A first stretch of one token is followed by another stretch of the same request.
    position = np.where(in_first, begins[follows] + 1, begins[np.where(in_first, follows, follows + 1)])
    second[several] = times[position]
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


def token_gaps(timelines: Timelines, counted: NDArray[np.bool_]) -> tuple[Floats, NDArray[np.int64]]:
    """Gaps in ms between the consecutive tokens of counted requests, and how many requests have each.

    A gap between two passes of a rank is the same for all requests that emitted in both.
    """
    chosen = counted[timelines.owners]
    times, owners = timelines.times_ms, timelines.owners[chosen]
    begins, ends = timelines.begins[chosen], timelines.ends[chosen]
    size = len(times)
    if not size:
        return np.empty(0), np.empty(0, np.int64)
    shared = np.cumsum(np.bincount(begins, minlength=size) - np.bincount(ends - 1, minlength=size))[:-1]
    within = shared > 0
    resumed = np.nonzero(owners[1:] == owners[:-1])[0]
    gaps = np.concatenate((np.diff(times)[within], times[begins[resumed + 1]] - times[ends[resumed] - 1]))
    return np.maximum(gaps, 0.0), np.concatenate((shared[within], np.ones(len(resumed), np.int64)))
