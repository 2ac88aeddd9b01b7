"""Checks of a ReplaySpec that involve more than one of its parts."""

from __future__ import annotations

from collections.abc import Sequence

from msgspec import UNSET

from messages.spec import InlineRequest, ReplaySpec, SyntheticWorkload


def check_spec(spec: ReplaySpec) -> list[str]:
    """Return every finding as `path: what is wrong`; an empty list for a sound document."""
    findings = check_source(spec.requests is not UNSET, spec.workload is not UNSET)
    if isinstance(spec.workload, SyntheticWorkload):
        findings += check_load_control(spec.workload, spec.max_in_flight)
    if spec.requests is not UNSET:
        findings += check_requests(spec.requests)
    return findings


def check_source(has_requests: bool, has_workload: bool) -> list[str]:
    """Return a finding unless exactly one of `requests` and `workload` is there."""
    if has_requests == has_workload:
        found = "both" if has_requests else "neither"
        return [f"give exactly one of `requests` and `workload`, got {found}"]
    return []


def check_load_control(workload: SyntheticWorkload, max_in_flight: int | None) -> list[str]:
    """Return a finding unless exactly one load control of a synthetic workload is given."""
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


def check_requests(requests: Sequence[InlineRequest | None]) -> list[str]:
    """Return the findings about ranks and repeated ids; rows that are None are passed over."""
    findings: list[str] = []
    first_index: dict[str, int] = {}
    for index, request in enumerate(requests):
        if request is None:
            continue
        path = f"requests[{index}]"
        if request.prefill_dp_rank is not None:
            findings.append(f"{path}.prefill_dp_rank: an aggregated topology has no prefill ranks; remove it")
        if request.dp_rank is not None and request.dp_rank > 0:
            findings.append(f"{path}.dp_rank: expected 0 (a worker has one rank), got {request.dp_rank}")
        earlier = first_index.setdefault(request.id, index)
        if earlier != index:
            findings.append(f"{path}.id: duplicate of requests[{earlier}].id")
    return findings
