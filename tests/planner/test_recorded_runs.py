"""Recorded runs of the reference's planner.

Fed the same snapshots, ours decides the same for the same reasons; in charge of our cluster, it makes the same of it.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors import replay
from actors.planner.build import build_scaling_policy
from actors.planner.configuration import load_config
from actors.planner.policy import Planner
from actors.spec.loading import load_spec
from tests.comparison import assert_same_summary
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
from tests.scaling.comparison import assert_like

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
        assert planner.on_tick(_snapshot(tick)) == tick["runtime_decision"], tick["at_ms"]
    _assert_same_details(planner, run)


@pytest.mark.parametrize("name", RUNS)
def test_in_charge_of_a_cluster(name: str, tmp_path: Path) -> None:
    run = recorded(f"run-{name}")
    block = run["spec"]["workload"]["block_size"]
    lines = [
        json.dumps(
            {
                "timestamp": at_ms,
                "input_length": isl,
                "output_length": osl,
                "hash_ids": list(range(first, first - (-isl // block))),
            }
        )
        for at_ms, isl, osl, first in run["requests"]
    ]
    (tmp_path / "trace.jsonl").write_text("".join(line + "\n" for line in lines))
    (tmp_path / "spec.json").write_text(json.dumps(run["spec"]))
    spec, base_dir = load_spec(tmp_path / "spec.json")
    planner = build_scaling_policy(spec, base_dir, LinearSession())
    assert isinstance(planner, Planner)
    report = replay(tmp_path / "spec.json", scaling_policy=planner)
    _assert_same_details(planner, run)
    assert report.planner is not None
    operations = [
        {
            "at_ms": operation.at_ms,
            "pool": operation.pool,
            "cause": operation.cause,
            "tick": operation.planner_tick_ordinal,
            "transitions": [[change.worker_id, change.transition] for change in operation.transitions],
            "state_after": operation.state_after_batch,
        }
        for operation in report.planner.lifecycle_operations
    ]
    assert operations == run["lifecycle_operations"]
    assert_same_summary(report, run["summary"])


def _assert_same_details(planner: Planner, run: dict[str, Any]) -> None:
    details = planner.details()
    assert details.total_ticks == len(run["ticks"])
    for record, tick in zip(msgspec.to_builtins(details.ticks), run["ticks"], strict=True):
        at_ms = tick["at_ms"]
        assert (record["ordinal"], record["at_ms"]) == (tick["ordinal"], at_ms)
        assert record["effects"]["scale_to"] == tick["scale_to"], at_ms
        assert record["runtime_decision"] == tick["runtime_decision"], at_ms
        told = {key: value for key, value in record["effects"]["diagnostics"].items() if value not in NEVER_FILLED}
        assert told.keys() == tick["diagnostics"].keys(), at_ms
        assert_like(told, tick["diagnostics"], f"{at_ms}")
        assert record["input"]["worker_counts"] == tick["worker_counts"], at_ms
        assert_like(record["input"]["traffic"], tick["traffic"], f"{at_ms}")
        for role in ("prefill", "decode"):
            passes = record["input"]["fpm_observations"][role]
            assert_like(passes and [_pass_fields(each) for each in passes], tick[f"fpm_{role}"], f"{at_ms} {role}")
        assert_like(record["topology"], tick["topology"], f"{at_ms}")
        assert tick["flags"].items() <= record["scheduled_tick"].items(), at_ms
    assert msgspec.to_builtins(details.scaling_events) == run["scaling_events"]
    apart = ("planner_config_digest", "planner_config_identity_exclusions")
    assert {k: v for k, v in details.metadata.items() if k not in apart} == {
        k: v for k, v in run["metadata"].items() if k not in apart
    }


def _pass_fields(observation: dict[str, Any]) -> list[Any]:
    """The recorded columns of a pass."""
    metrics = observation["metrics"]
    scheduled, queued = metrics["scheduled_requests"], metrics["queued_requests"]
    names = ("num_prefill_requests", "sum_prefill_tokens", "num_decode_requests", "sum_decode_kv_tokens")
    fields = [*names[:2], "sum_prefill_kv_tokens", *names[2:]]
    return [
        observation["worker_id"],
        observation["dp_rank"],
        metrics["wall_time"],
        *(scheduled[name] for name in fields),
        *(queued[name] for name in names),
    ]


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
