"""Make the recorded cases in `recorded` from the reference's examples.

    AISIM_SHARED=DIR python tests/planner/record.py

Copies the tables as they are, and of the runs what the planner saw and decided and what became of the cluster. A run
has our spec, and its requests as [timestamp, input length, output length, first hash id]. All is without white space.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

RECORDED = Path(__file__).parent / "recorded"
TABLES = ("budget", "capacity", "benchmark-grid", "warmup", "predictors", "config-validation")
RUNS = (
    "throughput-agg",
    "load-agg",
    "latency-disagg",
    "sla-throughput-disagg",
    "sla-mixed-disagg",
    "sla-load-agg",
)
KEYS_OF_RUNS = (
    "args",
    "planner_config",
    "fpm_columns",
    "ticks",
    "scaling_events",
    "lifecycle_operations",
    "metadata",
    "summary",
    "first_tick_full",
)


def main() -> None:
    shared = Path(os.environ["AISIM_SHARED"])
    sys.path.insert(0, str(shared / "reference"))
    from run_reference import load_case
    from to_spec import to_spec

    examples = shared / "spec" / "examples"
    RECORDED.mkdir(exist_ok=True)
    for name in TABLES:
        _write(name, json.loads((examples / f"planner-{name}.json").read_text()))
    for name in RUNS:
        path = examples / f"planner-run-{name}.json"
        document = json.loads(path.read_text())
        spec, lines = to_spec(load_case(path)[0])
        requests = [
            [r["timestamp"], r["input_length"], r["output_length"], r["hash_ids"][0]] for r in map(json.loads, lines)
        ]
        kept = {key: document[key] for key in KEYS_OF_RUNS if key in document}
        _write(f"run-{name}", {"spec": spec, "requests": requests, **kept})


def _write(name: str, document: dict[str, Any]) -> None:
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    (RECORDED / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
