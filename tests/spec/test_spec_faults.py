"""Documents that are refused: each fault is one line with the path, what was found and what is allowed."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from actors.spec.faults import find_faults
from actors.spec.loading import load_spec
from messages.errors import InputError
from messages.spec import ReplaySpec

TOPOLOGY = {"kind": "aggregated", "workers": {"initial_workers": 2}}
SYNTHETIC = {"kind": "synthetic", "input_tokens": 8, "output_tokens": 2, "request_count": 3}


def document(**parts: Any) -> dict[str, Any]:
    whole = {"topology": TOPOLOGY, "requests": [], **parts}
    return {name: part for name, part in whole.items() if part is not ...}


def row(identity: str = "a", **parts: Any) -> dict[str, Any]:
    return {"id": identity, "arrival_time_ms": 0.0, "input_tokens": 4, "output_tokens": 1, **parts}


def findings_of(source: Any) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_spec(source)
    for finding in caught.value.findings:
        assert "\n" not in finding
    return [finding.removeprefix("spec: ") for finding in caught.value.findings]


def two_pools(**parts: Any) -> dict[str, Any]:
    pool = {"initial_workers": 1}
    return {"topology": {"kind": "disaggregated", "prefill": pool, "decode": pool, **parts}}


def rank(**fields: Any) -> dict[str, Any]:
    return {"engine": {"rank": fields}}


def trace(**fields: Any) -> dict[str, Any]:
    return {"requests": ..., "workload": {"kind": "trace", "path": "t.jsonl", **fields}}


def synthetic(**fields: Any) -> dict[str, Any]:
    return {"requests": ..., "workload": {**SYNTHETIC, **fields}}


SPEEDUP = "workload.arrival_speedup_ratio:"
TOO_LATE = "leads to a time beyond the range of numbers; use a less extreme value"

TIMING_MODELS = '"polynomial" or "fixed" or "external" or "aiconfigurator" or "table" or "calibrated"'

ONE_FAULT: list[tuple[dict[str, Any], str]] = [
    ({"topology": ...}, "topology: missing; it is required"),
    (
        {"topology": {"workers": {"initial_workers": 1}}},
        'topology.kind: missing; expected "aggregated" or "disaggregated"',
    ),
    ({"topology": {"kind": "ring"}}, 'topology.kind: unknown kind "ring"; expected "aggregated" or "disaggregated"'),
    (
        {"topology": {"kind": "disaggregated", "prefill": {"initial_workers": 1}}},
        "topology.decode: missing; it is required",
    ),
    (
        {"topology": {"kind": "aggregated", "workers": {"initial_workers": 0}}},
        "topology.workers.initial_workers: expected an integer >= 1, got 0",
    ),
    (
        {"topology": {"kind": "aggregated", "workers": {"initial_workers": 1, "startup_delay_ms": -1}}},
        "topology.workers.startup_delay_ms: expected a number >= 0, got -1",
    ),
    (rank(block_size=0), "engine.rank.block_size: expected an integer >= 1, got 0"),
    (rank(block_size=1), "engine.rank: block_size must be at least 2 for backend vllm, got 1"),
    (rank(num_gpu_blocks=100.0), "engine.rank.num_gpu_blocks: expected an integer >= 1, got 100.0"),
    (rank(num_gpu_blocks=True), "engine.rank.num_gpu_blocks: expected an integer >= 1, got true"),
    (rank(num_gpu_blocks=None), "engine.rank.num_gpu_blocks: expected an integer >= 1, got null"),
    (rank(blok_size=16), 'engine.rank.blok_size: unknown key; did you mean "block_size"?'),
    (
        rank(backend="vlm"),
        'engine.rank.backend: unknown backend "vlm"; expected "sglang" or "trtllm" or "vllm"; did you mean "vllm"?',
    ),
    (
        rank(preemption_mode="FIFO"),
        'engine.rank.preemption_mode: unknown preemption_mode "FIFO"; expected "fifo" or "lifo"',
    ),
    (rank(enable_prefix_caching=1), "engine.rank.enable_prefix_caching: expected true or false, got 1"),
    (rank(speedup_ratio=float("nan")), "engine.rank.speedup_ratio: expected a finite number, got NaN"),
    (rank(speedup_ratio=float("-inf")), "engine.rank.speedup_ratio: expected a finite number, got -Infinity"),
    (
        rank(worker_type="prefill"),
        'engine.rank.worker_type: this version supports only "aggregated", got "prefill"',
    ),
    (rank(native_host_offload={}), "engine.rank.native_host_offload: this version does not support it; remove it"),
    (
        rank(timing_model={}),
        f"engine.rank.timing_model.type: missing; expected {TIMING_MODELS}",
    ),
    (
        rank(timing_model={"type": "fixd"}),
        f'engine.rank.timing_model.type: unknown type "fixd"; expected {TIMING_MODELS}; did you mean "fixed"?',
    ),
    (
        rank(timing_model={"type": "fixed", "prefill_ms": 1}),
        "engine.rank.timing_model.decode_ms: missing; it is required",
    ),
    (
        rank(timing_model={"type": "external", "provider": "x", "config": {}}),
        'engine.rank.timing_model.provider: unknown provider "x"; expected "dynamo_profile"',
    ),
    (rank(emit_kv_token_ids=True), "engine.rank: emit_kv_token_ids requires emit_kv_events"),
    (
        rank(kv_bytes_per_token=1, kv_transfer_bytes_per_token=1),
        "engine.rank: kv_bytes_per_token is another name of kv_transfer_bytes_per_token: give one of them",
    ),
    ({"engine": {"dp_size": 0}}, "engine.dp_size: expected an integer >= 1, got 0"),
    (rank(aic_nextn=6), "engine.rank.aic_nextn: expected an integer in 1..5, got 6"),
    (rank(aic_nextn_accept_rates="0.5"), "engine.rank: aic_nextn_accept_rates requires aic_nextn"),
    (
        rank(aic_nextn=2, aic_nextn_accept_rates="0.5,x"),
        "engine.rank: aic_nextn_accept_rates: expected numbers from 0 to 1, got 'x'",
    ),
    (
        rank(aic_nextn=2, decode_speedup_ratio=2.0),
        "engine.rank: aic_nextn requires decode_speedup_ratio 1.0: bursts are its output acceleration",
    ),
    (
        rank(backend="trtllm", prefill_schedule_interval=2),
        "engine.rank: prefill_schedule_interval is supported only for backend vllm",
    ),
    (rank(prefill_decode_interval=2), "engine.rank: prefill_decode_interval is supported only for backend sglang"),
    (
        {**two_pools(), "engine": {"prefill": {}, "decode": {}, "dp_size": 2}},
        "engine: rank, dp_size and tensor_parallel_size are for pools without an engine of their own, "
        "and both have one; remove them or one of prefill and decode",
    ),
    (
        {**two_pools(), "engine": {"decode": {"rank": {"backend": "trtllm", "block_size": 64}}}},
        "engine.decode.rank.backend: both pools must have the same backend, got vllm for prefill and trtllm for decode",
    ),
    (
        {**two_pools(), "engine": {"prefill": {"rank": {"block_size": 16}}}},
        "engine.decode.rank.block_size: both pools must have the same block size, got 16 for prefill and 64 for decode",
    ),
    (
        {"engine": {"decode": {"rank": {}}}},
        "engine.decode: an aggregated topology has no such pool; remove it",
    ),
    (
        {**two_pools(), "requests": [row(dp_rank=0)]},
        "requests[0].dp_rank: this version heeds ranks in an aggregated topology only; remove it",
    ),
    (
        {**two_pools(), "engine": {"prefill": {"rank": {"worker_type": "decode"}}}},
        'engine.prefill.rank.worker_type: this version supports only "prefill", got "decode"',
    ),
    ({**two_pools(handoff_latency_ms=-1)}, "topology.handoff_latency_ms: expected a number >= 0, got -1"),
    ({"engine": {"tensor_parallel_size": 0}}, "engine.tensor_parallel_size: expected an integer >= 1, got 0"),
    ({"engine": []}, "engine: expected an object, got a list"),
    (
        {"adapters": {"placement": {"provider": "round_robin", "config": {"x": 1}}}},
        "adapters.placement.config: expected null, got an object",
    ),
    (
        {"adapters": {"placement": {"provider": "random"}}},
        'adapters.placement.provider: unknown provider "random"; expected "round_robin" or "kv_router"',
    ),
    (
        {"adapters": {"scaling": {"provider": "reactive"}}},
        'adapters.scaling.provider: unknown provider "reactive"; expected "none" or "schedule" or "planner"',
    ),
    ({"adapters": {"scaling": {"provider": "schedule"}}}, "adapters.scaling.config: missing; it is required"),
    ({"encoder": {"workers": 1}}, "encoder: this version does not support it; remove it"),
    ({"version": 2}, "version: unknown version 2; expected 1"),
    ({"max_in_flight": 0}, "max_in_flight: expected an integer >= 1, got 0"),
    (
        {"max_in_flight": 10**22},
        f"max_in_flight: expected an integer in 1..9223372036854775807, got {10**22}",
    ),
    (rank(num_gpu_blocks=2**63), f"engine.rank.num_gpu_blocks: expected an integer in 1..{2**63 - 1}, got {2**63}"),
    (
        {"max_sim_time_ms": 10**400},
        f"max_sim_time_ms: expected a number in 0.0..1.7976931348623157e+308, got 1{'0' * 56}...",
    ),
    ({"max_sim_time_ms": -(10**400)}, f"max_sim_time_ms: expected a number >= 0, got -1{'0' * 55}..."),
    (
        {"sla": {"ttft_ms": 10**400}},
        f"sla.ttft_ms: expected a number > 0 and <= 1.7976931348623157e+308, got 1{'0' * 56}...",
    ),
    ({"max_sim_time_ms": -1}, "max_sim_time_ms: expected a number >= 0, got -1"),
    ({"max_sim_time_ms": "1"}, 'max_sim_time_ms: expected a number >= 0, got "1"'),
    (
        {"telemetry": {"sample_interval_ms": 0}},
        "telemetry.sample_interval_ms: expected a number > 0, got 0",
    ),
    (
        {"telemetry": {"sample_interval_ms": -2.5}},
        "telemetry.sample_interval_ms: expected a number > 0, got -2.5",
    ),
    ({"sla": {"ttft_ms": 0}}, "sla.ttft_ms: expected a number > 0, got 0"),
    ({"sla": {"e2e_ms": 1, "itl_ms": 1}}, "sla: e2e_ms is mutually exclusive with ttft_ms and itl_ms"),
    ({"stric": True}, 'stric: unknown key; did you mean "strict"?'),
    ({"requests": ...}, "give exactly one of `requests` and `workload`, got neither"),
    ({"workload": {"kind": "trace", "path": "t"}}, "give exactly one of `requests` and `workload`, got both"),
    (
        {"requests": ..., "workload": {"kind": "trce", "path": "t"}},
        'workload.kind: unknown kind "trce"; expected "trace" or "synthetic"; did you mean "trace"?',
    ),
    (
        {"requests": ..., "workload": {"kind": "trace", "path": "t", "format": "weka"}},
        'workload.format: this version does not support format "weka"; expected "applied_compute_agentic" or '
        '"mooncake" or "mooncake-delta" or "mooncake_delta"',
    ),
    (
        {"requests": ..., "workload": {"kind": "trace", "path": ""}},
        'workload.path: expected a non-empty string, got ""',
    ),
    (
        {"requests": ..., "workload": SYNTHETIC},
        "workload: give exactly one of request_rate, arrival_interval_ms, max_in_flight (top level), got none",
    ),
    (
        {"requests": ..., "workload": {**SYNTHETIC, "request_rate": 1.0}, "max_in_flight": 2},
        "workload: give exactly one of request_rate, arrival_interval_ms, max_in_flight (top level), "
        "got request_rate and max_in_flight",
    ),
    (
        {"requests": ..., "workload": {"kind": "trace", "path": "a\0b"}},
        "workload: path: expected the name of a file, which holds no zero byte, got 'a\\x00b'",
    ),
    (
        rank(timing_model={"type": "external", "provider": "dynamo_profile", "config": {"path": "a\0b"}}),
        "engine.rank.timing_model.config: path: expected the name of a file, which holds no zero byte, got 'a\\x00b'",
    ),
    (trace(arrival_speedup_ratio=0), f"{SPEEDUP} expected a finite number > 0, got 0.0"),
    (trace(arrival_speedup_ratio=-1), f"{SPEEDUP} expected a finite number > 0, got -1.0"),
    (
        trace(format="applied_compute_agentic"),
        "workload.format: applied_compute_agentic has no arrival times and needs the top-level max_in_flight",
    ),
    (
        {**trace(format="applied_compute_agentic", shared_prefix_ratio=2), "max_in_flight": 1},
        "workload.shared_prefix_ratio: expected a number in 0.0..1.0, got 2.0",
    ),
    (synthetic(arrival_interval_ms=1, arrival_speedup_ratio=0), f"{SPEEDUP} expected a finite number > 0, got 0.0"),
    (
        synthetic(arrival_interval_ms=1, turns_per_session=0, num_prefix_groups=1),
        "workload.turns_per_session: expected an integer >= 1, got 0",
    ),
    (
        synthetic(arrival_interval_ms=1, turns_per_session=2, inter_turn_delay_ms=-1),
        "workload.inter_turn_delay_ms: expected a finite number >= 0, got -1.0",
    ),
    (
        synthetic(arrival_interval_ms=1, shared_prefix_ratio=1.5),
        "workload.shared_prefix_ratio: expected a number in 0.0..1.0, got 1.5",
    ),
    (
        synthetic(arrival_interval_ms=1, num_prefix_groups=2**32 + 1),
        f"workload.num_prefix_groups: expected an integer in 0..{2**32}, got {2**32 + 1}",
    ),
    (synthetic(arrival_interval_ms=1e-320), f"workload.arrival_interval_ms: {TOO_LATE}"),
    (synthetic(arrival_interval_ms=1e308), f"workload.arrival_interval_ms: {TOO_LATE}"),
    (synthetic(request_rate=1e-306), f"workload.request_rate: {TOO_LATE}"),
    (synthetic(request_rate=1e-300, arrival_speedup_ratio=1e-9), f"{SPEEDUP} {TOO_LATE}"),
    (
        synthetic(arrival_interval_ms=0, arrival_speedup_ratio=1e-9, turns_per_session=2, inter_turn_delay_ms=1e300),
        f"workload.inter_turn_delay_ms: {TOO_LATE}",
    ),
    ({"requests": {}}, "requests: expected a list, got an object"),
    ({"requests": [5]}, "requests[0]: expected an object, got 5"),
    ({"requests": [row(""), row("b")]}, 'requests[0].id: expected a non-empty string, got ""'),
    ({"requests": [row(), row()]}, "requests[1].id: duplicate of requests[0].id"),
    ({"requests": [row(arrival_time_ms=-1)]}, "requests[0].arrival_time_ms: expected a number >= 0, got -1"),
    ({"requests": [row(input_tokens=0)]}, "requests[0].input_tokens: expected an integer >= 1, got 0"),
    (
        {"requests": [row(input_token_ids=[1, 2])]},
        "requests[0]: input_tokens is 4 but input_token_ids holds 2 token ids",
    ),
    (
        {"requests": [row(output_token_ids=[1, -2])]},
        "requests[0].output_token_ids[1]: expected an integer in 0..4294967295, got -2",
    ),
    (
        {"requests": [row(dp_rank=2)], "engine": {"dp_size": 2}},
        "requests[0].dp_rank: expected an integer in 0..1 (engine.dp_size is 2), got 2",
    ),
    (
        {"requests": [row(prefill_dp_rank=0)]},
        "requests[0].prefill_dp_rank: an aggregated topology has no prefill ranks; remove it",
    ),
    (
        {"requests": [row(metadata={"priority": "high"})]},
        "requests[0]: metadata.priority: expected an integer in -2147483648..2147483647, got 'high'",
    ),
    ({"requests": [row(metadata=[1])]}, "requests[0]: metadata: expected an object or null, got [1]"),
    ({"requests": [row("\ud800")]}, "requests[0].id: the text holds half of a surrogate pair"),
]


@pytest.mark.parametrize(("parts", "finding"), ONE_FAULT, ids=[finding[:60] for _, finding in ONE_FAULT])
def test_each_fault_is_one_line(parts: dict[str, Any], finding: str) -> None:
    assert findings_of(document(**parts)) == [finding]


def test_unknown_key_without_near_name_lists_the_valid_ones() -> None:
    (finding,) = findings_of(document(sla={"zzz": 1}))
    assert finding == "sla.zzz: unknown key; allowed here: ttft_ms, itl_ms, e2e_ms"


def test_every_section_and_every_row_is_reported() -> None:
    findings = findings_of(
        document(
            topology={"kind": "aggregated", "workers": {"initial_workers": 0}},
            engine={"rank": {"block_size": 0}},
            adapters={"placement": {"provider": "x"}, "scaling": {"provider": "y"}},
            sla={"itl_ms": -1},
            requests=[row("a", input_tokens=0), row("b"), row("c", output_tokens=-1), row("b")],
        )
    )
    starts = [finding.split(":")[0] for finding in findings]
    assert starts == [
        "topology.workers.initial_workers",
        "requests[0].input_tokens",
        "requests[2].output_tokens",
        "engine.rank.block_size",
        "adapters.placement.provider",
        "adapters.scaling.provider",
        "sla.itl_ms",
        "requests[3].id",
    ]


PLANNER_FAULTS: list[tuple[dict[str, Any], list[str]]] = [
    (
        {"ttft": "x", "min_endpoints": 1},
        [
            'adapters.scaling.config.ttft_ms: expected a number, got "x"',
            'adapters.scaling.config.min_endpoints: unknown key; did you mean "min_endpoint"?',
        ],
    ),
    (
        {"mode": "disagg", "ttft": 0},
        [
            "adapters.scaling.config.mode: the topology is aggregated, which needs 'agg', got 'disagg'; leave it out",
            "adapters.scaling.config: ttft_ms must be > 0, got 0.0",
        ],
    ),
    (
        {"ais_perf_model": {"roles": {}}, "ttft": "x"},
        [
            "adapters.scaling.config.ais_perf_model: this version has no native estimators; remove it "
            "(forward passes are learned by regression)",
        ],
    ),
]


@pytest.mark.parametrize(("config", "findings"), PLANNER_FAULTS, ids=["types and names", "joint", "out of scope"])
def test_faults_of_a_planner(config: dict[str, Any], findings: list[str]) -> None:
    scaling = {"provider": "planner", "config": config}
    assert findings_of(document(adapters={"scaling": scaling})) == findings
    with_another = document(adapters={"scaling": scaling}, sla={"ttft_ms": -1})
    assert "sla.ttft_ms: expected a number > 0, got -1" in findings_of(with_another)


def test_workload_is_judged_beside_faults_of_other_sections() -> None:
    assert findings_of(document(sla={"itl_ms": -1}, **trace(arrival_speedup_ratio=0))) == [
        "sla.itl_ms: expected a number > 0, got -1",
        f"{SPEEDUP} expected a finite number > 0, got 0.0",
    ]


@pytest.mark.parametrize(
    "parts",
    [
        {**trace(arrival_speedup_ratio=0), "max_in_flight": 1},
        trace(shared_prefix_ratio=7),
        {**synthetic(arrival_speedup_ratio=0, inter_turn_delay_ms=-1, turns_per_session=0), "max_in_flight": 1},
        {**synthetic(shared_prefix_ratio=-0.5), "max_in_flight": 1},
        {**synthetic(request_rate=1e-300), "max_sim_time_ms": 1},
        synthetic(arrival_interval_ms=1e300, arrival_speedup_ratio=1e-7),
    ],
)
def test_values_without_effect_and_values_at_the_edge_pass(parts: dict[str, Any]) -> None:
    load_spec(document(**parts))


@pytest.mark.parametrize(
    ("content", "finding"),
    [
        (b"", ": is empty; expected a JSON object"),
        (b" \n", ": is empty; expected a JSON object"),
        (b"[]", ": expected a JSON object, got a list"),
        (b"3", ": expected a JSON object, got 3"),
        (b"hello", ":1: column 1: JSON is malformed: expecting value"),
        (
            b'{\n  "version": 1,,\n}',
            ":2: column 16: JSON is malformed: expecting property name enclosed in double quotes",
        ),
        (b'{"version": 1', ":1: column 14: JSON is malformed: expecting ',' delimiter"),
        (b'\xff{"version": 1}', ": is not UTF-8 text (byte 0xff at 0)"),
        (b"[" * 100_000, ": JSON is nested too deeply"),
        (b'{"sla": {"ttft_ms": 1, "ttft_ms": 2}}', ': the key "ttft_ms" occurs twice in one object'),
        (b'{"max_sim_time_ms": 1e999}', ": max_sim_time_ms: expected a finite number, got 1e999"),
        (b'{"sla": {"ttft_ms": -2.5E+999}}', ": sla.ttft_ms: expected a finite number, got -2.5E+999"),
        (b'{"max_sim_time_ms": NaN}', ": max_sim_time_ms: expected a finite number, got NaN"),
    ],
)
def test_files_that_hold_no_document(tmp_path: Path, content: bytes, finding: str) -> None:
    path = tmp_path / "spec.json"
    path.write_bytes(content)
    assert findings_of(path) == [f"{path}{finding}"]


def test_integers_of_thousands_of_digits_are_one_finding(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(f'{{"version": {"1" * 5000}}}')
    (finding,) = findings_of(path)
    assert finding.startswith(f"{path}: JSON cannot be read: ")


def test_missing_file_and_directory(tmp_path: Path) -> None:
    assert findings_of(tmp_path / "spec.json") == [f"{tmp_path / 'spec.json'}: no such file"]
    assert findings_of(tmp_path) == [f"{tmp_path}: is a directory; expected a JSON file"]


def test_overrides_are_checked_like_the_document(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(document()))
    with pytest.raises(InputError) as caught:
        load_spec(path, ["engine.rank.block_size=0", "engine.rank.blok_size=2"])
    with pytest.raises(InputError, match=r"sla\.ttft_ms: expected a finite number, got 1e999"):
        load_spec(path, ["sla.ttft_ms=1e999"])
    assert caught.value.findings == (
        f"{path}: engine.rank.block_size: expected an integer >= 1, got 0",
        f'{path}: engine.rank.blok_size: unknown key; did you mean "block_size"?',
    )


scalars = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2.0, 2.0) | st.sampled_from(["", "vllm", "trace"])
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["a", "type", "path"]), inner)
)
PATHS = [
    "topology.kind", "topology.workers.initial_workers", "engine.rank", "engine.rank.block_size", "engine.dp_size",
    "engine.rank.timing_model", "engine.rank.timing_model.type", "engine.rank.sglang", "adapters.placement",
    "adapters.placement.provider", "adapters.scaling.config", "requests", "workload", "workload.kind", "workload.path",
    "sla.ttft_ms", "sla.e2e_ms", "strict", "new",
]  # fmt: skip


@given(st.dictionaries(st.sampled_from(PATHS), values, max_size=4))
def test_diagnosis_and_decoder_agree_on_any_document(changes: dict[str, Any]) -> None:
    changed = json.loads(json.dumps(document()))
    for path, value in changes.items():
        *parents, name = path.split(".")
        holder = changed
        for parent in parents:
            inner = holder.get(parent)
            holder[parent] = holder = inner if isinstance(inner, dict) else {}
        holder[name] = value
    faults = find_faults(changed, msgspec.inspect.type_info(ReplaySpec))
    try:
        msgspec.convert(changed, ReplaySpec)
    except msgspec.ValidationError:
        assert faults
    else:
        assert all(fault.startswith("topology.kind: missing") for fault in faults)
    with contextlib.suppress(InputError):
        load_spec(changed)
