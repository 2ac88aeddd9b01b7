"""Bounds of `--fail-if`: by how much a figure may change from the first run to another, or where it has to stay.

METRIC>+5%      more than 5 percent above the first run
METRIC<-0.5     more than 0.5 below the first run
METRIC>2000     above 2000, whatever the first run has
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import msgspec

from actors.comparison.metrics import Value, difference, percent, unknown_metric
from messages.comparison import BoundCheck
from messages.errors import InputError
from messages.report import Number

_GRAMMAR = re.compile(
    r"\s*(?P<key>[^\s<>=]+)\s*(?P<sign>[<>])\s*(?P<bound>[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?)\s*(?P<percent>%?)\s*"
)
_EXAMPLES = "for example p99_ttft_ms>+5%, output_throughput_tok_s<-3% or p99_itl_ms>50"


class Bound(msgspec.Struct, frozen=True):
    """A bound that a run breaks where its figure lies beyond.

    above: whether beyond is above. kind: what is compared with the limit: the value itself, or the difference to the
    first run as such or in percent of it.
    """

    text: str
    key: str
    above: bool
    limit: float
    kind: str

    def check(self, label: str, first: Value, other: Value, first_label: str) -> BoundCheck:
        """Judge a run. What cannot be judged counts as broken, so that nothing passes unseen."""
        return BoundCheck(self.text, label, self._finding(label, first, other, first_label))

    def _finding(self, label: str, first: Value, other: Value, first_label: str) -> str | None:
        for run, value in ((label, other), (first_label, first)):
            if not isinstance(value, int | float) and (run == label or self.kind != _VALUE):
                return f"cannot be checked: {self.key} has no value in {run}"
        assert isinstance(other, int | float)
        if self.kind == _VALUE:
            return f"{self.key} is {_text(other)} in {label}" if self._beyond(other) else None
        assert isinstance(first, int | float)
        change = difference(first, other) if self.kind == _DIFFERENCE else _percent(first, other)
        if not self._beyond(change):
            return None
        by = f"{change:+,.2f} %" if self.kind == _PERCENT else _text(change, sign="+")
        amount = f": {by}" if math.isfinite(change) else ""
        return f"{self.key} is {_text(other)} in {label} and {_text(first)} in {first_label}{amount}"

    def _beyond(self, value: Number) -> bool:
        return value > self.limit if self.above else value < self.limit


_VALUE, _DIFFERENCE, _PERCENT = "value", "difference", "percent"


def parse_bounds(texts: Sequence[str], figures: Sequence[Mapping[str, Value]]) -> list[Bound]:
    """Read bounds. Raises InputError with a finding for each that is malformed or names no number of any report."""
    numbers = dict.fromkeys(key for report in figures for key, value in report.items() if not isinstance(value, str))
    words = {key for report in figures for key in report} - set(numbers)
    bounds, findings = [], []
    for text in texts:
        parsed = _parse(text)
        if isinstance(parsed, str):
            findings.append(f"--fail-if {text}: {parsed}")
        elif parsed.key in words:
            findings.append(f"--fail-if {text}: {parsed.key} is text, not a number")
        elif parsed.key not in numbers:
            findings.append(f"--fail-if {text}: {unknown_metric(parsed.key, numbers)}")
        else:
            bounds.append(parsed)
    if findings:
        raise InputError(*findings)
    return bounds


def _parse(text: str) -> Bound | str:
    match = _GRAMMAR.fullmatch(text)
    if match is None:
        return f"expected METRIC>BOUND or METRIC<BOUND, {_EXAMPLES}"
    number, signed = match["bound"], match["bound"][0] in "+-"
    if match["percent"] and not signed:
        return f"a percentage is a change from the first run and needs a sign: +{number}% or -{number}%"
    limit = float(number)
    if not math.isfinite(limit):
        return f"the bound {number} is too large"
    kind = _PERCENT if match["percent"] else _DIFFERENCE if signed else _VALUE
    return Bound(text.strip(), match["key"], match["sign"] == ">", limit, kind)


def _percent(first: Number, other: Number) -> float:
    change = percent(first, other)
    return math.copysign(math.inf, other) if change is None else change


def _text(value: Number, sign: str = "") -> str:
    """Integers as they are, other numbers with up to four decimals."""
    return f"{value:{sign},d}" if isinstance(value, int) else f"{value:{sign},.4f}".rstrip("0").rstrip(".")
