"""The planner that a spec names, from the spec to the files of a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from actors import replay
from actors.reporting.writers import OutputDirectory
from actors.spec.loading import load_spec
from tests.planner.builders import LinearSession
from tests.scenario import cluster


def _spec(**config: Any) -> dict[str, Any]:
    requests = [(100.0 * index, 600 + 40 * (index % 7), 40) for index in range(200)]
    spec = cluster(*((at_ms, inputs, outputs) for at_ms, inputs, outputs in requests[:26]), blocks=400)
    spec["requests"] = [
        {"id": str(index), "arrival_time_ms": at_ms, "input_tokens": inputs, "output_tokens": outputs}
        for index, (at_ms, inputs, outputs) in enumerate(requests)
    ]
    spec["engine"]["rank"] |= {"max_model_len": 4096}
    spec["adapters"] = {"scaling": {"provider": "planner", "config": {"load_adjustment_interval_seconds": 2, **config}}}
    return spec


def test_files_and_reasons(tmp_path: Path) -> None:
    spec = _spec(optimization_target="latency")
    OutputDirectory(tmp_path, overwrite=True).write(replay(spec), load_spec(spec))
    planner = json.loads((tmp_path / "report.json").read_text())["planner"]
    ticks = [json.loads(line) for line in (tmp_path / "planner.jsonl").read_text().splitlines()]
    assert len(ticks) == planner["total_ticks"] > 5
    assert [tick["at_ms"] for tick in ticks] == [2000.0 * (index + 1) for index in range(len(ticks))]
    first = planner["decisions"][0]
    assert first["load_decision_reason"] == "scale_up"
    assert (first["target_decode"], planner["lifecycle_operations"][0]["planner_tick_ordinal"]) == (
        2,
        first["tick_ordinal"],
    )
    assert planner["worker_counts"][0]["active"] == 2


def test_bootstrap_session() -> None:
    """A planner that aims at an SLA is told how long passes take before it sees any."""
    spec = _spec(optimization_target="sla", load_predictor="constant")
    statuses = []
    for session in (None, LinearSession()):
        report = replay(spec, planner_bootstrap=session)
        assert report.planner is not None
        assert report.planner.metadata is not None
        statuses.append(report.planner.metadata["bootstrap"]["status"])
    assert statuses == ["not_configured_load_only", "installed"]
