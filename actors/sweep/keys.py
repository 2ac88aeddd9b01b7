"""The keys of report.json that a sweep can weigh."""

from __future__ import annotations

import difflib
from functools import cache

import numpy as np

from actors.reporting.latencies import derive_latencies
from actors.reporting.summary import summarize
from actors.reporting.timeline import RunFigures, Timelines
from messages.spec import ReplaySpec, Sla
from messages.sweep import SweepSpec

HOST_KEYS = ("wall_time_ms", "processed_tokens_per_s", "processed_output_tokens_per_s")
"""Figures that tell of the host: they differ from run to run, so they rank nothing."""

_WITHOUT_VALUE = frozenset({"kv_eviction_policy", "power_w", "power_coverage"})
_GOODPUT = "goodput_"
_SPECULATION = frozenset({"accept_length_forward_count", "avg_accept_length"})


@cache
def weighable_keys() -> tuple[str, ...]:
    """Return the keys of report.json whose values are numbers that depend on the input alone."""
    nothing = Timelines([], np.empty(0), *(np.empty(0, np.int64) for _ in range(3)))
    # With everything that makes a figure appear.
    figures = RunFigures(0, 0.0, 1, wall_time_ms=0.0, sla=Sla(ttft_ms=1.0), decode_forwards=1)
    summary = summarize(nothing, derive_latencies(nothing), figures)
    return tuple(key for key in summary if key not in HOST_KEYS and key not in _WITHOUT_VALUE)


def find_key_faults(sweep: SweepSpec) -> list[str]:
    """Findings about keys that no report has."""
    findings = []
    for path, key in _keys(sweep):
        if key in HOST_KEYS:
            findings.append(f"{path}: {key} tells of the host, not of the cluster, and differs from run to run")
        elif key in _WITHOUT_VALUE:
            findings.append(f"{path}: {key} has no number")
        elif key not in weighable_keys():
            close = difflib.get_close_matches(key, weighable_keys(), n=1)
            hint = f'did you mean "{close[0]}"?' if close else "expected a key of report.json"
            findings.append(f'{path}: unknown key "{key}"; {hint}')
    return findings


def find_missing_figures(sweep: SweepSpec, spec: ReplaySpec) -> list[str]:
    """Findings about keys that the report of this spec will not have."""
    findings = []
    for path, key in _keys(sweep):
        if key.startswith(_GOODPUT) and spec.sla == Sla():
            findings.append(f"{path}: {key} needs bounds in sla")
        if key in _SPECULATION and not any(rank.aic_nextn for rank in spec.ranks):
            findings.append(f"{path}: {key} needs speculative decoding (engine.rank.aic_nextn)")
    return findings


def _keys(sweep: SweepSpec) -> list[tuple[str, str]]:
    """Every place of the document that names a key, with the key."""
    named = [
        (f"{name}.key", objective.key)
        for name, objective in (("objective", sweep.objective), ("second_objective", sweep.second_objective))
        if objective is not None
    ]
    return named + [(f"constraints[{index}].key", bound.key) for index, bound in enumerate(sweep.constraints)]
