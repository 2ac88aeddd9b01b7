"""The spec of a run, for a reader."""

from __future__ import annotations

import json
from typing import Any

from messages.spec import AggregatedTopology, ReplaySpec, SyntheticWorkload, TraceWorkload

_MOST_ELEMENTS = 20
_LONGEST_TEXT = 2000
_LONGEST = 100_000


def spec_json(spec: dict[str, Any]) -> str:
    """Return the document as indented JSON, with long lists and texts, and what is too long altogether, cut short."""
    text = json.dumps(_shortened(spec), indent=2, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n… cut"


def cluster_text(spec: ReplaySpec) -> str:
    """Say what the cluster is, for example `4 vllm workers`."""
    topology, engine = spec.topology, spec.engine
    if isinstance(topology, AggregatedTopology):
        pools = [("", topology.workers.initial_workers, engine.role())]
    else:
        pools = [
            ("prefill ", topology.prefill.initial_workers, engine.role(engine.prefill)),
            ("decode ", topology.decode.initial_workers, engine.role(engine.decode)),
        ]
    texts = []
    for pool, count, role in pools:
        ranks = f" of {role.dp_size} ranks" if role.dp_size > 1 else ""
        texts.append(f"{count} {role.rank.backend} {pool}worker{'' if count == 1 else 's'}{ranks}")
    scaling = spec.adapters.scaling
    text = " and ".join(texts)
    return text if type(scaling).__name__ == "NoScaling" else f"{text} at the start, then as the scaling policy decides"


def workload_text(spec: ReplaySpec) -> str:
    """Say where the requests come from."""
    workload = spec.workload
    if isinstance(workload, TraceWorkload):
        return f"trace {workload.path.rpartition('/')[2]}"
    if isinstance(workload, SyntheticWorkload):
        return f"{workload.request_count:,d} synthetic requests"
    return "requests of the spec"


def _shortened(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _shortened(entry) for key, entry in value.items()}
    if isinstance(value, list):
        shown = [_shortened(entry) for entry in value[:_MOST_ELEMENTS]]
        left = len(value) - len(shown)
        return [*shown, f"… and {left:,d} more"] if left else shown
    if isinstance(value, str) and len(value) > _LONGEST_TEXT:
        return f"{value[:_LONGEST_TEXT]}…"
    return value
