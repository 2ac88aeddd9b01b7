"""Charts over the time of a run: traffic from the records, the state of the cluster from samples."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
from markupsafe import Markup

from actors.pages.charts import Axis, Chart, Series, line_chart
from actors.pages.report.columns import Columns, Floats
from actors.pages.report.series import arrivals, bucket_edges, in_flight, levels, means_of_samples, output_tokens
from actors.pages.scales import duration_text, time_unit
from actors.pages.sections import Section, note, side_by_side
from actors.pages.thinning import MOST_POINTS
from actors.reporting.results import Results
from messages.report import ScalingReport
from messages.spec import AggregatedTopology, ReplaySpec
from messages.telemetry import SchedulerMetrics, TelemetrySample

_MOST_SAMPLES = 120
_SUFFIX = {"agg": "", "prefill": "prefill ", "decode": "decode "}


def time_section(results: Results, columns: Columns | None, spec: ReplaySpec | None) -> Section:
    """Return what happened in the course of the run, as far as it is known."""
    longest = _longest_ms(results, columns)
    unit, unit_ms = time_unit(longest)
    time = Axis(f"Simulated time ({unit})", low=0.0, high=longest / unit_ms or 1.0)
    charts = _traffic(columns, time, longest, unit_ms) if columns is not None else []
    missing = []
    if columns is None:
        missing.append("Arrivals, requests in flight and throughput need the records of requests.")
    if results.telemetry:
        charts += _state(results.telemetry, time, unit_ms)
    else:
        missing.append(
            "Running and waiting requests and the use of the cache are known where the run was sampled: "
            "replay with --set 'telemetry={\"sample_interval_ms\": 1000}'."
        )
    workers = _workers(results, spec, unit_ms)
    if workers:
        charts.append(
            line_chart(
                Chart(
                    key="workers-over-time",
                    title="Workers",
                    x=time,
                    y=Axis("Workers"),
                    series=workers,
                    note="Active workers serve; starting ones do not yet; draining ones finish what they have.",
                )
            )
        )
    else:
        missing.append("The number of workers stayed the same, since there was no scaling policy.")
    return Section("time", "Over time", [side_by_side(charts), *map(note, missing)])


def _longest_ms(results: Results, columns: Columns | None) -> float:
    times = [results.figure("duration_ms") or 0.0]
    if columns is not None and len(columns.records):
        times += [float(columns.terminal_ms.max()), float(columns.arrival_ms.max())]
    if results.telemetry:
        times.append(results.telemetry[-1].sampled_at_ms)
    return max(times)


def _traffic(columns: Columns, time: Axis, longest: float, unit_ms: float) -> list[Markup]:
    edges = bucket_edges(longest)
    width = float(edges[1] - edges[0])
    per_second = output_tokens(columns, edges) / (width / 1000.0)
    begins = edges / unit_ms
    every = duration_text(width)
    return [
        line_chart(
            Chart(
                key="arrivals",
                title="Arrivals",
                x=time,
                y=Axis("Requests"),
                series=[Series("arrivals", begins, np.append(arrivals(columns, edges), 0.0), "step")],
                note=f"Requests that arrived in each {every}.",
            )
        ),
        _in_flight(columns, time, edges, unit_ms),
        line_chart(
            Chart(
                key="throughput",
                title="Output throughput",
                x=time,
                y=Axis("Tokens per second"),
                series=[Series("output tokens per second", begins, np.append(per_second, 0.0), "step")],
                note=f"Per {every}; the tokens of a request are spread evenly from its first to its last.",
            )
        ),
    ]


def _in_flight(columns: Columns, time: Axis, edges: Floats, unit_ms: float) -> Markup:
    """Every change where there are few, or else what they come to in each bucket."""
    times, counts = in_flight(columns)
    note = "Requests that had arrived and not yet ended."
    series = [Series("in flight", times / unit_ms, counts, "step")]
    if len(times) > MOST_POINTS:
        means, highest = levels(times, counts, edges)
        begins = edges / unit_ms
        series = [
            Series("mean", begins, np.append(means, 0.0), "step"),
            Series("most at once", begins, np.append(highest, 0.0), "step"),
        ]
        note = f"{note[:-1]}, per {duration_text(float(edges[1] - edges[0]))}."
    return line_chart(Chart(key="in-flight", title="In flight", x=time, y=Axis("Requests"), series=series, note=note))


def _state(samples: Sequence[TelemetrySample], time: Axis, unit_ms: float) -> list[Markup]:
    """What the samples tell of schedulers and caches: each where there are few, or else means of some together."""
    at_ms = np.array([sample.sampled_at_ms for sample in samples])
    requests, cache = _gauges(samples)
    taken = "At the times of the samples"
    if len(samples) > _MOST_SAMPLES:
        edges = bucket_edges(float(at_ms[-1]))
        requests, cache = (
            {name: means_of_samples(at_ms, values, edges) for name, values in gauges.items()}
            for gauges in (requests, cache)
        )
        at_ms = (edges[:-1] + edges[1:]) / 2.0
        taken = f"Means of the samples in each {duration_text(float(edges[1] - edges[0]))}"
    return [
        line_chart(
            Chart(
                key="running-waiting",
                title="Running and waiting",
                x=time,
                y=Axis("Requests"),
                series=[Series(name, at_ms / unit_ms, values) for name, values in requests.items()],
                note=f"On all workers together. {taken}.",
            )
        ),
        line_chart(
            Chart(
                key="cache",
                title="KV cache",
                x=time,
                y=Axis("Share of all blocks", percent=True, low=0.0, high=1.0),
                series=[Series(name, at_ms / unit_ms, values) for name, values in cache.items()],
                note=f"Cached is what no request uses, but one might again. {taken}.",
            )
        ),
    ]


def _gauges(samples: Sequence[TelemetrySample]) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Requests, and the use of the cache as a share of its blocks, by name: a value per sample."""
    pools: dict[str, list[list[SchedulerMetrics]]] = {
        "prefill ": [sample.prefill_scheduler_metrics for sample in samples],
        "decode ": [sample.decode_scheduler_metrics for sample in samples],
    }
    if not any(pools["prefill "]):
        pools = {"": pools["decode "]}
    requests, cache = {}, {}
    for pool, rows in pools.items():
        requests[f"{pool}running"] = _floats(sum(rank.running_requests for rank in ranks) for ranks in rows)
        requests[f"{pool}waiting"] = _floats(sum(rank.waiting_requests for rank in ranks) for ranks in rows)
        total = _floats(sum(rank.total_blocks for rank in ranks) or math.nan for ranks in rows)
        active = _floats(sum(rank.active_blocks for rank in ranks) for ranks in rows)
        held = active + _floats(sum(rank.inactive_blocks for rank in ranks) for ranks in rows)
        cache[f"{pool}in use"] = active / total
        cache[f"{pool}in use or cached"] = held / total
    queued = _floats(
        sample.router_pending_prefill_requests + sample.router_pending_decode_requests for sample in samples
    )
    if queued.any():
        requests["waiting in the router"] = queued
    return requests, cache


def _floats(values: Iterable[float]) -> Floats:
    return np.array(list(values), np.float64)


def _workers(results: Results, spec: ReplaySpec | None, unit_ms: float) -> list[Series]:
    """Workers by pool and state; exactly where a scaling policy ran, else as sampled."""
    if results.planner is not None:
        return _workers_of_planner(results.planner, spec, unit_ms)
    samples = results.telemetry or []
    at = [sample.sampled_at_ms / unit_ms for sample in samples]
    states = {
        "prefill active": [len(sample.active_prefill_ids) for sample in samples],
        "decode active": [len(sample.active_decode_ids) for sample in samples],
    }
    if not any(states["prefill active"]):
        states = {"active": states["decode active"]}
    return [Series(name, at, counts, "step") for name, counts in states.items() if samples]


def _workers_of_planner(planner: ScalingReport, spec: ReplaySpec | None, unit_ms: float) -> list[Series]:
    series = []
    initial = _initial_workers(spec)
    for pool in initial or dict.fromkeys(count.pool for count in planner.worker_counts):
        counts = [count for count in planner.worker_counts if count.pool == pool]
        begin = [initial[pool]] if pool in initial else []
        at = [0.0] * len(begin) + [count.at_ms / unit_ms for count in counts]
        states = {
            "active": [*begin, *(count.active for count in counts)],
            "starting": [*(0 for _ in begin), *(count.starting for count in counts)],
            "draining": [*(0 for _ in begin), *(count.draining for count in counts)],
        }
        for state, values in states.items():
            if state == "active" or any(values):
                series.append(Series(f"{_SUFFIX.get(pool, pool + ' ')}{state}", at, values, "step"))
    return series


def _initial_workers(spec: ReplaySpec | None) -> dict[str, int]:
    if spec is None:
        return {}
    if isinstance(spec.topology, AggregatedTopology):
        return {"agg": spec.topology.workers.initial_workers}
    return {
        "prefill": spec.topology.prefill.initial_workers,
        "decode": spec.topology.decode.initial_workers,
    }
