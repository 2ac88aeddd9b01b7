"""Recorded tables of the reference's functions: the same input gives the same result."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from actors.planner.bootstrap import decode_points, digest, prefill_points
from actors.planner.budget import Bounds, PairCosts, clamp_pair, clamp_single, fit_pair, guard_pair, guard_single
from actors.planner.capacity import Demand, EngineLimits, Sla, batch_candidates, find_capacity
from actors.planner.configuration import examine_config, load_config
from actors.planner.estimator import PassShape
from actors.planner.predictors.kalman import KalmanPredictor
from actors.planner.predictors.registry import build_predictor
from actors.planner.warmup import load_windows
from tests.planner.builders import LinearSession, engine, recorded

BUDGET = recorded("budget")["vectors"]
CAPACITY = recorded("capacity")
PREDICTORS = recorded("predictors")
CONFIGURATIONS = recorded("config-validation")["cases"]


def test_budget_of_one_pool() -> None:
    for vector in BUDGET["proportional_clamp_single"]:
        desired, gpus, low, high, floor = vector["args"]
        assert clamp_single(desired, gpus, Bounds(low, high), floor) == vector["out"], vector
    for vector in BUDGET["guard_single_scaling_budget"]:
        current, proposed, gpus, low, high, floor = vector["args"]
        assert list(guard_single(current, proposed, gpus, Bounds(low, high), floor)) == vector["out"], vector


def test_budget_of_two_pools() -> None:
    for vector in BUDGET["proportional_clamp_pair"]:
        prefill, decode, gp, gd, low, high, fp, fd = vector["args"]
        assert list(clamp_pair((prefill, decode), PairCosts(gp, gd, fp, fd), Bounds(low, high))) == vector["out"], (
            vector
        )
    for vector in BUDGET["fit_directional_budget_pair"]:
        current, proposed, costs, bounds = _pair_arguments(vector["args"])
        assert list(fit_pair(current, proposed, costs, bounds)) == vector["out"], vector
    for vector in BUDGET["guard_disagg_scaling_budget"]:
        (prefill, decode), reason = guard_pair(*_pair_arguments(vector["args"]))
        assert [prefill, decode, reason] == vector["out"], vector


def _pair_arguments(args: list[int]) -> tuple[tuple[int, int], tuple[int, int], PairCosts, Bounds]:
    cp, cd, pp, pd, gp, gd, low, high, fp, fd = args
    return (cp, cd), (pp, pd), PairCosts(gp, gd, fp, fd), Bounds(low, high)


@dataclass
class LinearEstimator:
    """The estimator that the table was made with."""

    def estimate_ms(self, shape: PassShape) -> float | None:
        if shape.is_empty:
            return 0.0
        return 4 + 0.03 * shape.prefill_tokens + 0.05 * shape.num_decode + 0.00002 * shape.decode_kv


def test_capacity() -> None:
    for row in CAPACITY["rows"]:
        found = find_capacity(
            row["worker_type"],
            LinearEstimator(),
            EngineLimits(*row["limits"]),
            Demand(row["isl"], row["osl"], row["kv_hit_rate"], row["accept_length"]),
            Sla(row["ttft_sla_s"], row["itl_sla_s"]),
        )
        assert (None if found is None else found._asdict()) == row["capacity"], row


def test_batch_sizes_that_are_tried() -> None:
    for largest, batches in CAPACITY["batch_candidates"].items():
        assert batch_candidates(int(largest)) == batches


@pytest.mark.parametrize("case", recorded("benchmark-grid")["cases"], ids=lambda case: str(case["granularity"]))
def test_bootstrap_points(case: dict[str, Any]) -> None:
    workers = engine(case["engine_args"])
    prefill = prefill_points(LinearSession(), workers, case["granularity"])
    decode = decode_points(LinearSession(), workers, case["granularity"])
    assert [point.scheduled_requests.sum_prefill_tokens for point in prefill] == case["prefill_isl"]
    assert [point.wall_time for point in prefill] == case["prefill_wall_s"]
    assert [
        [point.scheduled_requests.num_decode_requests, point.scheduled_requests.sum_decode_kv_tokens, point.wall_time]
        for point in decode
    ] == case["decode_points"]
    assert digest({"decode": decode, "prefill": prefill}) == case["fpm_sha256"]
    assert workers.gpus == case["capabilities"]["num_gpu"]
    for name in ("max_num_batched_tokens", "max_num_seqs", "context_length", "max_kv_tokens"):
        assert getattr(workers, name) == case["capabilities"][name]


def test_warm_up(tmp_path: Path) -> None:
    table = recorded("warmup")
    (tmp_path / "trace.jsonl").write_text("".join(json.dumps(row) + "\n" for row in table["trace"]))
    config = load_config(
        {
            "optimization_target": "sla",
            "throughput_adjustment_interval_seconds": table["interval_s"],
            "load_predictor_warmup_trace": "trace.jsonl",
        }
    )
    windows = load_windows(config, tmp_path)
    found = [{"duration_s": w.duration_s, "num_req": w.num_req, "isl": w.isl, "osl": w.osl} for w in windows]
    assert found == table["observations"]


TOLERANCE = {"constant": 0.0, "kalman": 1e-12, "arima": 1e-9, "prophet": 1e-3}
EXTRAS = {"arima": "pmdarima", "prophet": "prophet"}


@pytest.mark.parametrize("case", PREDICTORS["runs"], ids=lambda case: f"{case['load_predictor']}-{case['series_name']}")
def test_predictions(case: dict[str, Any]) -> None:
    kind = case["load_predictor"]
    if kind in EXTRAS:
        pytest.importorskip(EXTRAS[kind], reason=f"needs the extra {kind!r}")
    options = {name: value for name, value in case.items() if name.startswith(("load_predictor", "prophet", "kalman"))}
    interval_s = PREDICTORS["throughput_adjustment_interval_seconds"]
    config = load_config(
        {"optimization_target": "sla", "throughput_adjustment_interval_seconds": interval_s, **options}
    )
    predictor = build_predictor(config)
    predictions = [predictor.predict()]
    for value in case["series"]:
        predictor.add(float(value))
        predictions.append(predictor.predict())
    expected = case["predictions_before_first_and_after_each_point"]
    assert predictions == pytest.approx(expected, rel=TOLERANCE[kind], abs=0.0)


def test_one_step_of_a_kalman_filter_per_point() -> None:
    predictor = KalmanPredictor(1.0, 0.1, 10.0, min_points=1, log1p=False)
    outputs = []
    for value in (10.0, 12.0, 15.0):
        predictor.add(value)
        outputs.append([predictor.predict(), predictor.predict()])
    predictor.add(20.0)
    predictor.add(30.0)
    outputs.append([predictor.predict()])
    for found, expected in zip(outputs, PREDICTORS["kalman_gating"]["outputs"], strict=True):
        assert found == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("case", CONFIGURATIONS, ids=lambda case: json.dumps(case["config"]))
def test_configurations(case: dict[str, Any]) -> None:
    config, findings = examine_config(case["config"])
    if "unknown_field" in case["config"]:
        assert findings[0].startswith("unknown_field: unknown key; ")
        return
    assert (config is not None) == case["ok"], findings
    if config is not None:
        assert config.scale_interval_s == case["scale_interval_seconds"]
        assert config.enable_throughput_scaling == case["enable_throughput_scaling"]
        assert config.enable_load_scaling == case["enable_load_scaling"]
        return
    # The reference stops at the first contradiction; what else is found here comes after it.
    for error, finding in zip(case["errors"], findings, strict=False):
        if error["type"] == "value_error":
            assert finding == error["msg"].removeprefix("Value error, ")
        else:
            assert finding.partition(":")[0] == error["loc"]


def test_defaults() -> None:
    config = load_config({})
    defaults = recorded("config-validation")["defaults"]
    scheduling = defaults.pop("scheduling")
    # Native estimators are no field here, but may be given as null.
    assert defaults.pop("ais_perf_model") is None
    for name, value in defaults.items():
        assert getattr(config, name) == value, name
    assert config.scheduling.scale_interval_seconds == scheduling["scale_interval_seconds"]
    assert config.scheduling.tick_max_duration_seconds == scheduling["tick_max_duration_seconds"]
