"""Checks of a ReplaySpec that involve more than one of its parts."""

from __future__ import annotations

import math
from collections.abc import Sequence

from msgspec import UNSET

from messages.spec import (
    AggregatedTopology,
    DisaggregatedTopology,
    EngineSpec,
    InlineRequest,
    KvRouterPlacement,
    ReplaySpec,
    RoleSpec,
    SyntheticWorkload,
    TraceWorkload,
)

_MOST_GROUPS = 2**32
_LONGEST_GAP = 37.0
"""No gap drawn from an exponential distribution by 53 random bits is longer than so many times the mean."""


def check_spec(spec: ReplaySpec) -> list[str]:
    """Return every finding as `path: what is wrong`; an empty list for a sound document."""
    findings = check_source(spec.requests is not UNSET, spec.workload is not UNSET)
    if spec.workload is not UNSET:
        findings += check_workload_values(spec.workload, spec.max_in_flight)
    if isinstance(spec.adapters.placement, KvRouterPlacement):
        findings += _check_kv_router(spec, spec.adapters.placement)
    if isinstance(spec.topology, DisaggregatedTopology):
        findings += _check_roles(spec.engine)
        if spec.requests is not UNSET:
            findings += check_requests(spec.requests, None) + _check_no_ranks(spec.requests)
        return findings
    for name in ("prefill", "decode"):
        if getattr(spec.engine, name) is not None:
            findings.append(f"engine.{name}: an aggregated topology has no such pool; remove it")
    if spec.requests is not UNSET:
        findings += check_requests(spec.requests, spec.engine.dp_size)
        findings += [
            f"requests[{index}].prefill_dp_rank: an aggregated topology has no prefill ranks; remove it"
            for index, request in enumerate(spec.requests)
            if request.prefill_dp_rank is not None
        ]
    return findings


def _check_kv_router(spec: ReplaySpec, placement: KvRouterPlacement) -> list[str]:
    """Return the findings about a KV router and what it cannot heed."""
    if not isinstance(spec.topology, AggregatedTopology):
        return []
    findings = [
        f"adapters.placement.config.{name}: an aggregated topology has no such pool; use router_queue_policy"
        for name in ("prefill_queue_policy", "decode_queue_policy")
        if getattr(placement.config, name) is not None
    ]
    if spec.requests is not UNSET:
        findings += [
            f"requests[{index}].dp_rank: the KV router chooses ranks itself; remove it"
            for index, request in enumerate(spec.requests)
            if request.dp_rank is not None
        ]
    return findings


def _check_roles(engine: EngineSpec) -> list[str]:
    """Return the findings about the engines of two pools that must fit each other."""
    prefill, decode = engine.role(engine.prefill).rank, engine.role(engine.decode).rank
    findings = []
    if engine.prefill is not None and engine.decode is not None and engine.role() != RoleSpec():
        findings.append(
            "engine: rank, dp_size and tensor_parallel_size are for pools without an engine of their own, "
            "and both have one; remove them or one of prefill and decode"
        )
    if prefill.backend != decode.backend:
        findings.append(
            f"engine.decode.rank.backend: both pools must have the same backend, "
            f"got {prefill.backend} for prefill and {decode.backend} for decode"
        )
    if prefill.tokens_per_block != decode.tokens_per_block:
        findings.append(
            f"engine.decode.rank.block_size: both pools must have the same block size, "
            f"got {prefill.tokens_per_block} for prefill and {decode.tokens_per_block} for decode"
        )
    return findings


def _check_no_ranks(requests: Sequence[InlineRequest]) -> list[str]:
    """Return a finding per request that asks for a rank, which only an aggregated cluster heeds."""
    return [
        f"requests[{index}].{name}: this version heeds ranks in an aggregated topology only; remove it"
        for index, request in enumerate(requests)
        for name in ("dp_rank", "prefill_dp_rank")
        if getattr(request, name) is not None
    ]


def check_source(has_requests: bool, has_workload: bool) -> list[str]:
    """Return a finding unless exactly one of `requests` and `workload` is there."""
    if has_requests == has_workload:
        found = "both" if has_requests else "neither"
        return [f"give exactly one of `requests` and `workload`, got {found}"]
    return []


def check_workload_values(workload: TraceWorkload | SyntheticWorkload, max_in_flight: int | None) -> list[str]:
    """Return the findings about values of a workload whose limits depend on other values."""
    open_loop = max_in_flight is None
    if isinstance(workload, SyntheticWorkload):
        findings = _check_load_control(workload, max_in_flight)
        findings += _check_speedup(workload.arrival_speedup_ratio) if open_loop else []
        findings += _check_sessions(workload) if workload.has_sessions else []
        # Times can be told only from values that make sense.
        return findings or (_check_times(workload) if open_loop else [])
    if workload.format == "applied_compute_agentic":
        findings = _check_share(workload.shared_prefix_ratio)
        if open_loop:
            findings.append(
                f"workload.format: {workload.format} has no arrival times and needs the top-level max_in_flight"
            )
        return findings
    return _check_speedup(workload.arrival_speedup_ratio) if open_loop else []


def _check_load_control(workload: SyntheticWorkload, max_in_flight: int | None) -> list[str]:
    controls = {
        "request_rate": workload.request_rate,
        "arrival_interval_ms": workload.arrival_interval_ms,
        "max_in_flight": max_in_flight,
    }
    given = [name for name, value in controls.items() if value is not None]
    if len(given) == 1:
        return []
    found = " and ".join(given) or "none"
    return [f"workload: give exactly one of {', '.join(controls)} (top level), got {found}"]


def _check_speedup(ratio: float) -> list[str]:
    if 0.0 < ratio < math.inf:
        return []
    return [f"workload.arrival_speedup_ratio: expected a finite number > 0, got {ratio}"]


def _check_share(ratio: float) -> list[str]:
    if 0.0 <= ratio <= 1.0:
        return []
    return [f"workload.shared_prefix_ratio: expected a number in 0.0..1.0, got {ratio}"]


def _check_sessions(workload: SyntheticWorkload) -> list[str]:
    findings = []
    if workload.turns_per_session < 1:
        findings.append("workload.turns_per_session: expected an integer >= 1, got 0")
    findings += _check_share(workload.shared_prefix_ratio)
    if workload.num_prefix_groups > _MOST_GROUPS:
        findings.append(
            f"workload.num_prefix_groups: expected an integer in 0..{_MOST_GROUPS}, got {workload.num_prefix_groups}"
        )
    if not 0.0 <= workload.inter_turn_delay_ms < math.inf:
        findings.append(
            f"workload.inter_turn_delay_ms: expected a finite number >= 0, got {workload.inter_turn_delay_ms}"
        )
    return findings


def _check_times(workload: SyntheticWorkload) -> list[str]:
    """Check that the arrival of the last request and the think times are finite, with a little to spare."""
    field, gap_ms = "arrival_interval_ms", 0.0
    if workload.request_rate is not None:
        field, gap_ms = "request_rate", _LONGEST_GAP * (1000.0 / workload.request_rate)
    elif workload.arrival_interval_ms:
        requests_per_second = 1000.0 / workload.arrival_interval_ms
        gap_ms = 2.0 * (1000.0 / requests_per_second) if requests_per_second < math.inf else math.inf
    last_ms = gap_ms * max(workload.request_count - 1, 1)
    times = {
        field: last_ms,
        "arrival_speedup_ratio": last_ms / workload.arrival_speedup_ratio,
        "inter_turn_delay_ms": workload.inter_turn_delay_ms / workload.arrival_speedup_ratio,
    }
    for name, time_ms in times.items():
        if not math.isfinite(time_ms):
            return [f"workload.{name}: leads to a time beyond the range of numbers; use a less extreme value"]
    return []


def check_requests(requests: Sequence[InlineRequest | None], dp_size: int | None) -> list[str]:
    """Return the findings about ranks and repeated ids; rows that are None are passed over.

    dp_size: ranks of a worker, None where that is not known.
    """
    findings: list[str] = []
    first_index: dict[str, int] = {}
    for index, request in enumerate(requests):
        if request is None:
            continue
        path = f"requests[{index}]"
        if request.dp_rank is not None and dp_size is not None and request.dp_rank >= dp_size:
            expected = f"an integer in 0..{dp_size - 1} (engine.dp_size is {dp_size})"
            findings.append(f"{path}.dp_rank: expected {expected}, got {request.dp_rank}")
        earlier = first_index.setdefault(request.id, index)
        if earlier != index:
            findings.append(f"{path}.id: duplicate of requests[{earlier}].id")
    return findings
