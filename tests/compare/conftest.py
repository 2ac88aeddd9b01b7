"""Runs to compare: small replays, and records by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from actors.cli import main
from messages.report import RequestRecord

Replayed = Callable[..., Path]


def request(identity: str, at_ms: float = 0.0, tokens: int = 100, **parts: Any) -> dict[str, Any]:
    return {"id": identity, "arrival_time_ms": at_ms, "input_tokens": tokens, "output_tokens": 3, **parts}


def document(**parts: Any) -> dict[str, Any]:
    """A spec of two requests on one worker whose passes take 10 ms and 1 ms."""
    timing = {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 1.0}
    return {
        "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
        "engine": {"rank": {"timing_model": timing}},
        "requests": [request("a"), request("b", 5.0)],
        **parts,
    }


@pytest.fixture
def replayed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Replayed:
    """A function that replays `document(**parts)` into a directory and returns it."""

    def replay(name: str, *options: str, **parts: Any) -> Path:
        spec = tmp_path / f"{name}.json"
        spec.write_text(json.dumps(document(**parts)))
        assert main(["replay", str(spec), "--quiet", "--output-dir", str(tmp_path / name), *options]) == 0
        capsys.readouterr()
        return tmp_path / name

    return replay


def record(request_id: str = "a", **parts: Any) -> RequestRecord:
    """A completed request that begins at 0, with a first token at 10 ms and an end at 30 ms."""
    fields: dict[str, Any] = dict.fromkeys(RequestRecord.__struct_fields__)
    return RequestRecord(
        **{
            **fields,
            "request_id": request_id,
            "arrival_time_ms": 0.0,
            "terminal_time_ms": 30.0,
            "ttft_ms": 10.0,
            "itl_ms": 2.0,
            "e2e_latency_ms": 30.0,
            "input_length": 100,
            "requested_output_length": 11,
            "output_length": 11,
            "routing_history": [],
            "admission_history": [],
            "terminal_status": "completed",
            **parts,
        }
    )
