"""From the timelines of a run to its report."""

from __future__ import annotations

from actors.reporting.latencies import derive_latencies
from actors.reporting.records import request_records
from actors.reporting.routing import routing_figures
from actors.reporting.summary import summarize
from actors.reporting.timeline import RequestTimeline, RunFigures, Timelines
from messages.report import ReplayReport, ScalingReport, Shortfall
from messages.requests import Status

REASONS_SHOWN = 3


def build_report(
    timelines: Timelines,
    figures: RunFigures,
    *,
    record_per_request: bool = True,
    warnings: list[str] | None = None,
    scaling: ScalingReport | None = None,
) -> ReplayReport:
    """Compute the report of a run; `scaling` is what a scaling policy did, if there was one."""
    latencies = derive_latencies(timelines)
    return ReplayReport(
        summary=summarize(timelines, latencies, figures),
        requests=request_records(timelines, latencies) if record_per_request else None,
        shortfalls=_shortfalls(timelines.requests),
        warnings=list(warnings or []),
        routing=routing_figures(timelines.requests),
        planner=scaling,
    )


def _shortfalls(requests: list[RequestTimeline]) -> list[Shortfall]:
    groups: dict[str, list[RequestTimeline]] = {status: [] for status in (Status.REJECTED, Status.FAILED, "unfinished")}
    for request in requests:
        if request.status is not Status.COMPLETED:
            groups["unfinished" if request.status is None else request.status].append(request)
    return [Shortfall(str(status), len(group), _first_reasons(group)) for status, group in groups.items() if group]


def _first_reasons(group: list[RequestTimeline]) -> list[str]:
    reasons = dict.fromkeys(request.reason for request in group if request.reason is not None)
    return list(reasons)[:REASONS_SHOWN]
