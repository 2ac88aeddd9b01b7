"""Random cases for the KV router: those of the reference's generator, with router options, priorities and policies."""

from __future__ import annotations

import json
import random
from typing import Any

_OPTIONS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("overlap_score_credit", (0.0, 0.5, 1.5)),
    ("overlap_score_credit_decay", (0.5, 4.0)),
    ("overlap_score_weight", (0.0, 0.5)),
    ("prefill_load_scale", (0.0, 0.5, 2.0)),
    ("decode_active_request_weight", (0.7, 3.0)),
    ("router_track_active_blocks", (False,)),
    ("router_assume_kv_reuse", (False,)),
    ("router_track_prefill_tokens", (False,)),
)


def lone_worker_case(backend: str, seed: int, topology: str = "aggregated") -> dict[str, Any]:
    """A case with one rank to choose from in each pool: the reference has no tie to break. Most have a queue."""
    from fuzz import make_case

    rng = random.Random(f"router/{topology}/{backend}/{seed}")
    case: dict[str, Any] = make_case(seed, backend, topology)
    config = case["config"]
    config["router_mode"] = "kv_router"
    if topology == "aggregated":
        config["num_workers"] = 1
        config["extra_engine_args"].pop("dp_size", None)
    else:
        config["num_prefill_workers"] = config["num_decode_workers"] = 1
    config["router_config"] = {name: rng.choice(values) for name, values in _OPTIONS if rng.random() < 0.2}
    if rng.random() < 0.6:
        config["router_config"]["router_queue_threshold"] = rng.choice((0.0, 0.01, 0.05, 0.3, 1.0))
        config["router_config"]["router_queue_policy"] = rng.choice(("fcfs", "lcfs", "wspt"))
    if rng.random() < 0.3:
        config["kv_event_lag_ms"] = rng.choice((1.0, 17.3, 200.0))
    if rng.random() < 0.25:
        config["trace_format"] = "mooncake-delta"
        for row in case["trace"]:
            row["session_id"] = f"s{rng.randrange(4)}"
            row.pop("delay", None)
    for row in case["trace"]:
        if rng.random() < 0.2:
            row["priority"] = rng.randint(-2, 5)
        if rng.random() < 0.1:
            row["strict_priority"] = rng.randint(0, 2)
    if rng.random() < 0.25:
        case["router_policy_yaml"] = json.dumps(_policy(rng))
        for row in case["trace"]:
            if rng.random() < 0.5:
                row["policy_class"] = rng.choice(("a", "b", "vip", "unknown"))
    return case


def several_workers_case(backend: str, seed: int) -> dict[str, Any]:
    """A case with two to four workers that are hardly ever idle, under the default configuration."""
    rng = random.Random(f"workers/{backend}/{seed}")
    block = {"vllm": 16, "sglang": 16, "trtllm": 32}[backend]
    families = [[rng.randrange(1000) for _ in range(rng.randint(2, 12))] for _ in range(4)]
    rows: list[dict[str, Any]] = []
    clock_ms, fresh = 0.0, 10_000
    for _ in range(rng.randint(10, 40)):
        clock_ms += rng.random() * 60.0
        ids = rng.choice(families)[: rng.randint(0, 12)]
        own = rng.randint(1, 20)
        ids = [*ids, *range(fresh, fresh + own)]
        fresh += own
        rows.append(
            {
                "timestamp": clock_ms,
                "input_length": len(ids) * block - rng.randrange(block),
                "output_length": rng.randint(20, 120),
                "hash_ids": ids,
            }
        )
    rank = {"backend": backend, "block_size": block, "num_gpu_blocks": rng.choice((120, 300, 4000))}
    config = {
        "router_mode": "kv_router",
        "num_workers": rng.randint(2, 4),
        "trace_block_size": block,
        "extra_engine_args": {"engine": rank},
    }
    return {"seed": seed, "backend": backend, "entry": "trace", "config": config, "trace": rows}


def _policy(rng: random.Random) -> dict[str, Any]:
    classes: list[dict[str, Any]] = []
    for family in "ab":
        for bucket in ("short", "long"):
            entry: dict[str, Any] = {
                "name": f"{family}_{bucket}",
                "policy_family": family,
                "cache_bucket": bucket,
                "quantum": rng.choice((1, 40, 300)),
                "queue_policy": rng.choice(("fcfs", "wspt")),
            }
            if rng.random() < 0.8:
                entry["prefill_busy_threshold"] = rng.choice((0, 50, 500))
            if rng.random() < 0.3:
                entry["prefill_busy_threshold_frac"] = rng.choice((0.01, 0.1))
            classes.append(entry)
    classes.append({"name": "vip", "quantum": rng.choice((1, 1000)), "prefill_busy_threshold": 0})
    return {
        "default_policy_family": "a",
        "uncached_isl_buckets": [{"min_tokens": 0, "bucket": "short"}, {"min_tokens": 100, "bucket": "long"}],
        "policy_classes": classes,
    }
