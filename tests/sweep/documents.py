"""Sweeps for tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

BLOCKS = "engine.rank.num_gpu_blocks"
WORKERS = "topology.workers.initial_workers"

ONE_REQUEST: dict[str, Any] = {
    "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
    "engine": {"rank": {"block_size": 64}},
    "requests": [{"id": "a", "arrival_time_ms": 0.0, "input_tokens": 1000, "output_tokens": 50}],
}

TRACE_ROWS = [
    {"timestamp": 100 * index, "input_length": 600, "output_length": 20, "hash_ids": [2 * index, 2 * index + 1]}
    for index in range(8)
]

SLOW: dict[str, Any] = {
    "base": {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 2}},
        "workload": {
            "kind": "synthetic",
            "input_tokens": 500,
            "output_tokens": 200,
            "request_count": 1000,
            "request_rate": 30.0,
        },
    },
    "axes": {BLOCKS: [1000 + 500 * index for index in range(8)]},
    "objective": {"key": "gpu_hours", "goal": "min"},
}
"""Points that take long enough to be caught at work."""


def write_sweep(folder: Path, document: dict[str, Any], name: str = "sweep.json") -> Path:
    """Write a sweep; return its path."""
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def write_trace(folder: Path, rows: list[dict[str, Any]] = TRACE_ROWS, name: str = "trace.jsonl") -> None:
    """Write a Mooncake trace."""
    (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def trace_spec() -> dict[str, Any]:
    """A spec that names that trace."""
    return {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "workload": {"kind": "trace", "path": "trace.jsonl"},
    }


def start_command(*arguments: object, cwd: Path) -> subprocess.Popen[str]:
    """Start the command in a process group of its own, as a shell does."""
    return subprocess.Popen(
        [sys.executable, "-m", "actors.cli", *map(str, arguments)],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])},
    )


def lines(path: Path) -> list[dict[str, Any]]:
    """The objects of a JSON Lines file."""
    return [json.loads(line) for line in path.read_text().splitlines()]
