"""Random ticks that change the number of workers, here and on the reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from actors import replay
from messages.errors import ReplayError
from tests.comparison import assert_same_rows, assert_same_summary
from tests.parity.cases import ENDLESS
from tests.parity.generator import scaled_case
from tests.parity.reference import Reference, as_spec
from tests.scaling.comparison import assert_like, assert_same_operations
from tests.scaling.policies import Scripted

FIELDS = (
    "session_id",
    "turn_index",
    "arrival_time_ms",
    "input_length",
    "output_length",
    "first_admit_ms",
    "first_token_ms",
    "last_token_ms",
    "terminal_time_ms",
    "terminal_status",
    "reused_input_tokens",
    "prefill_worker_idx",
    "decode_worker_idx",
    "source_held_ms",
    "destination_reserved_ms",
    "destination_activated_ms",
    "source_released_ms",
)


@pytest.mark.parametrize("topology", ["aggregated", "disaggregated"])
@pytest.mark.parametrize("backend", ["vllm", "sglang", "trtllm"])
def test_random_ticks(
    backend: str, topology: str, reference: Reference, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    first, count = request.config.getoption("--fuzz-first"), request.config.getoption("--fuzz-count") // 4
    cases = [scaled_case(backend, topology, seed) for seed in range(first, first + count)]
    equal = 0
    for case, theirs in zip(cases, reference.scaled_answers(cases, 2.0), strict=True):
        spec = {**as_spec(case, tmp_path), "strict": True}
        spec["adapters"].pop("scaling")
        policy = Scripted(case["scaling"])
        try:
            if "error" in theirs:
                with pytest.raises(ReplayError) as raised:
                    replay(spec, scaling_policy=policy)
                assert theirs["error"] == ENDLESS or str(raised.value) == theirs["error"]
                continue
            report = replay(spec, scaling_policy=policy)
            assert_same_rows(report, [{field: row[field] for field in FIELDS} for row in theirs["per_request"]])
            assert_same_summary(report, theirs["summary"])
            assert_same_operations(report, theirs["operations"])
            assert_like(policy.snapshots, theirs["snapshots"], "snapshots")
        except AssertionError as error:
            raise AssertionError(f"seed {case['seed']}: {error}\n{spec}\n{case['scaling']}") from error
        equal += 1
    assert equal >= count * 2 // 3
