"""`actors.replay`: the way in for Python programs and notebooks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from actors import replay
from actors.routing.round_robin import RoundRobin
from messages.errors import InputError
from tests.scenario import cluster, two_pools


def test_an_unknown_runtime_is_named_with_the_known_ones() -> None:
    runtime: Any = "bogus"
    with pytest.raises(ValueError, match=r"runtime: expected 'cooperative' or 'threads', got 'bogus'"):
        replay(cluster((0.0, 4, 1)), runtime=runtime)


def test_values_may_be_those_of_numpy() -> None:
    """As a loop over `np.arange` or a row of a table gives them."""
    for workers in np.arange(1, 3):
        spec = cluster((0.0, 4, 2), (0.0, 4, 2), workers=int(workers))
        given = cluster((np.float64(0.0), np.int64(4), np.int32(2)), (np.float32(0.0), 4, 2), workers=workers)
        report = replay({**given, "strict": np.bool_(True)})
        assert report.requests == replay({**spec, "strict": True}).requests


def test_a_policy_for_two_pools_is_refused() -> None:
    with pytest.raises(InputError, match=r"^placement: a policy of your own is for an aggregated topology"):
        replay(two_pools(cluster((0.0, 4, 1))), placement=RoundRobin())


def test_faults_of_a_workload_name_the_document() -> None:
    workload = {"kind": "trace", "path": "none.jsonl", "arrival_speedup_ratio": 0}
    with pytest.raises(InputError, match=r"^spec: workload\.arrival_speedup_ratio: expected a finite number > 0"):
        replay({"topology": {"kind": "aggregated", "workers": {"initial_workers": 1}}, "workload": workload})
