"""Documents that name files, seen from other folders."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from actors.spec.loading import examine_spec, load_spec
from actors.spec.paths import files_meant, input_files, relocated

PROFILE = {"type": "external", "provider": "dynamo_profile", "config": {"path": "profiles/p.npz"}}


def document() -> dict[str, Any]:
    return {
        "topology": {
            "kind": "disaggregated",
            "prefill": {"initial_workers": 1},
            "decode": {"initial_workers": 1},
        },
        "engine": {"prefill": {"rank": {"timing_model": PROFILE}}, "decode": {"rank": {}}},
        "adapters": {
            "placement": {"provider": "kv_router", "config": {"router_policy_config": "policy.yaml"}},
            "scaling": {
                "provider": "planner",
                "config": {"load_predictor": "constant", "load_predictor_warmup_trace": "warm/*.jsonl"},
            },
        },
        "workload": {"kind": "trace", "path": "/traces/t.jsonl"},
    }


def test_files_that_a_document_names(tmp_path: Path) -> None:
    spec = load_spec(document()).spec
    assert input_files(spec, tmp_path) == [
        Path("/traces/t.jsonl"),
        tmp_path / "profiles/p.npz",
        tmp_path / "policy.yaml",
        tmp_path / "warm/*.jsonl",
    ]


def test_files_of_a_folder_and_a_pattern(tmp_path: Path) -> None:
    folder = tmp_path / "warm"
    folder.mkdir()
    for name in ("b.jsonl", "a.jsonl.gz", "notes.txt"):
        (folder / name).touch()
    assert files_meant(folder) == [folder / "a.jsonl.gz", folder / "b.jsonl"]
    assert files_meant(folder / "*.jsonl") == [folder / "b.jsonl"]
    assert files_meant(folder / "b.jsonl") == [folder / "b.jsonl"]
    assert files_meant(folder / "c.jsonl") == []


def test_files_of_timing_models(tmp_path: Path) -> None:
    timing = {"type": "table", "path": "passes.csv"}
    spec = load_spec({**document(), "engine": {"rank": {"timing_model": timing}}}).spec
    assert tmp_path / "passes.csv" in input_files(spec, tmp_path)
    moved = relocated(spec, tmp_path, tmp_path / "out")
    assert moved["engine"]["rank"]["timing_model"]["path"] == "../passes.csv"


def test_a_relocated_document_names_the_same_files(tmp_path: Path) -> None:
    home, folder = tmp_path / "home", tmp_path / "results" / "run"
    spec = load_spec(document()).spec
    moved = relocated(spec, home, folder)
    assert moved["engine"]["prefill"]["rank"]["timing_model"]["config"]["path"] == "../../home/profiles/p.npz"
    again = load_spec(json.loads(json.dumps(moved))).spec
    assert [os.path.normpath(path) for path in input_files(again, folder)] == [
        str(path) for path in input_files(spec, home)
    ]
    assert load_spec(relocated(again, folder, home)).spec == spec


def test_files_that_a_calibration_names(tmp_path: Path) -> None:
    (tmp_path / "fits").mkdir()
    calibration = {"timing_model": {"type": "table", "path": "passes.csv"}}
    (tmp_path / "fits" / "timing.json").write_text(json.dumps(calibration))
    (tmp_path / "fits" / "passes.csv").write_text(
        "prefill_requests,prefill_tokens,prefill_kv_tokens,decode_requests,decode_kv_tokens,ms\n1,100,0,0,0,10\n"
    )
    timing = {"type": "calibrated", "path": "fits/timing.json"}
    spec = examine_spec({**document(), "engine": {"rank": {"timing_model": timing}}}, base_dir=tmp_path).spec
    assert spec is not None
    assert [file.name for file in input_files(spec, tmp_path)][1:3] == ["timing.json", "policy.yaml"]
    assert tmp_path / "fits" / "passes.csv" in input_files(spec, tmp_path)
