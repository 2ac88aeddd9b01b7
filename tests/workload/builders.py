"""Small workloads for the scenarios of this directory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from actors.workload.loading import load_workload
from actors.workload.source import Workload
from messages.requests import Span
from messages.spec import ReplaySpec

JsonObject = dict[str, Any]


def replay_spec(workload: JsonObject | None = None, *, rank: JsonObject | None = None, **top_level: Any) -> ReplaySpec:
    """Return a spec with one worker and small blocks."""
    document: JsonObject = {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"rank": {"block_size": 4, "num_gpu_blocks": 1000, **(rank or {})}},
        **top_level,
    }
    if workload is not None:
        document["workload"] = workload
    return msgspec.convert(document, ReplaySpec)


def write_trace(directory: Path, rows: Sequence[JsonObject | str]) -> Path:
    """Write rows, given as objects or as raw lines, to `trace.jsonl`."""
    path = directory / "trace.jsonl"
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def load_rows(
    directory: Path,
    rows: Sequence[JsonObject | str],
    *,
    rank: JsonObject | None = None,
    max_in_flight: int | None = None,
    **source: Any,
) -> Workload:
    """Load a trace of blocks of 8 tokens, unless `source` says otherwise."""
    write_trace(directory, rows)
    workload = {"kind": "trace", "path": "trace.jsonl", "block_size": 8, **source}
    return load_workload(replay_spec(workload, rank=rank, max_in_flight=max_in_flight), directory)


def row(**fields: Any) -> JsonObject:
    """Return a sound row: 10 prompt tokens of two hash ids, 2 output tokens, at time 0. `None` removes a field."""
    sound = {"timestamp": 0, "input_length": 10, "output_length": 2, "hash_ids": [1, 2]}
    return {name: value for name, value in {**sound, **fields}.items() if value is not None}


def spelled_out(spans: tuple[Span, ...]) -> list[int]:
    """Return the identity of every block."""
    return [identity for start, end in spans for identity in range(start, end)]


def shared_blocks(left: tuple[Span, ...], right: tuple[Span, ...]) -> int:
    """Return how many leading blocks two prompts have in common."""
    count = 0
    for mine, other in zip(spelled_out(left), spelled_out(right), strict=False):
        if mine != other:
            break
        count += 1
    return count
