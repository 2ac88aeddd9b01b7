"""From the object `adapters.scaling.config` to a checked PlannerConfig: names, types, defaults, contradictions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import inspect

from actors.planner.coercion import coerce
from actors.spec.faults import find_faults, impossible_values
from messages.errors import InputError
from messages.planner import ALIASES, Mode, PlannerConfig
from messages.spec import AggregatedTopology, DisaggregatedTopology

PATH = "adapters.scaling.config"
"""Where the configuration stands in a spec."""

_OUT_OF_SCOPE = {
    "ais_perf_model": "this version has no native estimators; remove it (forward passes are learned by regression)",
    "plugin_registration": "this version has no planner plugins; remove it",
    "scheduling.external_plugins": "this version has no planner plugins; remove it",
    "scheduling.gateway.enabled": "this version has no gateway for planner plugins; remove it",
}


def load_config(document: Mapping[str, Any], mode: Mode = "disagg") -> PlannerConfig:
    """Check and complete a configuration.

    mode: holds where the document gives none.
    Raises InputError with every finding, each "path: what is wrong" with the path inside the configuration, or only
    "what is wrong" where several fields contradict each other.
    """
    config, findings = examine_config(document, mode)
    if config is None or findings:
        raise InputError(*findings)
    return config


def examine_config(document: Mapping[str, Any], mode: Mode = "disagg") -> tuple[PlannerConfig | None, list[str]]:
    """Do the work of `load_config`, but return the findings; without findings there is a configuration."""
    plain, findings = normalise(document, mode)
    if findings:
        return None, findings
    kind = inspect.type_info(PlannerConfig)
    try:
        config = msgspec.convert(plain, PlannerConfig)
    except msgspec.ValidationError as error:
        return None, find_faults(plain, kind) or [str(error)]
    findings = contradictions(config)
    return (None, findings) if findings else (config, [])


def prepare(document: dict[str, Any]) -> list[str]:
    """Complete, in place, the planner's configuration in a spec document, as `normalise` does; return findings.

    Of a document whose scaling is something else, or that is no such object at all, nothing is changed.
    """
    topology, adapters = document.get("topology"), document.get("adapters")
    scaling = adapters.get("scaling") if isinstance(adapters, dict) else None
    if not isinstance(topology, dict) or not isinstance(scaling, dict) or scaling.get("provider") != "planner":
        return []
    config = scaling.get("config", {})
    if not isinstance(config, dict):
        return []
    scaling["config"], findings = normalise(config, "agg" if topology.get("kind") == "aggregated" else "disagg")
    return [at_path(finding) for finding in findings]


def topology_mode(topology: AggregatedTopology | DisaggregatedTopology) -> Mode:
    """The mode that a planner of this cluster has."""
    return "agg" if isinstance(topology, AggregatedTopology) else "disagg"


def check(config: PlannerConfig, topology_mode: Mode) -> list[str]:
    """What is wrong with a configuration beside its single fields, for a cluster that needs this mode."""
    return [at_path(finding) for finding in [*mode_faults(config, topology_mode), *contradictions(config)]]


def at_path(finding: str) -> str:
    """A finding about the configuration as one about the spec."""
    path, separator, _ = finding.partition(": ")
    is_path = bool(separator) and " " not in path
    return f"{PATH}.{finding}" if is_path else f"{PATH}: {finding}"


def mode_faults(config: PlannerConfig, topology_mode: Mode) -> list[str]:
    """Whether a configuration is for another kind of cluster."""
    if config.mode not in ("agg", "disagg"):
        return [f"mode: planner-in-the-loop replay supports mode='agg' or 'disagg', got {config.mode!r}"]
    if config.mode != topology_mode:
        kind = "aggregated" if topology_mode == "agg" else "disaggregated"
        return [f"mode: the topology is {kind}, which needs {topology_mode!r}, got {config.mode!r}; leave it out"]
    return []


def normalise(document: Mapping[str, Any], mode: Mode = "disagg") -> tuple[dict[str, Any], list[str]]:
    """Copy a document with the fields' own names and types, and with what depends on other fields filled in.

    These are the mode, the base interval, and the kinds of scaling: targets without a performance model scale by load
    alone. Second, findings that stand in the way of a conversion.
    """
    findings = impossible_values(dict(document))
    plain: dict[str, Any] = {}
    for name, value in document.items():
        field = ALIASES.get(name, name)
        if field in document and field != name:
            findings.append(f"{name}: is another name of {field}; give one of them")
        elif not _has_no_effect_here(name, value):
            plain[field] = value
    findings += _refusals(plain)
    if findings:
        return plain, findings
    plain.setdefault("mode", mode)
    plain = coerce(plain, inspect.type_info(PlannerConfig))
    if plain.get("optimization_target", "throughput") != "sla":
        _fill(plain, "enable_throughput_scaling", False)
        _fill(plain, "enable_load_scaling", True)
    _fill_scale_interval(plain)
    return plain, []


def _has_no_effect_here(name: str, value: Any) -> bool:
    """Whether a key is dropped: settings of metric services, and what is out of scope but not used."""
    return (name.startswith("metric_") and name != "metric_reporting_prometheus_port") or (
        name in ("ais_perf_model", "plugin_registration") and value in (None, {}, {"in_process_plugins": []})
    )


def _refusals(plain: dict[str, Any]) -> list[str]:
    """Findings for keys of the live planner that a replay cannot honour."""
    findings = []
    if "aic_perf_model" in plain:
        findings.append(
            "aic_perf_model is no longer supported; use ais_perf_model.roles with canonical AISimulate configurations"
        )
    scheduling = plain.get("scheduling")
    scheduling = scheduling if isinstance(scheduling, dict) else {}
    gateway = scheduling.get("gateway")
    used = {
        "ais_perf_model": "ais_perf_model" in plain,
        "plugin_registration": "plugin_registration" in plain,
        "scheduling.external_plugins": bool(scheduling.get("external_plugins")),
        "scheduling.gateway.enabled": isinstance(gateway, dict) and bool(gateway.get("enabled")),
    }
    return findings + [f"{path}: {_OUT_OF_SCOPE[path]}" for path, is_used in used.items() if is_used]


def _fill(plain: dict[str, Any], name: str, flag: bool) -> None:
    """Set a flag, unless something is there that is no flag and is to be found fault with."""
    if isinstance(plain.get(name, flag), bool):
        plain[name] = flag


def _fill_scale_interval(plain: dict[str, Any]) -> None:
    """Make the base interval the greatest common divisor, in milliseconds, of the intervals in use."""
    scheduling = plain.setdefault("scheduling", {})
    if not isinstance(scheduling, dict) or scheduling.get("scale_interval_seconds") is not None:
        return
    intervals = [plain.get("load_adjustment_interval_seconds", 5)]
    if plain.get("enable_throughput_scaling", True):
        intervals.append(plain.get("throughput_adjustment_interval_seconds", 180))
    if all(type(interval) is int for interval in intervals):
        plain["scheduling"] = {**scheduling, "scale_interval_seconds": math.gcd(*(i * 1000 for i in intervals)) / 1000}


def contradictions(config: PlannerConfig) -> list[str]:
    """What is wrong between fields that are right by themselves."""
    return [
        *_about_single_values(config),
        *_about_endpoints(config),
        *_about_load_thresholds(config),
        *_about_intervals(config),
        *_about_live_systems(config),
    ]


def _about_single_values(config: PlannerConfig) -> list[str]:
    findings = []
    if config.ttft_ms <= 0:
        findings.append(f"ttft_ms must be > 0, got {config.ttft_ms}")
    if math.isqrt(config.fpm_sample_bucket_size) ** 2 != config.fpm_sample_bucket_size:
        findings.append(f"fpm_sample_bucket_size must be a perfect square, got {config.fpm_sample_bucket_size}")
    hours = config.report_interval_hours
    if hours is not None and not (math.isfinite(hours) and hours > 0):
        findings.append("report_interval_hours must be a positive finite number or None")
    return findings


def _about_endpoints(config: PlannerConfig) -> list[str]:
    prefill, decode = config.prefill_min_endpoint is not None, config.decode_min_endpoint is not None
    if config.mode == "agg" and (prefill or decode):
        return ["prefill_min_endpoint and decode_min_endpoint are not supported when mode='agg'; use min_endpoint"]
    if config.mode == "prefill" and decode:
        return ["decode_min_endpoint is not supported when mode='prefill'"]
    if config.mode == "decode" and prefill:
        return ["prefill_min_endpoint is not supported when mode='decode'"]
    return []


def _about_load_thresholds(config: PlannerConfig) -> list[str]:
    if config.optimization_target != "load":
        return []
    findings = []
    if config.mode in ("disagg", "prefill"):
        up, down = config.prefill_scale_up_queue_tokens, config.prefill_scale_down_queue_tokens
        findings += _threshold_faults(
            "prefill_scale_up_queue_tokens", up, "prefill_scale_down_queue_tokens", down, "prefill"
        )
    if config.mode != "prefill":
        high, low = config.decode_scale_up_kv_rate, config.decode_scale_down_kv_rate
        findings += _threshold_faults("decode_scale_up_kv_rate", high, "decode_scale_down_kv_rate", low, "decode")
    return findings


def _threshold_faults(up_name: str, up: float | None, down_name: str, down: float | None, role: str) -> list[str]:
    if up is None or down is None:
        return [f"optimization_target='load' requires {up_name} and {down_name} for {role} scaling"]
    return [] if up > down else [f"{up_name} must be greater than {down_name}"]


def _about_intervals(config: PlannerConfig) -> list[str]:
    by_throughput, by_load = config.enable_throughput_scaling, config.enable_load_scaling
    if not (by_throughput or by_load):
        return ["At least one scaling mode must be enabled (enable_throughput_scaling or enable_load_scaling)"]
    load, throughput = config.load_adjustment_interval_seconds, config.throughput_adjustment_interval_seconds
    if by_throughput and throughput <= 0:
        return ["throughput_adjustment_interval_seconds must be > 0 when throughput scaling is enabled"]
    findings = []
    if not all(_divides(config.scale_interval_s, whole) for whole in (load, *([throughput] if by_throughput else []))):
        findings.append(
            "scheduling.scale_interval_seconds must evenly divide load_adjustment_interval_seconds and, when "
            "throughput scaling is enabled, throughput_adjustment_interval_seconds"
        )
    if by_throughput and by_load and load >= throughput:
        findings.append(
            f"load_adjustment_interval_seconds ({load}s) must be shorter than throughput_adjustment_interval_seconds "
            f"({throughput}s). Load-based scaling is the fast reactive loop; throughput-based is the slow predictive "
            "loop."
        )
    return findings


def _divides(part: float, whole: float) -> bool:
    ratio = whole / part
    return math.isclose(ratio, round(ratio), rel_tol=1e-9, abs_tol=1e-9)


def _about_live_systems(config: PlannerConfig) -> list[str]:
    findings = []
    if config.environment == "global-planner" and not config.global_planner_namespace:
        findings.append(
            "global_planner_namespace is required when environment='global-planner'. "
            "Please specify the namespace where GlobalPlanner is running."
        )
    if config.enable_power_awareness:
        findings += _power_faults(config)
    return findings


def _power_faults(config: PlannerConfig) -> list[str]:
    findings = []
    if config.total_gpu_power_limit is None:
        findings.append(
            "total_gpu_power_limit is required when enable_power_awareness=True. Recommended: (rack_capacity_W × "  # noqa: RUF001
            "headroom_factor) − non_gpu_overhead with headroom_factor ≈ 0.85–0.9. Setting this incorrectly could "  # noqa: RUF001
            "silently cap your cluster — there is no safe default."
        )
    if config.environment != "kubernetes":
        findings.append(f"enable_power_awareness requires environment='kubernetes', got {config.environment!r}")
    if config.mode == "agg":
        findings.append("enable_power_awareness is not supported when mode='agg'")
    return findings
