"""How much work a run is, counted instead of timed: messages and engine calls on the built-in example."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import actors
from actors import replay
from messages.envelope import Envelope

EXAMPLE = Path(actors.__file__).parent / "examples" / "aggregated" / "spec.json"


def test_messages_and_passes_of_the_example_stay_within_their_budget() -> None:
    kinds: Counter[str] = Counter()
    passes = 0

    def count(envelope: Envelope) -> None:
        nonlocal passes
        kinds[type(envelope.message).__name__] += 1
        if type(envelope.message).__name__ == "PassCompleted":
            passes += envelope.message.passes

    report = replay(EXAMPLE, observe=count)
    requests = report.summary["num_requests"]
    assert requests == 300
    # Four messages bring a request to its worker, beside the client's alarms.
    for kind in ("RequestArrived", "PlaceRequest", "RequestRouted", "Dispatch"):
        assert kinds[kind] == requests
    assert kinds["ReleaseArrivals"] <= requests
    # Thousands of passes, of which runs make a few per request: a start and an end each are all the engine's calls.
    assert passes > 9_000
    assert kinds["StartPass"] <= 5 * requests
    assert kinds["PassCompleted"] <= kinds["StartPass"]
    assert sum(kinds.values()) <= 22 * requests
