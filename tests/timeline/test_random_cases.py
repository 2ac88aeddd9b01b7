"""Random cases of all kinds: timelines keep the rules, agree with the records, and change no result."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from actors import replay
from messages.errors import ReplayError
from messages.report import ReplayReport
from tests.parity.generator import reference_cases, sampled_case, wider_case, wider_pools_case
from tests.parity.reference import as_spec
from tests.parity.router_cases import lone_worker_case, several_workers_case
from tests.timeline.test_examples import check_requests, results
from tests.timeline.trace_format import check, load


@pytest.mark.parametrize("step", [False, True], ids=["jumping", "step"])
@pytest.mark.parametrize("backend", ["vllm", "sglang", "trtllm"])
def test_random_cases(backend: str, step: bool, shared: Path, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    if str(shared / "reference") not in sys.path:
        sys.path.insert(0, str(shared / "reference"))
    first, count = request.config.getoption("--fuzz-first"), request.config.getoption("--fuzz-count") // 20
    runs = 0
    for case in _cases(backend, range(first, first + count), tmp_path):
        spec = as_spec(case, tmp_path)
        plain = _report(spec, step=step)
        if plain is not None:
            path = tmp_path / "timeline.json"
            assert results(replay(spec, step=step, timeline=path)) == results(plain)
            document = load(path)
            check(document)
            check_requests(document["traceEvents"], plain)
            runs += 1
    assert runs > 5 * count


def _cases(backend: str, seeds: range, folder: Path) -> list[dict[str, Any]]:
    cases = []
    for ranks in ("one", "several"):
        for topology in ("aggregated", "disaggregated"):
            cases += reference_cases(backend, seeds.start, len(seeds), ranks=ranks, topology=topology)
    for seed in seeds:
        cases += [
            wider_case(backend, seed, folder),
            wider_pools_case(backend, seed),
            sampled_case(backend, "aggregated", seed),
            sampled_case(backend, "disaggregated", seed),
            lone_worker_case(backend, seed, "disaggregated"),
            several_workers_case(backend, seed),
        ]
    return cases


def _report(spec: dict[str, Any], *, step: bool) -> ReplayReport | None:
    try:
        return replay(spec, step=step)
    except ReplayError:
        return None
