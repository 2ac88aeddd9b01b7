"""Documents that load: files, mappings, ReplaySpec objects, defaults, neutral values, overrides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from actors.spec.loading import document_schema, load_spec
from messages import spec as spec_module
from messages.errors import InputError
from messages.spec import ReplaySpec, RoundRobinPlacement

TOPOLOGY = {"kind": "aggregated", "workers": {"initial_workers": 2}}


def document(**parts: Any) -> dict[str, Any]:
    return {"topology": TOPOLOGY, "requests": [], **parts}


def test_smallest_document_gets_the_documented_defaults() -> None:
    spec = load_spec(document()).spec
    assert spec.engine.rank.backend == "vllm"
    assert spec.engine.rank.num_gpu_blocks == 16384
    assert spec.engine.rank.tokens_per_block == 64
    assert isinstance(spec.adapters.placement, RoundRobinPlacement)
    assert spec.record_per_request
    assert not spec.strict


def test_file_gives_its_folder_as_base_of_relative_paths(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(document()))
    loaded = load_spec(path)
    assert loaded.base_dir == tmp_path
    assert loaded == load_spec(str(path))


def test_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    path = tmp_path / "spec.json"
    path.write_text(json.dumps(document()), encoding="utf-8-sig")
    assert load_spec(path).spec.topology.workers.initial_workers == 2


def test_integers_are_taken_for_numbers() -> None:
    spec = load_spec(document(max_sim_time_ms=5, sla={"ttft_ms": 500})).spec
    assert spec.max_sim_time_ms == 5.0
    assert spec.sla.ttft_ms == 500.0


def test_replay_spec_object_and_its_own_json_are_equal() -> None:
    spec = load_spec(document(sla={"e2e_ms": 9.0}, requests=[row("a", metadata={"priority": 3, "note": [1]})])).spec
    assert load_spec(spec).spec == spec
    assert load_spec(msgspec.json.decode(msgspec.json.encode(spec))).spec == spec


def test_paths_of_python_documents_may_be_path_objects() -> None:
    spec = load_spec(document(requests=None, workload={"kind": "trace", "path": Path("t.jsonl")})).spec
    assert spec == load_spec(document(requests=None, workload={"kind": "trace", "path": "t.jsonl"})).spec


def test_values_of_python_documents_may_be_those_of_numpy() -> None:
    given = document(
        topology={"kind": "aggregated", "workers": {"initial_workers": np.int64(2)}},
        strict=np.bool_(True),
        sla={"ttft_ms": np.float64(500.0), "itl_ms": np.float32(20.0)},
        requests=[row("a", input_tokens=np.uint8(3), input_token_ids=np.array([1, 2, 3]))],
    )
    plain = document(
        strict=True,
        sla={"ttft_ms": 500.0, "itl_ms": 20.0},
        requests=[row("a", input_tokens=3, input_token_ids=[1, 2, 3])],
    )
    assert load_spec(given).spec == load_spec(plain).spec
    with pytest.raises(InputError, match=r"spec: max_in_flight: expected an integer >= 1, got 2\.0"):
        load_spec(document(max_in_flight=np.float64(2.0)))
    with pytest.raises(InputError, match=r"spec: max_sim_time_ms: expected a finite number, got NaN"):
        load_spec(document(max_sim_time_ms=np.float64("nan")))


def test_values_without_json_form_are_one_finding() -> None:
    with pytest.raises(InputError, match="a value of type object has no JSON form"):
        load_spec(document(engine=object()))


@pytest.mark.parametrize(
    "parts",
    [
        {"engine": None},
        {"sla": None},
        {"telemetry": None},
        {"encoder": None},
        {"workload": None},
        {"engine": {"dp_size": 1, "prefill": None, "decode": None, "tensor_parallel_size": 1}},
        {"engine": {"kv_eviction_policy": "lru", "num_gpu_blocks_is_explicit": True}},
        {
            "engine": {
                "rank": {"worker_type": "aggregated", "prefill_schedule_interval": 1, "prefill_decode_interval": 0}
            }
        },
        {"engine": {"rank": {"aic_nextn": None, "aic_nextn_accept_rates": None, "aic_mtp_seed": 42}}},
        {"engine": {"rank": {"trtllm": None, "native_host_offload": None}}},
        {"adapters": {"placement": {"provider": "round_robin", "config": {}}}},
        {"adapters": {"placement": {}}},
    ],
)
def test_neutral_values_of_other_versions_mean_the_defaults(parts: dict[str, Any]) -> None:
    assert load_spec(document(**parts)).spec == load_spec(document()).spec


def test_the_callers_mapping_is_left_alone() -> None:
    given = document(telemetry=None, engine={"dp_size": 1})
    copy = json.loads(json.dumps(given))
    load_spec(given, ["engine.rank.block_size=16"])
    assert given == copy


def test_schema_covers_what_is_supported_and_nothing_else() -> None:
    schema = document_schema()
    properties = schema["$defs"]["ReplaySpec"]["properties"]
    assert set(properties) == set(ReplaySpec.__struct_encode_fields__)
    assert schema["$defs"]["RankSpec"]["additionalProperties"] is False
    text = json.dumps(schema)
    assert "encoder" not in text


def test_committed_schema_is_that_of_the_code() -> None:
    committed = Path(spec_module.__file__).with_name("spec.schema.json")
    assert json.loads(committed.read_text()) == document_schema(), (
        "run: aisim-actors schema > messages/spec.schema.json"
    )


def test_a_spec_may_name_its_schema() -> None:
    given = load_spec(document(**{"$schema": "spec.schema.json"})).spec
    assert given == msgspec.structs.replace(load_spec(document()).spec, schema_uri="spec.schema.json")
    with pytest.raises(InputError, match=r"spec: \$schema: expected a string, got 3"):
        load_spec(document(**{"$schema": 3}))


def row(identity: str, **parts: Any) -> dict[str, Any]:
    return {"id": identity, "arrival_time_ms": 0.0, "input_tokens": 4, "output_tokens": 1, **parts}
