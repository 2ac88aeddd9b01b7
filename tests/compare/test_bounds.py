"""Bounds of `--fail-if`: what they say, and when a run breaks them."""

from __future__ import annotations

import re
from typing import Any

import pytest

from actors.comparison.bounds import parse_bounds
from messages.errors import InputError

FIGURES: dict[str, Any] = {"p99_ttft_ms": 100.0, "completed_requests": 10, "policy": "lru", "power_w": None, "zero": 0}


def finding(text: str, first: Any, other: Any) -> str | None:
    (bound,) = parse_bounds([text], [FIGURES])
    check = bound.check("B", first, other, "A")
    assert (check.bound, check.run) == (text.strip(), "B")
    return check.finding


@pytest.mark.parametrize(
    ("text", "first", "other", "expected"),
    [
        ("p99_ttft_ms>+5%", 100.0, 105.0, None),
        ("p99_ttft_ms>+5%", 100.0, 106.0, "p99_ttft_ms is 106 in B and 100 in A: +6.00 %"),
        ("p99_ttft_ms>+5%", 100.0, 50.0, None),
        ("p99_ttft_ms > -10 %", 100.0, 95.0, "p99_ttft_ms is 95 in B and 100 in A: -5.00 %"),
        ("p99_ttft_ms<-2.5%", 100.0, 97.0, "p99_ttft_ms is 97 in B and 100 in A: -3.00 %"),
        ("p99_ttft_ms>+0%", 0.3, 0.1 + 0.2, None),
        ("completed_requests<-0", 10, 9, "completed_requests is 9 in B and 10 in A: -1"),
        ("completed_requests<-1", 10, 9, None),
        ("p99_ttft_ms>+1e1", 100.0, 110.5, "p99_ttft_ms is 110.5 in B and 100 in A: +10.5"),
        ("p99_ttft_ms>2000", 3000.0, 2000.0, None),
        ("p99_ttft_ms>2000", None, 2000.5, "p99_ttft_ms is 2,000.5 in B"),
        ("completed_requests<10", 5, 9, "completed_requests is 9 in B"),
        ("zero>+5%", 0, 0, None),
        ("zero>+5%", 0, 1, "zero is 1 in B and 0 in A"),
        ("zero<-5%", 0, 1, None),
        ("power_w>5", None, None, "cannot be checked: power_w has no value in B"),
        ("p99_ttft_ms>+5%", None, 4.0, "cannot be checked: p99_ttft_ms has no value in A"),
    ],
)
def test_bounds(text: str, first: Any, other: Any, expected: str | None) -> None:
    assert finding(text, first, other) == expected


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "expected METRIC>BOUND or METRIC<BOUND, for example p99_ttft_ms>+5%, "),
        ("p99_ttft_ms", "expected METRIC>BOUND"),
        ("p99_ttft_ms>", "expected METRIC>BOUND"),
        ("p99_ttft_ms>=5", "expected METRIC>BOUND"),
        ("p99_ttft_ms>five", "expected METRIC>BOUND"),
        ("p99_ttft_ms>+5%%", "expected METRIC>BOUND"),
        ("p99_ttft_ms>5%", "a percentage is a change from the first run and needs a sign: +5% or -5%"),
        ("p99_ttft_ms>1e999", "the bound 1e999 is too large"),
        ("p99_tft_ms>+5%", "no report has such a metric; did you mean p99_ttft_ms?"),
        ("nonsense>+5%", "no report has such a metric; give a key of report.json"),
        ("policy>1", "policy is text, not a number"),
    ],
)
def test_bounds_that_say_nothing(text: str, problem: str) -> None:
    with pytest.raises(InputError, match=re.escape(problem)) as caught:
        parse_bounds([text, "power_w>3"], [FIGURES])
    assert [line.startswith(f"--fail-if {text}: ") for line in caught.value.findings] == [True]
