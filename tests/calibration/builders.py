"""A small cluster with a known timing, and the requests that it would have been measured with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec

from actors import replay

REQUESTS = 120


def document(timing: dict[str, Any], *, gap_ms: float = 160.0) -> dict[str, Any]:
    """A spec of one worker and requests of varied lengths that arrive irregularly, `gap_ms` apart in the mean."""
    requests = []
    arrival = 0.0
    for number in range(REQUESTS):
        requests.append(
            {
                "id": f"r{number}",
                "arrival_time_ms": arrival,
                "input_tokens": 200 + 37 * (number * 17 % 41),
                "output_tokens": 20 + number * 29 % 83,
            }
        )
        arrival += gap_ms * (0.25 + (number * 11 % 16) / 10.0)
    rank = {"num_gpu_blocks": 4096, "block_size": 16, "max_num_seqs": 16, "timing_model": timing}
    return {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"rank": rank},
        "requests": requests,
    }


def write_spec(folder: Path, timing: dict[str, Any], **options: float) -> Path:
    """Write the spec to calibrate."""
    path = folder / "spec.json"
    path.write_text(json.dumps(document(timing, **options)))
    return path


def write_measured(folder: Path, timing: dict[str, Any], **options: float) -> Path:
    """Write what the same cluster measures where passes take the times of another timing model."""
    report = replay(document(timing, **options))
    assert report.requests is not None
    path = folder / "measured.jsonl"
    path.write_bytes(msgspec.json.Encoder().encode_lines(report.requests))
    return path


def largest_error(errors: Any) -> float:
    """The largest error of a part in percent."""
    tables = (errors.ttft_ms, errors.tpot_ms, errors.e2e_latency_ms)
    return max(abs(entry.error_percent) for table in tables for entry in table.values())
