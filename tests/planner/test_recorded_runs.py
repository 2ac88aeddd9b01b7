"""Recorded runs of the reference's planner: fed the same snapshots, ours decides the same for the same reasons."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from actors.planner.configuration import load_config
from actors.planner.policy import Planner
from tests.planner.builders import (
    NO_TRAFFIC,
    PASS_FIELDS,
    VARIANCES,
    LinearSession,
    engine,
    recorded,
    snapshot,
    traffic,
)

RUNS = (
    "throughput-agg",
    "load-agg",
    "latency-disagg",
    "sla-throughput-disagg",
    "sla-mixed-disagg",
    "sla-load-agg",
)
NEVER_FILLED: tuple[Any, ...] = (None, "", [], {})


@pytest.mark.parametrize("name", RUNS)
def test_decisions_reasons_and_diagnostics(name: str) -> None:
    run = recorded(f"run-{name}")
    planner = _planner(run)
    assert planner.initial_tick_ms() == run["ticks"][0]["at_ms"]
    for tick in run["ticks"]:
        decision = planner.on_tick(_snapshot(tick))
        assert decision == tick["runtime_decision"], tick["at_ms"]
        record = msgspec.to_builtins(planner.details().ticks[-1])
        assert record["effects"]["scale_to"] == tick["scale_to"], tick["at_ms"]
        told = {key: value for key, value in record["effects"]["diagnostics"].items() if value not in NEVER_FILLED}
        assert told.keys() == tick["diagnostics"].keys(), tick["at_ms"]
        for key, value in tick["diagnostics"].items():
            expected = pytest.approx(value, rel=1e-9) if isinstance(value, float) else value
            assert told[key] == expected, (tick["at_ms"], key)
        assert record["input"]["worker_counts"] == tick["worker_counts"]
        assert record["input"]["traffic"] == tick["traffic"]
        assert tick["flags"].items() <= record["scheduled_tick"].items()
    details = planner.details()
    assert msgspec.to_builtins(details.scaling_events) == run["scaling_events"]
    assert details.total_ticks == len(run["ticks"])
    apart = ("planner_config_digest", "planner_config_identity_exclusions")
    assert {k: v for k, v in details.metadata.items() if k not in apart} == {
        k: v for k, v in run["metadata"].items() if k not in apart
    }


def test_a_whole_tick_record() -> None:
    run = recorded("run-throughput-agg")
    expected = run["first_tick_full"]
    planner = _planner(run)
    seen = _snapshot(run["ticks"][0])
    (metrics,) = [entry["metrics"] for entry in expected["input"]["fpm_observations"]["decode"]]
    seen["decode_fpm_snapshots"][0]["var_decode_kv_tokens"] = metrics["scheduled_requests"]["var_decode_kv_tokens"]
    planner.on_tick(seen)
    assert msgspec.to_builtins(planner.details().ticks[0]) == expected


def _planner(run: dict[str, Any]) -> Planner:
    args = run["args"]
    config = load_config(run["planner_config"])
    if "extra_engine_args" in args:
        return Planner(config, decode=engine(args["extra_engine_args"]), session=LinearSession())
    return Planner(
        config,
        decode=engine(args["decode_engine_args"]),
        prefill=engine(args["prefill_engine_args"]),
        session=LinearSession(),
    )


def _snapshot(tick: dict[str, Any]) -> dict[str, Any]:
    """The snapshot of a recorded tick: its whole cache of passes, its whole window of traffic."""
    window = tick["traffic"]
    return snapshot(
        tick["ordinal"],
        tick["at_ms"],
        prefill_fpm_snapshots=_rows(tick["fpm_prefill"]),
        decode_fpm_snapshots=_rows(tick["fpm_decode"]),
        traffic=NO_TRAFFIC
        if window is None
        else traffic(
            window["duration_s"],
            window["num_req"],
            window["isl"],
            window["osl"],
            avg_kv_hit_rate=window["kv_hit_rate"],
            hit_rate_count=1,
            avg_accept_length=window["accept_length"],
            accept_length_forward_count=1,
        ),
        **{f"{state}_{role}_ids": ids for role, states in tick["topology"].items() for state, ids in states.items()},
    )


def _rows(recorded_passes: list[list[Any]] | None) -> list[dict[str, Any]]:
    rows = [dict(zip(PASS_FIELDS, fields, strict=True)) | VARIANCES for fields in recorded_passes or []]
    return [{**fields, "worker_id": int(fields["worker_id"])} for fields in rows]
