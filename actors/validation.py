"""Everything that is wrong with a spec and the files that it names, without a run."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from actors.spec.loading import SpecSource, examine_spec
from actors.workload.loading import check_workload
from engines.timing.model import build_timing
from messages.errors import InputError
from messages.spec import DEPLOYED, KvRouterPlacement, NoScaling, ReplaySpec


def validate(source: SpecSource, overrides: Sequence[str] = ()) -> list[str]:
    """Check a spec, its workload, its timing profile, its placement and scaling policies; return warnings.

    Raises InputError with every finding, one per bad row of a trace. Files are checked once the spec can be built.
    """
    spec, base_dir, findings = examine_spec(source, overrides)
    warnings: list[str] = []
    if spec is not None:
        found, warnings = check_workload(spec, base_dir)
        findings += found
        findings += check_parts(spec, base_dir)
    if findings:
        raise InputError(*findings)
    return warnings


def check_parts(spec: ReplaySpec, base_dir: Path) -> list[str]:
    """Findings about the timing profiles, the placement and the scaling policy that a spec names."""
    findings: list[str] = []
    for rank in spec.ranks:
        if isinstance(rank.timing_model, DEPLOYED):
            continue  # they were built to complete the document
        try:
            build_timing(rank.timing_model, base_dir)
        except InputError as error:
            findings += [finding for finding in error.findings if finding not in findings]
    if isinstance(spec.adapters.placement, KvRouterPlacement):
        from actors.routing.kv.settings import load_router_config

        try:
            load_router_config(spec.adapters.placement.config, base_dir)
        except InputError as error:
            findings += error.findings
    if not isinstance(spec.adapters.scaling, NoScaling):
        from actors.planner.build import build_scaling_policy

        try:
            build_scaling_policy(spec, base_dir)
        except InputError as error:
            findings += [finding for finding in error.findings if finding not in findings]
    return findings
