"""What samples tell, and that taking them changes nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors import replay
from actors.reporting.writers import OutputDirectory, report_bytes
from actors.spec.loading import load_spec
from messages.errors import ReplayError
from messages.report import ReplayReport
from messages.telemetry import IntervalMetrics, TelemetrySample
from tests.comparison import simulated_figures
from tests.scaling.policies import Scripted, ticks
from tests.scenario import Line, cluster, messages_of, two_pools

REQUESTS = ((0.0, 8, 4), (3.0, 12, 30), (30.0, 16, 40), (30.0, 8, 2), (47.0, 21, 25), (61.5, 9, 17))
BACKENDS = ("vllm", "sglang", "trtllm")
INTERVALS_MS = (0.7, 10.0, 1000.0)


def sampled(spec: dict[str, Any], interval_ms: float = 10.0) -> dict[str, Any]:
    return {**spec, "telemetry": {"sample_interval_ms": interval_ms}}


def samples_of(report: ReplayReport) -> list[TelemetrySample]:
    assert report.telemetry is not None
    return report.telemetry


def pools(topology: str, spec: dict[str, Any]) -> dict[str, Any]:
    return two_pools(spec, latency_ms=2.5) if topology == "disaggregated" else spec


def outputs_of(report: ReplayReport) -> tuple[bytes, bytes]:
    """The bytes of report.json, but for what depends on the host's clock, and of requests.jsonl."""
    timeless = msgspec.structs.replace(report, summary=simulated_figures(report))
    assert report.requests is not None
    return report_bytes(timeless), msgspec.json.Encoder().encode_lines(report.requests)


@pytest.mark.parametrize("interval_ms", INTERVALS_MS)
@pytest.mark.parametrize("topology", ["aggregated", "disaggregated"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_sampling_changes_nothing_else(backend: str, topology: str, interval_ms: float) -> None:
    spec = pools(topology, cluster(*REQUESTS, blocks=24, backend=backend))
    assert outputs_of(replay(sampled(spec, interval_ms))) == outputs_of(replay(spec))


@pytest.mark.parametrize("step", [False, True], ids=["merged", "step"])
def test_sampling_changes_no_decision_about_workers(step: bool) -> None:
    spec = cluster(*REQUESTS)
    decisions = ticks((10.0, None, 3), (20.0, None, 1), (60.0, None, 2))
    plain, watching = Scripted(decisions), Scripted(decisions)
    without = replay(spec, scaling_policy=plain, step=step)
    with_samples = replay(sampled(spec, 5.0), scaling_policy=watching, step=step)
    assert outputs_of(with_samples) == outputs_of(without)
    assert watching.snapshots == plain.snapshots


@pytest.mark.parametrize("interval_ms", INTERVALS_MS)
@pytest.mark.parametrize("topology", ["aggregated", "disaggregated"])
@pytest.mark.parametrize("backend", BACKENDS)
def test_samples_are_the_same_step_by_step(backend: str, topology: str, interval_ms: float) -> None:
    spec = sampled(pools(topology, cluster(*REQUESTS, blocks=24, backend=backend)), interval_ms)
    assert replay(spec).telemetry == replay(spec, step=True).telemetry


def test_samples_are_the_same_in_threads() -> None:
    spec = sampled(two_pools(cluster(*REQUESTS)))
    assert replay(spec).telemetry == replay(spec, runtime="threads").telemetry


def test_no_samples_without_the_key() -> None:
    assert replay(cluster((0.0, 8, 2))).telemetry is None


def test_a_run_that_ends_with_a_sample_has_no_final_one() -> None:
    times = [(sample.kind, sample.sampled_at_ms) for sample in samples_of(replay(sampled(cluster((0.0, 8, 11)))))]
    assert times == [("baseline", 0.0), ("periodic", 10.0), ("periodic", 20.0)]


def test_times_are_products() -> None:
    report = replay(sampled(cluster((0.0, 8, 11)), 0.1))
    times = [sample.sampled_at_ms for sample in samples_of(report) if sample.kind == "periodic"]
    assert times == [ordinal * 0.1 for ordinal in range(1, len(times) + 1)]


def test_an_interval_longer_than_the_run_leaves_the_first_and_the_last_sample() -> None:
    samples = samples_of(replay(sampled(cluster((0.0, 8, 4)), 1e308)))
    assert [(sample.kind, sample.sampled_at_ms) for sample in samples] == [("baseline", 0.0), ("final", 13.0)]
    assert (samples[1].traffic.arriving_requests, samples[1].traffic.completed_requests) == (1, 1)


def test_prefill_passes_of_sglang_tell_what_was_cached() -> None:
    tokens = list(range(8))
    spec = sampled(cluster((0.0, 8, 2), (20.0, 8, 2), backend="sglang"))
    for request in spec["requests"]:
        request["input_token_ids"] = tokens
    intervals = [sample.decode_interval_metrics for sample in samples_of(replay(spec))]
    assert intervals == [
        IntervalMetrics(0, 0),
        IntervalMetrics(0, 8),
        IntervalMetrics(),
        IntervalMetrics(4, 8),
        IntervalMetrics(),
    ]


def test_preemptions_are_counted_with_the_pass_that_preempts() -> None:
    spec = sampled(cluster((0.0, 8, 8), (0.0, 8, 8), blocks=5), 1.0)
    samples = samples_of(replay(spec))
    assert sum(sample.decode_interval_metrics.preemptions for sample in samples) == 1


def test_of_two_pools_the_one_that_builds_prompts_tells_the_hit_rate() -> None:
    spec = sampled(two_pools(cluster(*REQUESTS)))
    spec["adapters"] = {"placement": {"provider": "kv_router"}}
    samples = samples_of(replay(spec))
    assert sum(sample.traffic.router_kv_hit_rate_count for sample in samples) == len(REQUESTS)


def test_requests_that_wait_in_the_router() -> None:
    spec = sampled(cluster((0.0, 8, 4), (1.0, 8, 4), (2.0, 8, 4)), 5.0)
    spec["adapters"] = {"placement": {"provider": "kv_router", "config": {"router_queue_threshold": 0.0}}}
    samples = samples_of(replay(spec))
    assert samples[1].router_pending_decode_requests == 2
    assert samples[1].decode_scheduler_metrics[0].waiting_requests == 1
    assert samples[-1].router_pending_decode_requests == 0


def test_ids_of_workers_by_state() -> None:
    spec = sampled(cluster((0.0, 8, 40), (1.0, 8, 40)))
    spec["topology"]["workers"]["startup_delay_ms"] = 12.0
    policy = Scripted(ticks((10.0, None, 3), (30.0, None, 1)))
    samples = samples_of(replay(spec, scaling_policy=policy))
    states = [
        (sample.sampled_at_ms, sample.active_decode_ids, sample.starting_decode_ids, sample.draining_decode_ids)
        for sample in samples[:5]
    ]
    assert states == [
        (0.0, [0], [], []),
        (10.0, [0], [], []),  # before the decision of the same time
        (20.0, [0], [1, 2], []),
        (30.0, [0, 1, 2], [], []),
        (40.0, [0], [], []),
    ]
    rows = [[row.worker_id for row in sample.decode_scheduler_metrics] for sample in samples[:5]]
    assert rows == [[0], [0], [0, 1, 2], [0, 1, 2], [0]]


def test_samples_do_not_keep_a_run_alive_that_can_never_end() -> None:
    spec = sampled(two_pools(cluster((0.0, 8, 4), (20.0, 8, 4))))
    with pytest.raises(ReplayError, match="reached a dead end with 1 in-flight requests"):
        replay({**spec, "strict": True}, scaling_policy=Scripted(ticks((15.0, None, 0))))


def test_samples_of_an_earlier_run_do_not_stay(tmp_path: Path) -> None:
    (tmp_path / "telemetry.jsonl").write_text("old")
    spec = cluster((0.0, 8, 4))
    OutputDirectory(tmp_path, overwrite=True).write(replay(spec), load_spec(spec))
    assert not (tmp_path / "telemetry.jsonl").exists()


def test_file_of_samples(tmp_path: Path) -> None:
    spec = sampled(cluster((0.0, 8, 4)))
    report = replay(spec)
    written = OutputDirectory(tmp_path / "out", overwrite=False).write(report, load_spec(spec))
    assert [path.name for path in written] == [
        "report.json",
        "requests.jsonl",
        "telemetry.jsonl",
        "resolved_spec.json",
    ]
    lines = [json.loads(line) for line in written[2].read_text().splitlines()]
    assert lines == msgspec.to_builtins(report.telemetry)


def test_a_sample_between_events_starts_no_round() -> None:
    log, _ = messages_of(sampled(cluster((0.0, 8, 2)), 7.0))
    assert [line for line in log if line[0] == 7.0] == GATHERED


GATHERED: list[Line] = [
    (7.0, "telemetry", "sampler > sampler: SampleTick"),
    (7.0, "telemetry", "sampler > pool: SamplePool"),
    (7.0, "telemetry", "sampler > router: SampleRouter"),
    (7.0, "telemetry", "pool > worker-0: SampleWorker"),
    (7.0, "telemetry", "router > sampler: RouterSample"),
    (7.0, "telemetry", "worker-0 > pool: WorkerSample"),
    (7.0, "telemetry", "pool > sampler: PoolSample"),
    (7.0, "telemetry", "sampler > collector: TakeInterval"),
    (7.0, "telemetry", "collector > sampler: IntervalTaken"),
    (7.0, "telemetry", "sampler > pool: RunUntil"),
    (7.0, "telemetry", "pool > worker-0: RunUntil"),
]
