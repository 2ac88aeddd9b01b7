"""Tiny runs by hand: requests with their token times, without a simulation."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from actors.reporting.timeline import RequestTimeline, RunFigures, Timelines
from messages.passes import Admission
from messages.requests import RequestArrived, RequestRouted, Status
from messages.spec import Sla


def make_request(
    ordinal: int,
    *,
    arrival_ms: float = 0.0,
    input_length: int = 10,
    terminal_ms: float | None = None,
    status: Status | None = Status.COMPLETED,
    reused: tuple[int, ...] = (0,),
    reason: str | None = None,
    requested: int = 5,
    **arrived: Any,
) -> RequestTimeline:
    return RequestTimeline(
        arrived=RequestArrived(
            ordinal=ordinal,
            request_id=arrived.pop("request_id", f"request_{ordinal + 1}"),
            session_id=arrived.pop("session_id", None),
            turn_index=arrived.pop("turn_index", None),
            arrival_time_ms=arrival_ms,
            input_length=input_length,
            requested_output_length=requested,
            metadata=arrived.pop("metadata", None),
        ),
        routing=[RequestRouted(ordinal, "agg", 0, 0, 0)],
        admissions=[Admission(ordinal, arrival_ms + index, tokens) for index, tokens in enumerate(reused)],
        admission_pools=["agg"] * len(reused),
        terminal_time_ms=terminal_ms,
        status=status,
        reason=reason,
    )


def make_timelines(*runs: tuple[RequestTimeline, list[float]]) -> Timelines:
    """Every request has a log of its own."""
    offsets = np.cumsum([0, *(len(times) for _, times in runs)])
    times = np.array([time for _, times in runs for time in times], np.float64)
    some = np.diff(offsets) > 0
    return Timelines(
        [request for request, _ in runs], times, np.nonzero(some)[0], offsets[:-1][some], offsets[1:][some]
    )


def make_figures(**figures: Any) -> RunFigures:
    defaults = {
        "committed_prefill_tokens": 0,
        "worker_seconds": 0.0,
        "gpus_per_worker": 1,
        "wall_time_ms": 2.0,
        "sla": Sla(),
    }
    return RunFigures(**{**defaults, **figures})


@pytest.fixture(scope="session")
def request_timeline() -> Callable[..., RequestTimeline]:
    return make_request


@pytest.fixture(scope="session")
def timelines() -> Callable[..., Timelines]:
    return make_timelines


@pytest.fixture(scope="session")
def figures() -> Callable[..., RunFigures]:
    return make_figures


@pytest.fixture(scope="session")
def recorded_examples(shared: Path) -> Path:
    """The folder of recorded runs."""
    return shared / "spec" / "examples"
