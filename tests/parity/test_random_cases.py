"""Random cases, run here and on the reference: every request's timeline is equal to the last bit."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.parity.cases import compare
from tests.parity.generator import reference_cases, wider_case
from tests.parity.reference import Reference


@pytest.mark.parametrize(("backend", "ranks"), [("vllm", "one"), ("vllm", "several"), ("trtllm", "one")])
def test_cases_of_the_references_generator(
    backend: str, ranks: str, reference: Reference, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    first, count = request.config.getoption("--fuzz-first"), request.config.getoption("--fuzz-count")
    cases = reference_cases(backend, first, count, ranks=ranks)
    assert compare(reference, cases, tmp_path) == count


@pytest.mark.parametrize("backend", ["vllm", "trtllm"])
def test_cases_of_our_wider_generator(
    backend: str, reference: Reference, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    first, count = request.config.getoption("--fuzz-first"), request.config.getoption("--fuzz-count")
    cases = [wider_case(backend, seed, tmp_path) for seed in range(first, first + count)]
    assert compare(reference, cases, tmp_path) > count // 2
