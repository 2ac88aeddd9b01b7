"""What the document format has beyond this version: neutral values that may stand, and names that are refused."""

from __future__ import annotations

from typing import Any

_NEUTRAL_IN_ENGINE: dict[str, tuple[Any, ...]] = {
    "num_gpu_blocks_is_explicit": (False, True),
    "kv_eviction_policy": ("lru",),
    "prefill_context_parallel_size": (1,),
    "rank.sglang": (None,),
    "rank.trtllm": (None,),
    "rank.kv_cache_bytes_per_token": (None,),
    "rank.kv_cache_capacity_bytes": (None,),
    "rank.kv_cache_groups": (None,),
    "rank.native_host_offload": (None,),
    "rank.g3_offload": (None,),
    "rank.state_cache": (None,),
    "rank.prefix_match_unit": (None,),
}

NEUTRAL: dict[str, tuple[Any, ...]] = {
    "engine": (None,),
    "sla": (None,),
    "requests": (None,),
    "workload": (None,),
    "encoder": (None,),
    "engine.prefill": (None,),
    "engine.decode": (None,),
    "engine.rank.worker_type": ("aggregated",),
    "engine.prefill.rank.worker_type": ("prefill",),
    "engine.decode.rank.worker_type": ("decode",),
    **{
        f"{engine}.{name}": neutral
        for engine in ("engine", "engine.prefill", "engine.decode")
        for name, neutral in _NEUTRAL_IN_ENGINE.items()
    },
    "adapters.placement.config": ({}, None),
    "adapters.placement.config.router_policy_config.worker_selection": (None,),
    "adapters.placement.config.router_policy_config.request_classifier": (None,),
    "adapters.scaling.config": ({}, None),
    "workload.agentic_lanes": (None,),
    "workload.execution_model": (None,),
    "workload.weka_nested_timestamp_basis": (None,),
}
"""Path -> values that mean "not used": they are dropped before validation. An object stands for any part of itself."""

LATER_NAMES: dict[str, frozenset[str]] = {
    "workload.format": frozenset({"agentic_mooncake", "agentic-mooncake", "weka", "dynamo"}),
}
"""Path -> values that are right in the document format but not supported by this version."""


def drop_neutral(document: dict[str, Any]) -> None:
    """Remove, in place, every key of `NEUTRAL` that holds one of its neutral values."""
    for path, neutral in NEUTRAL.items():
        *parents, name = path.split(".")
        holder: Any = document
        for parent in parents:
            holder = holder.get(parent) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and name in holder and any(_same(holder[name], value) for value in neutral):
            del holder[name]


def fill_providers(document: dict[str, Any]) -> None:
    """Name, in place, the provider of a placement or scaling that leaves it out."""
    adapters = document.get("adapters")
    for name, provider in (("placement", "round_robin"), ("scaling", "none")):
        adapter = adapters.get(name) if isinstance(adapters, dict) else None
        if isinstance(adapter, dict):
            adapter.setdefault("provider", provider)


def only_supported(path: str) -> str | None:
    """Say what this version supports at a path that it knows only as unsupported; None for any other path."""
    neutral = NEUTRAL.get(path)
    if neutral is None:
        return None
    if isinstance(neutral[0], str | int) and not isinstance(neutral[0], bool):
        shown = f'"{neutral[0]}"' if isinstance(neutral[0], str) else str(neutral[0])
        return f"this version supports only {shown}"
    return "this version does not support it; remove it"


def _same(value: Any, neutral: Any) -> bool:
    if isinstance(neutral, dict) and isinstance(value, dict):
        return all(name in neutral and _same(entry, neutral[name]) for name, entry in value.items())
    return type(value) is type(neutral) and bool(value == neutral)
