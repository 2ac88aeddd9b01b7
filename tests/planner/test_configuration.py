"""Configurations: other names and types, what is filled in, and what is refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from actors.planner.configuration import check, examine_config, load_config, prepare
from actors.planner.fleet import EngineCapabilities
from actors.planner.policy import Planner
from messages.errors import InputError
from messages.planner import PlannerScaling, ScheduleScaling

ENGINE = EngineCapabilities()


def test_numbers_and_flags_may_be_text_or_wider_types() -> None:
    config = load_config(
        {
            "optimization_target": "sla",
            "enable_load_scaling": "true",
            "load_adjustment_interval": "6",
            "throughput_adjustment_interval": 60.0,
            "itl": "12.5",
            "max_gpu_budget": True,
            "scheduling": {"scale_interval_seconds": "3"},
            "ttft": 300,
        }
    )
    assert config.enable_load_scaling
    assert (config.load_adjustment_interval_seconds, config.throughput_adjustment_interval_seconds) == (6, 60)
    assert (config.itl_ms, config.ttft_ms, config.max_gpu_budget, config.scale_interval_s) == (12.5, 300, 1, 3.0)


def test_two_names_of_one_field() -> None:
    assert _findings({"ttft": 1, "ttft_ms": 2}) == ["ttft: is another name of ttft_ms; give one of them"]


@pytest.mark.parametrize(
    ("document", "finding"),
    [
        (
            {"ais_perf_model": {"roles": {"aggregated": {}}}},
            "ais_perf_model: this version has no native estimators; remove it "
            "(forward passes are learned by regression)",
        ),
        (
            {"plugin_registration": {"in_process_plugins": [{"name": "mine"}]}},
            "plugin_registration: this version has no planner plugins; remove it",
        ),
        (
            {"scheduling": {"external_plugins": [{"endpoint": "x"}]}},
            "scheduling.external_plugins: this version has no planner plugins; remove it",
        ),
        (
            {"scheduling": {"gateway": {"enabled": True}}},
            "scheduling.gateway.enabled: this version has no gateway for planner plugins; remove it",
        ),
    ],
)
def test_what_is_out_of_scope(document: dict[str, Any], finding: str) -> None:
    assert _findings(document) == [finding]


def test_live_systems_configurations_are_read() -> None:
    config = load_config(
        {
            "ais_perf_model": None,
            "plugin_registration": {"in_process_plugins": []},
            "metric_pulling_prometheus_endpoint": "http://prometheus:9090",
            "model_name": "m",
            "backend": "mocker",
            "scheduling": {"external_plugins": [], "gateway": {"enabled": False}},
        }
    )
    assert config.model_name == "m"


def test_mode_is_that_of_the_topology() -> None:
    document = _spec("aggregated", {})
    assert prepare(document) == []
    scaling = msgspec.convert(document["adapters"]["scaling"], PlannerScaling | ScheduleScaling)
    assert isinstance(scaling, PlannerScaling)
    assert scaling.config.mode == "agg"
    assert check(scaling.config, "agg") == []
    assert check(scaling.config, "disagg") == [
        "adapters.scaling.config.mode: the topology is disaggregated, which needs 'disagg', got 'agg'; leave it out"
    ]


def test_findings_tell_the_place_in_the_spec() -> None:
    document = _spec("disaggregated", {"ttft": 0, "plugin_registration": {"a": 1}})
    assert prepare(document) == [
        "adapters.scaling.config.plugin_registration: this version has no planner plugins; remove it"
    ]
    config = msgspec.structs.replace(load_config({}), ttft_ms=-1.0, mode="prefill")
    assert check(config, "disagg") == [
        "adapters.scaling.config.mode: planner-in-the-loop replay supports mode='agg' or 'disagg', got 'prefill'",
        "adapters.scaling.config: ttft_ms must be > 0, got -1.0",
    ]


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"adapters": None, "topology": {}},
        {"topology": {"kind": "aggregated"}, "adapters": {"scaling": {"provider": "none"}}},
        {"topology": {"kind": "aggregated"}, "adapters": {"scaling": {"provider": "planner", "config": 3}}},
    ],
)
def test_documents_without_a_planner_are_left_alone(document: dict[str, Any]) -> None:
    before = msgspec.json.encode(document)
    assert prepare(document) == []
    assert msgspec.json.encode(document) == before


def test_a_schedule_is_in_order_of_time() -> None:
    document = {"provider": "schedule", "config": {"ticks": [{"at_ms": 5, "target_decode": 2}, {"at_ms": 5}]}}
    with pytest.raises(msgspec.ValidationError, match=r"ticks\[1\]\.at_ms must be later than the 5 before it, got 5"):
        msgspec.convert(document, ScheduleScaling)


@pytest.mark.parametrize(("predictor", "module"), [("arima", "pmdarima"), ("prophet", "prophet")])
def test_a_missing_library_is_named_where_it_is_needed(
    predictor: str, module: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    needed = {"optimization_target": "sla", "load_predictor": predictor}
    with pytest.raises(InputError) as raised:
        Planner(load_config(needed, "agg"), decode=ENGINE)
    assert str(raised.value) == (
        f'load_predictor: "{predictor}" needs {module}, which is not installed: '
        f'pip install "aisim-actors[{predictor}]", or choose "constant" or "kalman"'
    )
    Planner(load_config({"load_predictor": predictor}, "agg"), decode=ENGINE)
    by_load = {**needed, "enable_throughput_scaling": False, "enable_load_scaling": True}
    Planner(load_config(by_load, "agg"), decode=ENGINE)


def test_a_planner_refuses_another_kind_of_cluster() -> None:
    with pytest.raises(InputError, match="mode: the topology is aggregated, which needs 'agg', got 'disagg'"):
        Planner(load_config({}), decode=ENGINE)
    with pytest.raises(InputError, match="mode: planner-in-the-loop replay supports mode='agg' or 'disagg', got 'dec"):
        Planner(load_config({"mode": "decode"}), decode=ENGINE)


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        ('{"timestamp": 0, "input_length": 3}', "'output_length' is missing"),
        ('{"timestamp": "0", "input_length": 3, "output_length": 1}', "timestamp: expected a number, got '0'"),
        ("[1]", "'list' object has no attribute 'get'"),
        ("{", "Expecting property name"),
    ],
)
def test_bad_rows_of_a_warm_up_trace(content: str, finding: str, tmp_path: Path) -> None:
    (tmp_path / "trace.jsonl").write_text("\n" + content + "\n")
    config = _warmed_up("trace.jsonl")
    with pytest.raises(InputError) as raised:
        Planner(config, decode=ENGINE, base_dir=tmp_path)
    assert str(raised.value).startswith(f"load_predictor_warmup_trace: {tmp_path}/trace.jsonl:2: {finding}")


def test_a_warm_up_trace_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nothing\.jsonl: no such file; expected a trace, a folder or a pattern"):
        Planner(_warmed_up("nothing.jsonl"), decode=ENGINE, base_dir=tmp_path)


def _warmed_up(trace: str) -> Any:
    return load_config(
        {"optimization_target": "sla", "load_predictor": "constant", "load_predictor_warmup_trace": trace}, "agg"
    )


def _findings(document: dict[str, Any]) -> list[str]:
    config, findings = examine_config(document)
    assert config is None
    return findings


def _spec(kind: str, config: dict[str, Any]) -> dict[str, Any]:
    return {"topology": {"kind": kind}, "adapters": {"scaling": {"provider": "planner", "config": config}}}
