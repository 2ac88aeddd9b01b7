"""From a spec to the scaling policy that it names."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from actors.planner.build import build_scaling_policy
from actors.planner.policy import Planner
from actors.planner.schedule import SchedulePolicy
from actors.spec.loading import load_spec
from actors.validation import validate
from messages.errors import InputError
from messages.planner import PlannerScaling
from tests.planner.builders import LinearSession

AGGREGATED = {"kind": "aggregated", "workers": {"initial_workers": 1}}
DISAGGREGATED = {"kind": "disaggregated", "prefill": {"initial_workers": 1}, "decode": {"initial_workers": 1}}
REQUEST = {"id": "a", "arrival_time_ms": 0, "input_tokens": 10, "output_tokens": 2}


def test_without_a_policy_pools_keep_their_sizes() -> None:
    assert _policy({"provider": "none"}) is None
    assert _policy({}) is None


def test_a_schedule() -> None:
    policy = _policy({"provider": "schedule", "config": {"ticks": [{"at_ms": 3, "target_decode": 2}]}})
    assert isinstance(policy, SchedulePolicy)
    assert policy.initial_tick_ms() == 3.0


@pytest.mark.parametrize(("topology", "mode"), [(AGGREGATED, "agg"), (DISAGGREGATED, "disagg")], ids=["agg", "disagg"])
def test_a_planner_follows_the_topology(topology: dict[str, Any], mode: str) -> None:
    for scaling in ({"provider": "planner"}, {"provider": "planner", "config": None}):
        policy = _policy(scaling, topology)
        assert isinstance(policy, Planner)
        assert policy.initial_tick_ms() == 5000.0
        assert policy.details().metadata["mode"] == mode


def test_a_planner_is_bootstrapped_for_the_engines_of_the_spec() -> None:
    config = {"optimization_target": "sla", "load_predictor": "kalman", "ttft": "300"}
    document = _document({"provider": "planner", "config": config}, AGGREGATED)
    spec, base_dir = load_spec({**document, "engine": {"rank": {"num_gpu_blocks": 2000}}})
    policy = build_scaling_policy(spec, base_dir, LinearSession())
    assert isinstance(policy, Planner)
    bootstrap = policy.details().metadata["bootstrap"]
    assert (bootstrap["status"], bootstrap["prefill_fpm_count"], bootstrap["decode_fpm_count"]) == ("installed", 9, 12)


def test_a_loaded_spec_can_be_loaded_again() -> None:
    spec, _ = load_spec(_document({"provider": "planner", "config": {"itl": 20}}, DISAGGREGATED))
    again, _ = load_spec(spec)
    assert again == spec
    assert isinstance(again.adapters.scaling, PlannerScaling)
    assert again.adapters.scaling.config.itl_ms == 20.0


def test_validation_tells_of_missing_libraries_and_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pmdarima", None)
    with pytest.raises(InputError) as raised:
        validate(_document({"provider": "planner", "config": {"optimization_target": "sla"}}, AGGREGATED))
    assert raised.value.findings == (
        'adapters.scaling.config.load_predictor: "arima" needs pmdarima, which is not installed: '
        'pip install "aisim-actors[arima]", or choose "constant" or "kalman"',
    )
    config = {"optimization_target": "sla", "load_predictor": "constant", "load_predictor_warmup_trace": "none.jsonl"}
    with pytest.raises(
        InputError, match=r"^adapters\.scaling\.config\.load_predictor_warmup_trace: none\.jsonl: no such"
    ):
        validate(_document({"provider": "planner", "config": config}, AGGREGATED))


def _policy(scaling: dict[str, Any], topology: dict[str, Any] = AGGREGATED) -> Planner | SchedulePolicy | None:
    spec, base_dir = load_spec(_document(scaling, topology))
    return build_scaling_policy(spec, base_dir or Path())


def _document(scaling: dict[str, Any], topology: dict[str, Any]) -> dict[str, Any]:
    return {"topology": topology, "requests": [REQUEST], "adapters": {"scaling": scaling}}
