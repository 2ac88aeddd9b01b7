"""Snapshots and engines for tests of the planner."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from actors.planner.fleet import EngineCapabilities, capabilities
from messages.spec import RoleSpec

RECORDED = Path(__file__).parent / "recorded"

PASS_FIELDS = (
    "worker_id",
    "dp_rank",
    "wall_time",
    "num_prefill_requests",
    "sum_prefill_tokens",
    "sum_prefill_kv_tokens",
    "num_decode_requests",
    "sum_decode_kv_tokens",
    "num_queued_prefill",
    "sum_queued_prefill_tokens",
    "num_queued_decode",
    "sum_queued_decode_kv_tokens",
)
VARIANCES = {
    "var_prefill_length": 0.0,
    "var_decode_kv_tokens": 0.0,
    "var_queued_prefill_length": 0.0,
    "var_queued_decode_kv_tokens": 0.0,
}
NO_TRAFFIC = {
    "duration_s": 0.0,
    "num_req": 0,
    "avg_isl": 0.0,
    "avg_osl": 0.0,
    "shape_count": 0,
    "avg_kv_hit_rate": 0.0,
    "hit_rate_count": 0,
    "avg_accept_length": None,
    "accept_length_forward_count": 0,
}


class LinearSession:
    """The engine whose answers the recorded runs with target sla began with."""

    def prefill(self, batch: int, isl: int, prefix: int) -> float:
        return 5 + 0.035 * isl * batch

    def decode(self, batch: int, ctx: int, osl: int) -> float:
        return 6 + 0.05 * batch + 0.00002 * batch * ctx


def recorded(name: str) -> dict[str, Any]:
    """A recorded table or run."""
    document: dict[str, Any] = json.loads((RECORDED / f"{name}.json").read_text())
    return document


def engine(arguments: dict[str, Any]) -> EngineCapabilities:
    """The engine that arguments of the reference describe."""
    rank = {name: value for name, value in arguments["engine"].items() if name != "worker_type"}
    return capabilities(msgspec.convert({"rank": rank}, RoleSpec))


def row(**fields: Any) -> dict[str, Any]:
    """A forward-pass row of a snapshot, of an idle worker 0 where nothing else is given."""
    return {**dict.fromkeys(PASS_FIELDS, 0), "wall_time": 0.0, **VARIANCES, **fields}


def traffic(duration_s: float, num_req: float, isl: float, osl: float, **fields: Any) -> dict[str, Any]:
    """A window in which one request with these lengths completed."""
    return {
        **NO_TRAFFIC,
        "duration_s": duration_s,
        "num_req": num_req,
        "avg_isl": isl,
        "avg_osl": osl,
        "shape_count": 1,
        **fields,
    }


def snapshot(ordinal: int, now_ms: float, **fields: Any) -> dict[str, Any]:
    """A snapshot; of the pools only the ids `{active,starting,draining}_{prefill,decode}_ids` need be given."""
    made: dict[str, Any] = {
        "tick_ordinal": ordinal,
        "now_ms": now_ms,
        "prefill_fpm_snapshots": [],
        "decode_fpm_snapshots": [],
        "traffic": NO_TRAFFIC,
        **{f"{state}_{role}_ids": [] for state in ("active", "starting", "draining") for role in ("prefill", "decode")},
        **fields,
    }
    for role in ("prefill", "decode"):
        sizes = {state: len(made[f"{state}_{role}_ids"]) for state in ("active", "starting", "draining")}
        made |= {f"{state}_{role}_count": size for state, size in sizes.items()}
        made[f"non_draining_{role}_count"] = sizes["active"] + sizes["starting"]
        made[f"total_{role}_count"] = sum(sizes.values())
    return made
