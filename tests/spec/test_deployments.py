"""Specs whose timing model knows model and GPU: what they may leave out, and what they may not contradict."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from actors import replay
from actors.cli import main
from actors.spec.deployments import capacity_notes
from actors.spec.loading import load_spec
from actors.validation import validate
from messages.errors import InputError
from messages.spec import AiconfiguratorTiming, EngineSpec, RankSpec, ReplaySpec
from tests.comparison import simulated_figures

LLAMA = {"type": "aiconfigurator", "model": "meta-llama/Llama-3.1-8B", "system": "h100_sxm"}
POOL = {"initial_workers": 1}
REQUESTS = [
    {"id": str(index), "arrival_time_ms": 13.0 * index, "input_tokens": 300 + 700 * index, "output_tokens": 40}
    for index in range(6)
]


def aggregated(timing: dict[str, Any], engine: dict[str, Any] | None = None, **rank: Any) -> dict[str, Any]:
    return {
        "topology": {"kind": "aggregated", "workers": POOL},
        "engine": {"rank": {"block_size": 16, "timing_model": timing, **rank}, **(engine or {})},
        "requests": REQUESTS,
    }


def two_pools(timing: dict[str, Any], **rank: Any) -> dict[str, Any]:
    document = aggregated(timing, **rank)
    return {**document, "topology": {"kind": "disaggregated", "prefill": POOL, "decode": POOL}}


def findings_of(document: dict[str, Any]) -> list[str]:
    with pytest.raises(InputError) as caught:
        load_spec(document)
    return [finding.removeprefix("spec: ") for finding in caught.value.findings]


def test_the_gpus_per_rank_are_said_once() -> None:
    timing = AiconfiguratorTiming(model="m", system="s", tensor_parallel_size=4)
    assert EngineSpec(rank=RankSpec(timing_model=timing)).tensor_parallel_size == 4
    assert EngineSpec(rank=RankSpec(timing_model=timing), tensor_parallel_size=4).role().tensor_parallel_size == 4
    assert EngineSpec().tensor_parallel_size == EngineSpec().role().tensor_parallel_size == 1
    contradiction = "contradicts rank.timing_model.tensor_parallel_size 4; give it once"
    with pytest.raises(ValueError, match=contradiction):
        EngineSpec(rank=RankSpec(timing_model=timing), tensor_parallel_size=2)
    document = aggregated({**LLAMA, "tensor_parallel_size": 4}, {"tensor_parallel_size": 2})
    assert findings_of(document) == [f"engine: tensor_parallel_size 2 {contradiction}"]


def test_without_the_extra_the_error_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aiconfigurator_core", None)
    expected = (
        'spec: engine.rank.timing_model.type: "aiconfigurator" needs aiconfigurator-core, which is not installed: '
        'pip install "aisim-actors[aiconfigurator]" (Python 3.11 to 3.13)'
    )
    for check in (validate, replay, load_spec):
        with pytest.raises(InputError) as caught:
            check(aggregated(LLAMA))  # type: ignore[operator]
        assert caught.value.findings == (expected,)


def test_other_timing_models_leave_the_package_alone() -> None:
    code = (
        "import sys; from actors import replay; "
        "replay({'topology': {'kind': 'aggregated', 'workers': {'initial_workers': 1}}, 'requests': "
        "[{'id': 'a', 'arrival_time_ms': 0, 'input_tokens': 9, 'output_tokens': 3}]}); "
        "sys.exit('aiconfigurator_core' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], timeout=60, check=False).returncode == 0


def test_a_calibration_of_a_formula_needs_no_package(tmp_path: Path) -> None:
    document = {"timing_model": {"type": "polynomial"}, "adjust": {"decode_scale": 2.0}}
    (tmp_path / "timing.json").write_text(json.dumps(document))
    spec = load_spec(aggregated({"type": "calibrated", "path": str(tmp_path / "timing.json")})).spec
    assert spec.engine.rank.num_gpu_blocks == 16384
    assert spec.engine.tensor_parallel_size == 1
    missing = aggregated({"type": "calibrated", "path": "none.json"})
    expected = "none.json: no such file; give the path of a calibration relative to the spec file"
    assert findings_of(missing) == [f"engine.rank.timing_model: {expected}"]


@pytest.mark.usefixtures("aiconfigurator")
class TestWithThePackage:
    """What the package knows completes the document."""

    def test_blocks_follow_from_memory(self) -> None:
        loaded = load_spec(aggregated(LLAMA, max_num_batched_tokens=2048))
        rank = loaded.spec.engine.rank
        assert rank.num_gpu_blocks == 27326
        assert rank.timing_model == AiconfiguratorTiming(
            model="meta-llama/Meta-Llama-3.1-8B",
            system="h100_sxm",
            backend="vllm",
            backend_version="0.24.0",
            tensor_parallel_size=1,
            attention_dp_size=1,
        )
        assert capacity_notes(*loaded) == [
            "num_gpu_blocks 27326: 80.00 GiB x 0.9 - weights 14.96 - activations 0.17 - runtime 3.50 = 53.37 GiB of KV "
            "cache, at 131072 bytes per token 437216 tokens, in blocks of 16"
        ]
        assert load_spec(loaded.spec).spec == loaded.spec

    def test_a_given_number_of_blocks_stays(self) -> None:
        loaded = load_spec(aggregated(LLAMA, num_gpu_blocks=16384))
        assert loaded.spec.engine.rank.num_gpu_blocks == 16384
        assert capacity_notes(*loaded) == []

    def test_a_spec_made_in_python_may_leave_them_out_too(self) -> None:
        document = load_spec(aggregated(LLAMA)).spec
        rank = RankSpec(block_size=16, timing_model=AiconfiguratorTiming(model="llama-3.1-8b", system="h100_sxm"))
        made = ReplaySpec(topology=document.topology, engine=EngineSpec(rank=rank), requests=document.requests)
        assert load_spec(made).spec == document

    def test_each_pool_has_its_own(self) -> None:
        prefill = {"rank": {"block_size": 16, "timing_model": {**LLAMA, "gpu_memory_utilization": 0.5}}}
        decode = {"rank": {"block_size": 16, "timing_model": {**LLAMA, "tensor_parallel_size": 2}}}
        document = {**two_pools(LLAMA), "engine": {"prefill": prefill, "decode": decode}}
        loaded = load_spec(document)
        small, large = (rank.num_gpu_blocks for rank in loaded.spec.ranks)
        assert 0 < small < 27000 < large
        assert loaded.spec.engine.decode is not None
        assert loaded.spec.engine.decode.tensor_parallel_size == 2
        first, second = capacity_notes(*loaded)
        assert first.startswith(f"prefill: num_gpu_blocks {small}: ")
        assert second.startswith(f"decode: num_gpu_blocks {large}: ")

    def test_pools_that_are_alike_share_a_note(self) -> None:
        (note,) = capacity_notes(*load_spec(two_pools(LLAMA)))
        assert note.startswith("num_gpu_blocks ")

    def test_a_model_that_does_not_fit_is_refused(self) -> None:
        (finding,) = findings_of(aggregated({**LLAMA, "model": "llama-3.1-70b"}))
        assert finding.startswith(
            "engine.rank.timing_model.gpu_memory_utilization: 0.9 gives no KV cache to meta-llama"
        )
        assert finding.endswith("use more GPUs per rank, or give num_gpu_blocks")

    def test_every_finding_is_told_before_the_run(self) -> None:
        document = {**aggregated({**LLAMA, "system": "h100"}), "requests": [REQUESTS[0], REQUESTS[0]]}
        with pytest.raises(InputError) as caught:
            validate(document)
        first, second = sorted(caught.value.findings)
        assert first.startswith('spec: engine.rank.timing_model.system: aiconfigurator-core has no system "h100"; did')
        assert second == "spec: requests[1].id: duplicate of requests[0].id"

    def test_a_calibration_names_the_deployment(self, tmp_path: Path) -> None:
        timing = {**LLAMA, "backend": "vllm", "tensor_parallel_size": 2}
        (tmp_path / "timing.json").write_text(json.dumps({"timing_model": timing, "adjust": {"decode_scale": 1.2}}))
        calibrated = {"type": "calibrated", "path": str(tmp_path / "timing.json")}
        loaded = load_spec(aggregated(calibrated))
        plain = load_spec(aggregated(timing))
        assert loaded.spec.engine.tensor_parallel_size == 2
        assert loaded.spec.engine.rank.num_gpu_blocks == plain.spec.engine.rank.num_gpu_blocks
        assert findings_of(aggregated(calibrated, {"tensor_parallel_size": 4})) == [
            "engine.rank.timing_model.tensor_parallel_size: 2 contradicts the engine's 4"
        ]
        slower, faster = (replay(spec).summary["mean_e2e_latency_ms"] for spec in (loaded.spec, plain.spec))
        assert slower > faster

    @pytest.mark.parametrize("backend", ["vllm", "sglang", "trtllm"])
    @pytest.mark.parametrize("topology", [aggregated, two_pools])
    def test_merged_equals_stepped(self, backend: str, topology: Any) -> None:
        timing = {**LLAMA, "adjust": {"prefill_scale": 1.1, "decode_scale": 0.9, "pass_overhead_ms": 0.2}}
        for model, ratio in ((LLAMA, 1.0), (timing, 2.0)):
            document = topology(model, backend=backend, num_gpu_blocks=400, decode_speedup_ratio=ratio)
            merged, stepped = replay(document), replay(document, step=True)
            assert simulated_figures(merged) == simulated_figures(stepped)
            assert merged.requests == stepped.requests

    def test_the_command_prints_results_and_one_note(self, tmp_path: Path) -> None:
        (tmp_path / "spec.json").write_text(json.dumps(aggregated({**LLAMA, "system": "rtx_pro_6000_server"})))
        command = [sys.executable, "-m", "actors.cli"]
        outputs = [
            subprocess.run(
                [*command, *arguments], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
            )
            for arguments in (
                ("replay", "spec.json", "--json", "--output-dir", "out"),
                ("timing", "show", "spec.json"),
                ("timing", "check", "spec.json"),
            )
        ]
        assert json.loads(outputs[0].stdout)["completed_requests"] == len(REQUESTS)
        (note,) = outputs[0].stderr.splitlines()
        assert note.startswith("note: num_gpu_blocks ")
        assert outputs[1].stdout.splitlines()[0] == note.removeprefix("note: ")
        assert "largest 0.0" in outputs[2].stdout
        assert outputs[1].stderr == outputs[2].stderr == ""
        resolved = json.loads((tmp_path / "out" / "resolved_spec.json").read_text())
        assert f"num_gpu_blocks {resolved['engine']['rank']['num_gpu_blocks']}:" in note


def test_timing_check_of_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table = "prefill_tokens,decode_requests,decode_kv_tokens,ms\n8,,,2\n16,,,3\n24,,,5\n,1,8,1\n,1,16,2\n"
    (tmp_path / "table.csv").write_text(table)
    document = aggregated({"type": "table", "path": "table.csv"})
    (tmp_path / "spec.json").write_text(json.dumps(document))
    assert main(["timing", "check", str(tmp_path / "table.csv")]) == 0
    printed = capsys.readouterr().out
    assert "  prefill among the others       1 passes, mean  16.67%, worst  +16.67%" in printed
    assert main(["timing", "check", str(tmp_path / "spec.json")]) == 0
    assert capsys.readouterr().out == "workers:\n" + printed
    assert main(["timing", "show", str(tmp_path / "spec.json")]) == 0
    assert "2048 new tokens beside 32 requests with 1024 tokens each: " in capsys.readouterr().out
    assert main(["timing", "check", str(tmp_path / "none.csv")]) == 2
    assert "none.csv: no such file" in capsys.readouterr().err
