"""Stories of the planner: what a cluster looks like, and what it is asked to become."""

from __future__ import annotations

import gzip
import json
import math
from pathlib import Path
from typing import Any

import pytest

from actors.planner.configuration import load_config
from actors.planner.fleet import EngineCapabilities
from actors.planner.policy import Planner
from actors.planner.schedule import SchedulePolicy
from actors.planner.warmup import load_windows
from messages.planner import ScheduleConfig, ScheduledTarget
from messages.planner_report import Diagnostics
from tests.planner.builders import LinearSession, row, snapshot, traffic

ENGINE = EngineCapabilities(context_length=1000, max_kv_tokens=1000, max_num_batched_tokens=2048, max_num_seqs=64)
UNCHANGED = (None, None)


class Cluster:
    """A cluster that does what the planner asks, after a while; `loads` are the KV tokens in use of its workers."""

    def __init__(self, planner: Planner) -> None:
        self.planner = planner
        self.active = [0]
        self.starting: list[int] = []
        self._ordinal = 0
        self._now_ms = planner.initial_tick_ms()

    def tick(self, *loads: int, **fields: Any) -> tuple[int | None, int | None]:
        """Let the planner look at the cluster; returns its targets."""
        rows = [
            row(worker_id=i, wall_time=0.01, num_decode_requests=1, sum_decode_kv_tokens=n) for i, n in enumerate(loads)
        ]
        seen = {"active_decode_ids": self.active, "starting_decode_ids": self.starting, "decode_fpm_snapshots": rows}
        decision = self.planner.on_tick(snapshot(self._ordinal, self._now_ms, **{**seen, **fields}))
        self._ordinal += 1
        self._now_ms = decision["next_tick_ms"]
        return decision["target_prefill"], decision["target_decode"]

    @property
    def told(self) -> Diagnostics:
        """Why the last decision was made."""
        return self.planner.details().ticks[-1].effects.diagnostics


def aggregated(**config: Any) -> Cluster:
    return Cluster(Planner(load_config(config, "agg"), decode=ENGINE))


def test_a_pool_grows_by_one_and_waits_until_the_worker_is_ready() -> None:
    cluster = aggregated(optimization_target="throughput")
    assert cluster.tick(1001) == (0, 2)
    cluster.starting = [1]
    assert cluster.tick(5000) == UNCHANGED
    assert cluster.told.load_decision_reason == "scaling_in_progress"
    cluster.active, cluster.starting = [0, 1], []
    assert cluster.tick(5000, 900) == (0, 3)
    assert [(event.from_count, event.to_count) for event in cluster.planner.details().scaling_events] == [
        (1, 2),
        (2, 3),
    ]


def test_a_pool_shrinks_only_if_the_rest_can_take_the_load() -> None:
    cluster = aggregated(optimization_target="throughput")
    cluster.active = [0, 1]
    assert cluster.tick(550, 100) == UNCHANGED
    assert cluster.told.load_decision_reason == "scale_down_refused_consolidation"
    assert cluster.tick(400, 100) == (0, 1)
    assert cluster.told.load_decision_reason == "scale_down"


def test_a_worker_that_has_not_been_heard_of() -> None:
    cluster = aggregated(optimization_target="throughput")
    assert cluster.tick() == UNCHANGED
    assert cluster.told.load_decision_reason == "no_fpm_data"
    cluster.active = [0, 1]
    assert cluster.tick(10) == UNCHANGED
    assert cluster.told.load_decision_reason == "worker_count_mismatch"


def test_what_was_heard_of_a_worker_stays_until_it_is_no_longer_active() -> None:
    cluster = aggregated(optimization_target="throughput", max_gpu_budget=-1)
    cluster.active = [0, 1]
    assert cluster.tick(100, 2000) == (0, 3)
    cluster.active = [0, 1, 2]
    third = row(worker_id=2)
    assert cluster.tick(decode_fpm_snapshots=[third]) == (0, 4)
    cluster.active = [0, 2]
    cluster.tick(decode_fpm_snapshots=[])
    seen = cluster.planner.details().ticks[-1].input.fpm_observations.decode
    assert [each.worker_id for each in seen or []] == ["0", "2"]


def test_floors_and_budgets_are_kept_though_nothing_is_proposed() -> None:
    cluster = aggregated(min_endpoint=3)
    assert cluster.tick(10) == (0, 3)
    assert cluster.told.load_decision_reason == "no_change"
    cluster = aggregated(max_gpu_budget=2)
    cluster.active = [0, 1, 2]
    assert cluster.tick(700, 700, 700) == (0, 2)


def test_ticks_between_load_ticks_look_at_nothing() -> None:
    cluster = aggregated(scheduling={"scale_interval_seconds": 2.5})
    assert cluster.planner.initial_tick_ms() == 2500.0
    assert cluster.tick(5000) == UNCHANGED
    tick = cluster.planner.details().ticks[0]
    assert tick.input.fpm_observations.decode is None
    assert tick.effects.diagnostics.load_decision_reason is None
    assert cluster.tick() == (0, 2)


def test_windows_are_merged_until_a_tick_asks_for_them() -> None:
    planner = Planner(
        load_config({**SLA, "throughput_adjustment_interval_seconds": 10}, "agg"),
        decode=ENGINE,
        session=LinearSession(),
    )
    cluster = Cluster(planner)
    cluster.tick(10, traffic=traffic(5.0, 4, 100.0, 10.0, shape_count=3))
    assert planner.details().ticks[-1].input.traffic is None
    cluster.tick(10, traffic=traffic(5.0, 6, 200.0, 20.0, avg_accept_length=2.0, accept_length_forward_count=5))
    window = planner.details().ticks[-1].input.traffic
    assert window is not None
    assert (window.duration_s, window.num_req, window.isl, window.osl) == (10.0, 10.0, 125.0, 12.5)
    assert (window.kv_hit_rate, window.accept_length) == (0.0, 2.0)
    assert cluster.told.predicted_num_req == 10.0


SLA = {"optimization_target": "sla", "load_predictor": "constant", "load_adjustment_interval_seconds": 5}


def test_a_window_without_requests_keeps_the_lengths_of_the_last() -> None:
    planner = Planner(load_config({**SLA, "throughput_adjustment_interval_seconds": 5}, "agg"), decode=ENGINE)
    cluster = Cluster(planner)
    cluster.tick(10, traffic=traffic(5.0, 4, 100.0, 10.0))
    cluster.tick(10, traffic=traffic(5.0, 0, 0.0, 0.0))
    assert (cluster.told.predicted_num_req, cluster.told.predicted_isl, cluster.told.predicted_osl) == (
        0.0,
        100.0,
        10.0,
    )


def test_without_a_performance_model_throughput_scaling_waits() -> None:
    planner = Planner(load_config({**SLA, "throughput_adjustment_interval_seconds": 5}, "agg"), decode=ENGINE)
    cluster = Cluster(planner)
    assert cluster.tick(10, traffic=traffic(5.0, 400, 100.0, 10.0)) == UNCHANGED
    assert cluster.told.throughput_decision_reason == "model_not_ready"
    assert planner.details().metadata["bootstrap"]["status"] == "not_configured_load_only"
    cluster.tick(10)
    assert cluster.told.throughput_decision_reason == "no_traffic_data"


class FailingSession:
    """An engine that cannot be asked."""

    def prefill(self, batch: int, isl: int, prefix: int) -> float:
        raise RuntimeError("no data for this engine")

    def decode(self, batch: int, ctx: int, osl: int) -> float:
        raise AssertionError


def test_a_session_that_fails_is_told_of() -> None:
    planner = Planner(load_config(SLA, "agg"), decode=ENGINE, session=FailingSession())
    assert planner.details().metadata["bootstrap"] == {
        "status": "session_failed_load_only",
        "benchmark_granularity": 8,
        "error": "no data for this engine",
    }


def test_in_two_pools_a_queue_of_prompts_adds_a_prefill_worker() -> None:
    planner = Planner(load_config({"optimization_target": "latency"}), decode=ENGINE, prefill=ENGINE)
    cluster = Cluster(planner)
    waiting = row(worker_id=0, num_queued_prefill=1, sum_queued_prefill_tokens=100)
    assert cluster.tick(300, active_prefill_ids=[0], prefill_fpm_snapshots=[waiting]) == (2, 1)
    told = cluster.told
    assert told.load_decision_reason_prefill == told.load_decision_reason == "scale_up"
    assert told.load_decision_reason_decode == "no_change"
    assert cluster.tick(300, active_prefill_ids=[0], starting_prefill_ids=[1]) == UNCHANGED
    assert cluster.told.load_decision_reason_decode == "scaling_in_progress"


def test_prompts_are_not_judged_without_a_context_length() -> None:
    engine = ENGINE._replace(context_length=None)
    planner = Planner(load_config({"optimization_target": "latency"}), decode=engine, prefill=engine)
    cluster = Cluster(planner)
    waiting = row(worker_id=0, num_queued_prefill=9, sum_queued_prefill_tokens=90_000)
    assert cluster.tick(300, active_prefill_ids=[0], prefill_fpm_snapshots=[waiting]) == UNCHANGED
    assert cluster.told.load_decision_reason == "insufficient_data"


def test_a_request_trace_warms_up(tmp_path: Path) -> None:
    def record(received_ms: int, tokens: int) -> dict[str, Any]:
        request = {"request_received_ms": received_ms, "output_tokens": 7, "replay": {"input_length": tokens}}
        event = {"schema": "dynamo.request.trace.v1", "event_type": "request_end", "request": request}
        return {"event": event}

    records = [
        record(1_000_000, 30),
        record(1_061_000, 50),
        {"event": {**record(0, 1)["event"], "event_type": "tool_end"}},
    ]
    lines = "".join(json.dumps(each) + "\n" for each in records)
    (tmp_path / "past.jsonl.gz").write_bytes(gzip.compress(lines.encode()))
    config = load_config(
        {**SLA, "throughput_adjustment_interval_seconds": 60, "load_predictor_warmup_trace": "*.gz"}, "agg"
    )
    assert [(window.num_req, window.isl) for window in load_windows(config, tmp_path)] == [(1.0, 30.0), (1.0, 50.0)]
    planner = Planner(config, decode=ENGINE, base_dir=tmp_path)
    cluster = Cluster(planner)
    for _ in range(12):
        cluster.tick(10, traffic=traffic(5.0, 0, 0.0, 0.0))
    # Zeros before the first traffic of the run are skipped, so the last window of the past still holds.
    assert (cluster.told.predicted_num_req, cluster.told.predicted_isl) == (1.0, 50.0)


def test_a_schedule_asks_at_its_times() -> None:
    policy = SchedulePolicy(
        ScheduleConfig(ticks=[ScheduledTarget(at_ms=5.0, target_decode=3), ScheduledTarget(at_ms=9.5)])
    )
    assert policy.initial_tick_ms() == 5.0
    assert policy.on_tick({}) == {"target_prefill": None, "target_decode": 3, "next_tick_ms": 9.5}
    assert policy.on_tick({}) == {"target_prefill": None, "target_decode": None, "next_tick_ms": None}
    assert SchedulePolicy(ScheduleConfig(ticks=[])).initial_tick_ms() == math.inf


@pytest.mark.parametrize("target", ["throughput", "latency"])
def test_the_planner_never_stops_by_itself(target: str) -> None:
    cluster = aggregated(optimization_target=target, load_adjustment_interval_seconds=7)
    times = []
    for _ in range(3):
        cluster.tick(10)
        times.append(cluster.planner.details().ticks[-1].runtime_decision.next_tick_ms)
    assert times == [14_000.0, 21_000.0, 28_000.0]
