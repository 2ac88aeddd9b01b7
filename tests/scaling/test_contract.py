"""What a scaling policy may answer, and what comes of everything else."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from actors import replay
from messages.errors import ReplayError
from tests.scenario import cluster

REQUESTS = [(700.0 * index, 600, 40) for index in range(6)]


def keep(next_tick_ms: Any, **targets: Any) -> dict[str, Any]:
    """A decision that changes nothing but what is named."""
    return {"target_prefill": None, "target_decode": None, "next_tick_ms": next_tick_ms, **targets}


class Policy:
    """Begins and answers as told; notes when it is asked."""

    def __init__(
        self, first: Any = 1000.0, answer: Callable[[float], Any] = lambda now_ms: keep(now_ms + 1000)
    ) -> None:
        self._first = first
        self._answer = answer
        self.asked_ms: list[float] = []

    def initial_tick_ms(self) -> Any:
        return self._first

    def on_tick(self, snapshot: dict[str, Any]) -> Any:
        self.asked_ms.append(snapshot["now_ms"])
        return self._answer(snapshot["now_ms"])


def run(policy: Any) -> None:
    spec = cluster(*REQUESTS, blocks=1000)
    spec["engine"]["rank"] |= {"block_size": 64, "timing_model": {"type": "polynomial"}}
    replay(spec, scaling_policy=policy)


@pytest.mark.parametrize(
    ("policy", "asked_ms"),
    [
        (Policy(first=math.inf), []),
        (Policy(first=math.nan), []),
        (Policy(first=-5.0), [0.0, 1000.0, 2000.0, 3000.0]),
        (Policy(first=0.0), [0.0, 1000.0, 2000.0, 3000.0]),
        (Policy(first=1000), [1000.0, 2000.0, 3000.0]),
        (Policy(answer=lambda now_ms: keep(None)), [1000.0]),
        (Policy(answer=lambda now_ms: keep(now_ms)), [1000.0]),
        (Policy(answer=lambda now_ms: keep(now_ms - 1)), [1000.0]),
        (Policy(answer=lambda now_ms: keep(math.inf)), [1000.0]),
        (Policy(answer=lambda now_ms: keep(now_ms + 1000, target_decode=True)), [1000.0, 2000.0, 3000.0]),
        (Policy(answer=lambda now_ms: keep(now_ms + 1000, target_prefill=7)), [1000.0, 2000.0, 3000.0]),
        (Policy(answer=lambda now_ms: keep(now_ms + 1000, target_decode=1)), [1000.0, 2000.0, 3000.0]),
    ],
)
def test_ticks(policy: Policy, asked_ms: list[float]) -> None:
    run(policy)
    assert policy.asked_ms == asked_ms


def boom(now_ms: float) -> Any:
    raise KeyError("boom")


@pytest.mark.parametrize(
    ("policy", "error", "text"),
    [
        (Policy(first="soon"), TypeError, "must be real number, not str"),
        (Policy(answer=lambda now_ms: None), TypeError, "'NoneType' object is not subscriptable"),
        (Policy(answer=lambda now_ms: {}), KeyError, "'target_prefill'"),
        (Policy(answer=lambda now_ms: {"target_prefill": None, "target_decode": None}), KeyError, "'next_tick_ms'"),
        (
            Policy(answer=lambda now_ms: keep(None, target_decode=-1)),
            OverflowError,
            "can't convert negative int to unsigned",
        ),
        (
            Policy(answer=lambda now_ms: keep(None, target_decode=1.5)),
            TypeError,
            "'float' object cannot be interpreted as an integer",
        ),
        (Policy(answer=boom), KeyError, "'boom'"),
        (object(), AttributeError, "'object' object has no attribute 'initial_tick_ms'"),
        (
            Policy(answer=lambda now_ms: keep(None, target_decode=0)),
            ReplayError,
            "placement policy error: no active workers for round-robin placement",
        ),
    ],
)
def test_errors_reach_the_caller_unchanged(policy: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error) as raised:
        run(policy)
    assert str(raised.value) == text


def test_ticks_that_would_go_on_for_ever() -> None:
    """Requests wait for a worker that the policy never adds: the run ends with an error."""
    spec = {
        **cluster((0.0, 8, 2)),
        "topology": {"kind": "disaggregated", "prefill": {"initial_workers": 1}, "decode": {"initial_workers": 1}},
    }
    policy = Policy(first=0.0, answer=lambda now_ms: keep(now_ms + 10, target_decode=0))
    with pytest.raises(ReplayError, match="reached a dead end with 1 in-flight requests remaining"):
        replay(spec, scaling_policy=policy)
