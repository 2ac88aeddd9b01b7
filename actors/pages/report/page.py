"""The page about one run."""

from __future__ import annotations

from pathlib import Path

import msgspec

from actors.pages.page import render
from actors.pages.report.attainment import attainment_section
from actors.pages.report.balance import balance_section
from actors.pages.report.breakdown import slowest_section
from actors.pages.report.columns import columns_of
from actors.pages.report.endings import endings_section
from actors.pages.report.headline import headline_section
from actors.pages.report.latencies import latency_section
from actors.pages.report.over_time import time_section
from actors.pages.report.policies import routing_section, scaling_section
from actors.pages.report.spec_text import cluster_text, spec_json, workload_text
from actors.reporting.results import Results
from messages.spec import ReplaySpec, Sla


def report_page(results: Results) -> str:
    """Return the HTML page about a run: one file that needs nothing else, the same for the same results."""
    spec = msgspec.convert(results.spec, ReplaySpec) if results.spec is not None else None
    columns = columns_of(results.requests) if results.requests is not None else None
    sla = spec.sla if spec is not None else Sla()
    sections = [
        headline_section(results),
        attainment_section(results, columns, sla),
        endings_section(results, columns),
        latency_section(results, columns, sla),
        time_section(results, columns, spec),
        balance_section(results, columns, spec),
        slowest_section(columns),
        routing_section(results.routing),
        scaling_section(results.planner, spec),
    ]
    return render(
        "Replay report",
        "report.html",
        lead=_lead(results, spec),
        warnings=results.warnings,
        gap=_gap(results, spec),
        sections=[section for section in sections if section is not None],
        spec=spec_json(results.spec) if results.spec is not None else None,
    )


def _lead(results: Results, spec: ReplaySpec | None) -> str:
    texts = [Path(results.name).resolve().name]
    if spec is not None:
        texts += [cluster_text(spec), workload_text(spec)]
    return " · ".join(filter(None, texts))


def _gap(results: Results, spec: ReplaySpec | None) -> str:
    """Say what is missing without records of requests, and why; nothing where they are there."""
    if results.requests is not None:
        return ""
    off = spec is not None and not spec.record_per_request
    reason = "the spec says record_per_request: false" if off else "the directory holds no requests.jsonl"
    return (
        f"There are no records of requests, since {reason}. Left out are therefore the traffic over time, the "
        "balance of workers and the slowest requests; distributions show only the percentiles of the report."
    )
