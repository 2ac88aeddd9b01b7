"""Checks of the files that a spec names, without a run."""

from __future__ import annotations

from pathlib import Path

from actors.workload.loading import check_workload
from engines.timing.model import build_timing
from messages.errors import InputError
from messages.spec import ReplaySpec


def check_files(spec: ReplaySpec, base_dir: Path) -> list[str]:
    """Read the workload and the timing profile and return warnings about oddities.

    Raises InputError with every finding, one per bad row of a trace.
    """
    findings, warnings = check_workload(spec, base_dir)
    try:
        build_timing(spec.engine.rank.timing_model, base_dir)
    except InputError as error:
        findings += error.findings
    if findings:
        raise InputError(*findings)
    return warnings
