"""Time a sweep of 60 points over the synthetic Mooncake trace with one worker process and with two.

    AISIM_SHARED=DIR python -m tests.bench.sweep [--runs N]

Prints the median wall and processor time of each, and the median ratio of the pairs. AISIM_SHARED names the folder with
the traces.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import typer

from tests.bench.__main__ import Usage, run_process


def document(trace: Path) -> dict[str, Any]:
    """The sweep: five sizes of the pool, twelve of the cache."""
    return {
        "base": {
            "topology": {"kind": "aggregated", "workers": {"initial_workers": 4}},
            "workload": {"kind": "trace", "path": str(trace)},
        },
        "axes": {
            "topology.workers.initial_workers": [2, 3, 4, 5, 6],
            "engine.rank.num_gpu_blocks": [*range(1000, 10_001, 1000), 12_000, 16_384],
        },
        "objective": {"key": "gpu_hours", "goal": "min"},
    }


def main(runs: Annotated[int, typer.Option(help="Runs of each.")] = 3) -> None:
    """Print the times with one and with two workers, and what the second gains."""
    usages: dict[int, list[Usage]] = {1: [], 2: []}
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "sweep.json"
        path.write_text(json.dumps(document(Path(os.environ["AISIM_SHARED"]) / "data/traces/mooncake-synthetic.jsonl")))
        for _ in range(runs):
            for workers, measured in usages.items():
                command = [sys.executable, "-m", "actors.cli", "sweep", str(path), "--quiet", "--fresh"]
                measured.append(run_process([*command, "--workers", str(workers)]))
    for workers, measured in usages.items():
        wall, cpu = (statistics.median(getattr(usage, field) for usage in measured) for field in ("wall_s", "cpu_s"))
        print(f"{workers} worker{'s' if workers > 1 else ''}: {wall:.1f} s, {cpu:.1f} s of processor time")
    gains = [one.wall_s / two.wall_s for one, two in zip(usages[1], usages[2], strict=True)]
    print(f"gain: {statistics.median(gains):.2f}")


if __name__ == "__main__":
    typer.run(main)
