"""Comparing cases of the reference with runs of ours."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from actors import replay
from messages.errors import ReplayError
from tests.comparison import assert_same_rows, assert_same_summary
from tests.parity.reference import Reference, as_spec

ENDLESS = "no answer in time"
"""What is said of a case on which the reference goes on for ever."""


def compare(reference: Reference, cases: list[dict[str, Any]], folder: Path, *, seconds: float = 4.0) -> int:
    """Compare every case; returns on how many the reference gave a result, for which it has `seconds` each."""
    equal = 0
    for number, (case, theirs) in enumerate(zip(cases, reference.answers(cases, seconds), strict=True)):
        spec = as_spec(case, folder)
        try:
            if "error" in theirs:
                _check_where_the_reference_fails(spec, theirs["error"])
                continue
            # Within a time limit a run with a request that can never finish has a result there, as under `strict`.
            report = replay({**spec, "strict": "max_sim_time_ms" in spec})
            assert_same_rows(report, theirs["per_request"])
            assert_same_summary(report, theirs["summary"])
        except AssertionError as error:
            raise AssertionError(f"case {number} (seed {case['seed']}): {error}\n{spec}") from error
        equal += 1
    return equal


def _check_where_the_reference_fails(spec: dict[str, Any], error: str) -> None:
    """One request that can never finish ends the whole run there; here it does under `strict` only."""
    assert error == ENDLESS or "effect-free zero-duration pass" in error, error
    with pytest.raises(ReplayError) as raised:
        replay({**spec, "strict": True})
    assert "effect-free zero-duration pass" in str(raised.value) if error == ENDLESS else str(raised.value) == error
    report = replay(spec)
    assert report.requests is not None
    if "max_sim_time_ms" not in spec:
        assert len(report.requests) == report.summary["num_requests"]
        assert all(record.terminal_status is not None for record in report.requests)
    if not _only_patience_is_needed(spec):
        assert any(record.terminal_reason for record in report.requests)


def _only_patience_is_needed(spec: dict[str, Any]) -> bool:
    """Whether the request in question may well finish if the run goes on.

    A decode worker of SGLang fails the run there when it cannot do anything for the moment, though a hand-off under way
    or the end of another request helps it later.
    """
    return spec["topology"]["kind"] == "disaggregated" and spec["engine"]["decode"]["rank"]["backend"] == "sglang"
