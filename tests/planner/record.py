"""Make the recorded cases in `recorded` from the reference's examples.

    AISIM_SHARED=DIR AISIM_REFERENCE=PYTHON python -m tests.planner.record

Copies the tables as they are, and of the runs what the planner saw and decided; runs our planner in the reference over
the whole trace and keeps its decisions. All is written without white space.
"""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from tests.parity.reference import Reference
from tests.planner.black_box import ONE_POOL, WHOLE_TRACE, decisions, run_in_reference

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
KEYS_OF_RUNS = ("args", "planner_config", "fpm_columns", "ticks", "scaling_events", "metadata", "first_tick_full")


def main() -> None:
    examples = Path(os.environ["AISIM_SHARED"]) / "spec" / "examples"
    RECORDED.mkdir(exist_ok=True)
    for name in TABLES:
        _copy(examples / f"planner-{name}.json", name, None)
    for name in RUNS:
        _copy(examples / f"planner-run-{name}.json", f"run-{name}", KEYS_OF_RUNS)
    shared = Path(os.environ["AISIM_SHARED"])
    reference = Reference(Path(os.environ["AISIM_REFERENCE"]), shared / "reference")
    request = {"trace_path": str(shared / "data" / "traces" / WHOLE_TRACE), **ONE_POOL}
    with tempfile.TemporaryDirectory() as folder:
        _write("whole-trace", decisions(run_in_reference(reference, request, Path(folder))["planner"]))


def _copy(source: Path, name: str, keys: tuple[str, ...] | None) -> None:
    document = json.loads(source.read_text())
    kept = document if keys is None else {key: document[key] for key in keys if key in document}
    _write(name, kept)


def _write(name: str, document: Any) -> None:
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=False)
    (RECORDED / f"{name}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
