"""What happened in the course of a run, from the times of its requests."""

from __future__ import annotations

import math

import numpy as np

from actors.pages.report.columns import Columns, Floats
from actors.pages.scales import round_up

MOST_BUCKETS = 60


def bucket_edges(longest_ms: float, most: int = MOST_BUCKETS) -> Floats:
    """Return the edges of buckets of equal, round width, from 0 to a time after `longest_ms`."""
    width = round_up(longest_ms / most) if longest_ms > 0.0 else 1.0
    count = math.floor(longest_ms / width) + 1
    # The quotient may be rounded either way.
    return np.arange(count + 1 + (count * width <= longest_ms), dtype=np.float64) * width


def arrivals(columns: Columns, edges: Floats) -> Floats:
    """Return how many requests arrived in each bucket."""
    return np.histogram(columns.arrival_ms, edges)[0].astype(np.float64)


def in_flight(columns: Columns) -> tuple[Floats, Floats]:
    """Return the times at which the number of requests in flight changed, and that number from then on.

    A request is in flight from its arrival until it ends. A number that held for no time is left out.
    """
    times = np.concatenate([columns.arrival_ms, columns.terminal_ms])
    changes = np.concatenate([np.ones(len(columns.arrival_ms)), -np.ones(len(columns.terminal_ms))])
    order = np.argsort(times, kind="stable")
    times, counts = times[order], np.cumsum(changes[order])
    last_of_time = np.append(times[1:] != times[:-1], [True] * (len(times) > 0)).astype(np.bool_)
    return np.append(0.0, times[last_of_time]), np.append(0.0, counts[last_of_time])


def levels(times: Floats, counts: Floats, edges: Floats) -> tuple[Floats, Floats]:
    """Return the mean and the highest level in each bucket, of a level that changed to `counts` at `times`."""
    points: Floats = np.union1d(times, edges)
    held = counts[np.maximum(np.searchsorted(times, points, side="right") - 1, 0)][:-1]
    area = np.append(0.0, np.cumsum(held * np.diff(points)))
    begins = np.searchsorted(points, edges)
    return np.diff(area[begins]) / np.diff(edges), np.maximum.reduceat(held, begins[:-1])


def means_of_samples(at_ms: Floats, values: Floats, edges: Floats) -> Floats:
    """Return the mean of the samples taken in each bucket; NaN where there are none."""
    known = ~np.isnan(values)
    counts = np.histogram(at_ms[known], edges)[0]
    sums = np.histogram(at_ms[known], edges, weights=values[known])[0]
    means: Floats = np.divide(sums, counts, out=np.full(len(counts), np.nan), where=counts > 0)
    return means


def output_tokens(columns: Columns, edges: Floats) -> Floats:
    """Return the tokens that came out in each bucket; those of a request spread evenly from its first to its last."""
    some = (columns.outputs > 0) & ~np.isnan(columns.first_ms)
    first, last = columns.first_ms[some], columns.last_ms[some]
    tokens = columns.outputs[some].astype(np.float64)
    spread = last > first
    rates = np.divide(tokens, last - first, out=np.zeros_like(tokens), where=spread)
    until = np.array(
        [
            float(np.where(spread, rates * np.clip(edge - first, 0.0, last - first), tokens * (first < edge)).sum())
            for edge in edges.tolist()
        ]
    )
    return np.diff(until)
