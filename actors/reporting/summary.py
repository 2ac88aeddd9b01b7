"""The summary: every figure of `report.json`."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from actors.reporting.latencies import Latencies, token_gaps
from actors.reporting.statistics import STATISTICS, Distribution, distribution, gap_and_rate_distributions
from actors.reporting.timeline import RunFigures, Timelines
from messages.report import Number
from messages.spec import Sla

Summary = dict[str, Number | str | None]

MS_PER_S = 1000.0
S_PER_H = 3600.0
_SHORTEST_RUN_S = 1e-9  # keeps rates finite where everything happens at time 0


def summarize(timelines: Timelines, latencies: Latencies, figures: RunFigures) -> Summary:
    """Compute the figures of a run, in the order of the report.

    Keys carry their unit (`_ms`, `_rps`, `_tok_s`). Statistics without a sample are None; rates and ratios without one
    are 0.0. Only completed requests that were admitted count, except in `num_requests`.
    """
    requests = timelines.requests
    counted = np.fromiter((request.counted for request in requests), np.bool_, len(requests))
    chosen = [request for request in requests if request.counted]
    input_tokens = sum(request.arrived.input_length for request in chosen)
    output_tokens = int(latencies.tokens[counted].sum())
    duration_ms = max((request.terminal_time_ms or 0.0 for request in chosen), default=0.0)
    duration_s = max(duration_ms / MS_PER_S, _SHORTEST_RUN_S)
    reused = sum(max(admission.reused_tokens for admission in request.admissions) for request in chosen)
    first_reused = sum(request.admissions[0].reused_tokens for request in chosen)
    wall_ms = figures.wall_time_ms

    summary: Summary = {
        "kv_eviction_policy": "lru",
        "committed_prefill_tokens": figures.committed_prefill_tokens,
        "num_requests": len(requests),
        "completed_requests": len(chosen),
        "total_input_tokens": input_tokens,
        "total_output_tokens": output_tokens,
        "duration_ms": duration_ms,
        "wall_time_ms": wall_ms,
        "request_throughput_rps": len(chosen) / duration_s,
        "input_throughput_tok_s": input_tokens / duration_s,
        "output_throughput_tok_s": output_tokens / duration_s,
        "total_throughput_tok_s": (input_tokens + output_tokens) / duration_s,
        "prefill_worker_seconds": figures.prefill_worker_seconds,
        "decode_worker_seconds": figures.worker_seconds,
        "prefill_gpus_per_worker": figures.prefill_gpus_per_worker,
        "decode_gpus_per_worker": figures.gpus_per_worker,
        "gpu_hours": (
            figures.prefill_worker_seconds * figures.prefill_gpus_per_worker
            + figures.worker_seconds * figures.gpus_per_worker
        )
        / S_PER_H,
    }
    if figures.sla != Sla():
        terminal = np.fromiter((request.terminal_time_ms or 0.0 for request in requests), np.float64, len(requests))
        arrival = np.fromiter((request.arrived.arrival_time_ms for request in requests), np.float64, len(requests))
        good = counted & _keeps_sla(figures.sla, latencies, np.maximum(terminal - arrival, 0.0))
        summary["goodput_completed_requests"] = int(np.count_nonzero(good))
        summary["goodput_request_throughput_rps"] = int(np.count_nonzero(good)) / duration_s
        summary["goodput_output_throughput_tok_s"] = int(latencies.tokens[good].sum()) / duration_s
    if figures.decode_forwards:
        summary["accept_length_forward_count"] = figures.decode_forwards
        summary["avg_accept_length"] = figures.accepted_tokens / figures.decode_forwards
    processed = input_tokens + output_tokens
    ttft, ttst, tpot, e2e = (
        _present(values[counted])
        for values in (latencies.ttft_ms, latencies.ttst_ms, latencies.tpot_ms, latencies.e2e_ms)
    )
    itl, rates = gap_and_rate_distributions(*token_gaps(timelines, counted))
    summary |= {
        "power_w": None,
        "power_coverage": None,
        "processed_tokens": processed,
        "processed_tokens_per_s": processed / wall_ms * MS_PER_S if wall_ms > 0.0 else 0.0,
        "processed_output_tokens_per_s": output_tokens / wall_ms * MS_PER_S if wall_ms > 0.0 else 0.0,
        "prefix_cache_reused_ratio": reused / input_tokens if input_tokens else 0.0,
        "first_admission_prefix_cache_reused_ratio": first_reused / input_tokens if input_tokens else 0.0,
        "num_ttft_samples": ttft.count,
        "num_tpot_samples": tpot.count,
        "num_e2e_latency_samples": e2e.count,
        "num_ttst_samples": ttst.count,
        "num_itl_samples": itl.count,
    }
    named = {"ttft_ms": ttft, "ttst_ms": ttst, "tpot_ms": tpot, "itl_ms": itl, "e2e_latency_ms": e2e}
    for suffix, sample in {**named, "output_token_throughput_per_user": rates}.items():
        summary |= {f"{statistic}_{suffix}": sample.value(statistic) for statistic in STATISTICS}
    return summary


def _present(values: NDArray[np.float64]) -> Distribution:
    return distribution(values[~np.isnan(values)])


def _keeps_sla(sla: Sla, latencies: Latencies, turnaround_ms: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which requests keep all bounds that are set; one without tokens is judged by its whole turnaround alone."""
    ttft, itl, e2e = (math.inf if bound is None else bound for bound in (sla.ttft_ms, sla.itl_ms, sla.e2e_ms))
    tokens = latencies.tokens
    mean_gap = np.zeros(len(tokens))
    several = tokens >= 2
    mean_gap[several] = (latencies.e2e_ms[several] - latencies.ttft_ms[several]) / (tokens[several] - 1.0)
    good: NDArray[np.bool_] = (latencies.ttft_ms <= ttft) & (latencies.e2e_ms <= e2e) & (mean_gap <= itl)
    if sla.e2e_ms is None:
        return good
    good |= (tokens == 0) & (turnaround_ms <= e2e)
    return good
