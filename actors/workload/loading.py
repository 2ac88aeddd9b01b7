"""From a spec to its workload."""

from __future__ import annotations

from pathlib import Path

import msgspec
from msgspec import UNSET

from actors.workload.applied_compute import load_applied_compute
from actors.workload.inline import lower_requests
from actors.workload.mooncake import MooncakeLoader
from actors.workload.rows import TraceFile
from actors.workload.source import Workload
from actors.workload.synthetic import generate
from messages.spec import ReplaySpec, SyntheticWorkload, TraceWorkload
from messages.spec_checks import check_spec


def load_workload(spec: ReplaySpec, base_dir: Path) -> Workload:
    """Return the workload of a checked spec; a relative trace path is relative to `base_dir`.

    Raises InputError at the first bad row, as `path:line: field: found, allowed`.
    """
    return _load(spec, base_dir, None)


def check_workload(spec: ReplaySpec, base_dir: Path) -> tuple[list[str], list[str]]:
    """Load the workload for its problems only: return (findings, one per bad row; warnings).

    Of a spec that has findings of its own, which are not repeated, the rows of the trace are checked.
    """
    findings: list[str] = []
    if not check_spec(spec):
        return findings, _load(spec, base_dir, findings).warnings
    if isinstance(spec.workload, TraceWorkload):
        # What was found about these two must not keep the rows from being read.
        source = msgspec.structs.replace(spec.workload, arrival_speedup_ratio=1.0, shared_prefix_ratio=0.0)
        _load_trace(spec, source, TraceFile(base_dir / source.path, findings))
    return findings, []


def _load(spec: ReplaySpec, base_dir: Path, findings: list[str] | None) -> Workload:
    rank = spec.prompt_rank
    if spec.requests is not UNSET:
        return lower_requests(spec.requests, rank, spec.max_in_flight)
    assert spec.workload is not UNSET
    if isinstance(spec.workload, SyntheticWorkload):
        workload = generate(spec.workload, rank, spec.max_in_flight)
    else:
        workload = _load_trace(spec, spec.workload, TraceFile(base_dir / spec.workload.path, findings))
    ratio = spec.workload.arrival_speedup_ratio
    if spec.max_in_flight is not None and ratio != 1.0:
        workload.warnings.append(
            f"workload.arrival_speedup_ratio: {ratio} has no effect together with max_in_flight (closed loop)"
        )
    return workload


def _load_trace(spec: ReplaySpec, source: TraceWorkload, trace: TraceFile) -> Workload:
    rank = spec.prompt_rank
    if source.format == "applied_compute_agentic":
        return load_applied_compute(
            trace,
            rank,
            trace_block_size=source.block_size,
            max_in_flight=spec.max_in_flight,
            shared_prefix_ratio=source.shared_prefix_ratio,
            num_prefix_groups=source.num_prefix_groups,
        )
    return MooncakeLoader(
        trace,
        rank,
        trace_block_size=source.block_size,
        delta=source.format != "mooncake",
        max_in_flight=spec.max_in_flight,
        arrival_speedup_ratio=source.arrival_speedup_ratio,
    ).load()
