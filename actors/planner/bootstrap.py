"""First points for the performance model, asked from a session that knows the engines."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from actors.planner.fleet import EngineCapabilities, Fleet, Role
from actors.planner.role_model import RoleModel
from messages.planner_report import PassMetrics, ScheduledWork

GRANULARITY = 8

_CONTEXTS = (500, 2000, 4000, 8000)
_SHORTEST_PROMPT = 100
_DEFAULT_KV_TOKENS = 16384 * 16


class BootstrapSession(Protocol):
    """Answers how long passes of an engine take, in ms."""

    def prefill(self, batch: int, isl: int, prefix: int) -> float:
        """`batch` prompts of `isl` tokens, of which `prefix` are in the cache."""

    def decode(self, batch: int, ctx: int, osl: int) -> float:
        """One token each for `batch` requests with a context of `ctx`; `osl` outputs of each are meant."""


def prefill_points(session: BootstrapSession, engine: EngineCapabilities, granularity: int) -> list[PassMetrics]:
    """Passes of one prompt each, of lengths up to the tokens of a pass."""
    longest = engine.max_num_batched_tokens or 8192
    step = max(1, (longest - _SHORTEST_PROMPT) // granularity)
    points = []
    for isl in range(_SHORTEST_PROMPT, longest + 1, step):
        duration_ms = session.prefill(1, isl, 0)
        if duration_ms > 0:
            points.append(
                PassMetrics(duration_ms / 1000, ScheduledWork(num_prefill_requests=1, sum_prefill_tokens=isl))
            )
    return points


def decode_points(session: BootstrapSession, engine: EngineCapabilities, granularity: int) -> list[PassMetrics]:
    """Decode passes of growing batches at several context lengths, as far as the KV cache holds them."""
    largest = engine.max_num_seqs or 256
    step = max(1, largest // granularity)
    room = engine.rank_kv_tokens if engine.rank_kv_tokens > 0 else _DEFAULT_KV_TOKENS
    points = []
    for context in _CONTEXTS:
        for batch in range(1, largest + 1, step):
            tokens = batch * context
            if tokens > room:
                break
            work = ScheduledWork(num_decode_requests=batch, sum_decode_kv_tokens=tokens)
            points.append(PassMetrics(session.decode(batch, context, 2) / 1000, work))
    return points


def install(
    session: BootstrapSession | None,
    fleet: Fleet,
    models: Mapping[Role, RoleModel],
    granularity: int = GRANULARITY,
) -> dict[str, Any]:
    """Teach the models the points of a session; returns what became of it, for the report.

    models: those that learn, empty if the target needs none. A session that fails leaves them to the passes of the run.
    """
    if not models:
        return {"status": "not_required"}
    if session is None:
        return {"status": "not_configured_load_only", "benchmark_granularity": granularity}
    try:
        prefill = prefill_points(session, fleet.prefill or fleet.decode, granularity)
        decode = decode_points(session, fleet.decode, granularity)
    except Exception as error:
        return {"status": "session_failed_load_only", "benchmark_granularity": granularity, "error": str(error)}
    is_complete = bool(prefill and decode) if fleet.prefill else bool(prefill or decode)
    if not is_complete:
        return {"status": "empty", "benchmark_granularity": granularity}
    if fleet.prefill:
        models["prefill"].learn(prefill)
        models["decode"].learn(decode)
    else:
        models["decode"].learn([*prefill, *decode])
    return {
        "status": "installed",
        "benchmark_granularity": granularity,
        "prefill_fpm_count": len(prefill),
        "decode_fpm_count": len(decode),
        "fpm_sha256": digest({"decode": decode, "prefill": prefill}),
    }


def digest(value: Any) -> str:
    """SHA-256 of the compact JSON of a value, with sorted keys."""
    text = json.dumps(msgspec.to_builtins(value), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
