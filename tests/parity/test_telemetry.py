"""Samples of random cases with ticks that change the number of workers, here and on the reference."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from actors import replay
from tests.parity.generator import sampled_case
from tests.parity.reference import Reference, as_spec
from tests.scaling.comparison import assert_like
from tests.scaling.policies import Scripted


@pytest.mark.parametrize("topology", ["aggregated", "disaggregated"])
@pytest.mark.parametrize("backend", ["vllm", "sglang", "trtllm"])
def test_random_samples(
    backend: str, topology: str, reference: Reference, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    first, count = request.config.getoption("--fuzz-first"), request.config.getoption("--fuzz-count") // 8
    cases = [sampled_case(backend, topology, seed) for seed in range(first, first + count)]
    equal = 0
    for case, theirs in zip(cases, reference.scaled_answers(cases, 2.0), strict=True):
        if "error" in theirs:
            continue
        spec = {**as_spec(case, tmp_path), "strict": True}
        spec["adapters"].pop("scaling")
        try:
            report = replay(spec, scaling_policy=Scripted(case["scaling"]))
            assert_like(msgspec.to_builtins(report.telemetry), theirs["telemetry"]["samples"], "samples")
        except AssertionError as error:
            raise AssertionError(f"seed {case['seed']}: {error}\n{spec}\n{case['scaling']}") from error
        equal += 1
    assert equal >= count * 2 // 3
