"""Make the recorded runs beside this file, with scripted scaling, from the reference's examples.

    AISIM_SHARED=DIR python -m tests.scaling.record

Writes a file per run: spec, trace, ticks, and what the reference returned and showed to the policy.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

RUNS = Path(__file__).parent / "recorded"
EXAMPLES = ("runtime-scale-*", "planner-contract-agg", "planner-contract-d*", "router-3[45]-*")


def main() -> None:
    shared = Path(os.environ["AISIM_SHARED"])
    sys.path.insert(0, str(shared / "reference"))
    from run_reference import load_case

    RUNS.mkdir(exist_ok=True)
    folder = shared / "spec" / "examples"
    for pattern in EXAMPLES:
        for path in sorted(folder.glob(f"{pattern}.json")):
            case, expected = load_case(path)
            _write(path.stem, case, _expected(json.loads(path.read_text()), expected))
    _write_startups(folder / "planner-contract-startup.json", load_case(folder / "planner-contract-agg.json")[0])


def _write_startups(path: Path, case: dict[str, Any]) -> None:
    """One run per start-up time: the trace of another example with targets by ordinal."""
    document = json.loads(path.read_text())
    for number, entry in enumerate(document["cases"]):
        engine = {**case["config"]["extra_engine_args"], "startup_time": entry["startup_time_s"]}
        ticks = [
            {
                "at_ms": document["initial_tick_ms"] + index * document["step_ms"],
                "target_prefill": None,
                "target_decode": entry["targets_by_ordinal"].get(str(index)),
            }
            for index in range(len(entry["ticks"]) + 1)
        ]
        own = {**case, "config": {**case["config"], "extra_engine_args": engine}, "scaling": ticks}
        own["trace"] = document["trace"] if isinstance(document["trace"], list) else case["trace"]
        expected = {
            "rows": entry["per_request"],
            "operations": entry["lifecycle_operations"],
            "summary": {key: entry[key] for key in ("decode_worker_seconds", "gpu_hours", "duration_ms")},
            "snapshots": [
                {key: value for key, value in tick.items() if key != "decode_fpm_workers"} for tick in entry["ticks"]
            ],
        }
        _write(f"{path.stem}-{number}", own, expected)


def _expected(document: dict[str, Any], expected: dict[str, Any] | None) -> dict[str, Any]:
    expected = expected or document
    if "error" in expected:
        return {"error": expected["error"]["message"]}
    ticks = document.get("ticks")
    dropped = ("trace_index", "routing", "admission_history", "admissions")
    return {
        "rows": [{key: value for key, value in row.items() if key not in dropped} for row in expected["per_request"]],
        "operations": expected.get("lifecycle_operations"),
        "snapshots": [tick["snapshot"] for tick in ticks] if ticks else expected.get("scaling_snapshots"),
        "summary": expected.get("summary") or {},
    }


def _write(name: str, case: dict[str, Any], expected: dict[str, Any]) -> None:
    from to_spec import to_spec

    spec, lines = to_spec(case)
    ticks = spec["adapters"].pop("scaling")["config"]["ticks"]
    spec.pop("telemetry", None)
    run = {"spec": spec, "trace": [json.loads(line) for line in lines or ()], "ticks": ticks, "expected": expected}
    (RUNS / f"{name}.json").write_text(json.dumps(run, indent=1) + "\n")


if __name__ == "__main__":
    main()
