"""Small runs of every kind, as the results that a page is made of."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

from actors import replay
from actors.reporting.results import Results, results_of
from actors.reporting.writers import spec_bytes
from actors.spec.loading import load_spec
from tests.scenario import cluster, two_pools

LONG_ID = "request-" + "x" * 500
NASTY_ID = "<script>alert('1')</script>&\"née 请求 🚀"


def results(spec: dict[str, Any]) -> Results:
    """Replay a spec and return its results, as `replay --html` has them."""
    document = msgspec.json.decode(spec_bytes(load_spec(spec), Path()))
    return results_of(replay(spec), document, "run")


def _named(spec: dict[str, Any], *names: str) -> dict[str, Any]:
    for row, name in zip(spec["requests"], names, strict=False):
        row["id"] = name
    return spec


def specs() -> dict[str, dict[str, Any]]:
    """Specs by what is odd about them."""
    few = [(0.0, 20, 5), (3.0, 30, 9), (20.0, 8, 1)]
    synthetic = {
        "kind": "synthetic",
        "input_tokens": 64,
        "output_tokens": 8,
        "request_count": 200,
        "request_rate": 50.0,
    }
    kv_router = {"placement": {"provider": "kv_router", "config": {"router_queue_threshold": 0.001}}}
    schedule = {
        "ticks": [{"at_ms": at, "target_prefill": None, "target_decode": count} for at, count in ((5.0, 3), (15.0, 1))]
    }
    return {
        "few requests": cluster(*few),
        "no requests": cluster(),
        "one request": cluster((0.0, 20, 5)),
        "all rejected": cluster((0.0, 2000, 5), (1.0, 3000, 5)),
        "some rejected": cluster((0.0, 2000, 5), *few),
        "no output": cluster((0.0, 20, 0), (1.0, 20, 0)),
        "one token each": cluster((0.0, 20, 1), (1.0, 20, 1)),
        "all at time 0": cluster(
            (0.0, 20, 5), (0.0, 30, 9), timing_model={"type": "fixed", "prefill_ms": 0.0, "decode_ms": 0.0}
        ),
        "many workers": {**cluster(workers=64), "requests": [], "workload": synthetic},
        "very many workers": {**cluster(*few, workers=300)},
        "two pools": two_pools(cluster(*few), prefill=2, decode=2, latency_ms=4.0),
        "ranks": {**cluster(*few, workers=2), "engine": {**cluster()["engine"], "dp_size": 3}},
        "odd names": _named(cluster(*few), LONG_ID, NASTY_ID, "\u202eabc"),
        "cut off": {**cluster(*few), "max_sim_time_ms": 12.0},
        "no records": {**cluster(*few, (30.0, 5000, 5)), "record_per_request": False, "sla": {"ttft_ms": 12.0}},
        "service level": {**cluster(*few), "sla": {"ttft_ms": 12.0, "itl_ms": 1.5}},
        "service level of whole requests": {**cluster(*few, (30.0, 8, 0)), "sla": {"e2e_ms": 13.0}},
        "telemetry": {**cluster(*few, workers=2), "telemetry": {"sample_interval_ms": 2.0}},
        "telemetry of two pools": {**two_pools(cluster(*few)), "telemetry": {"sample_interval_ms": 0.1}},
        "kv router": {**cluster(*few, workers=2), "adapters": kv_router},
        "scaling": {**cluster(*few), "adapters": {"scaling": {"provider": "schedule", "config": schedule}}},
    }


def _without_inline(spec: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in spec.items() if key != "requests" or "workload" not in spec}


SPECS = {name: _without_inline(spec) for name, spec in specs().items()}
