"""Durations as the clock sees them: a timing model's results, scaled by a ratio and rounded to whole nanoseconds.

A duration is an integer number of nanoseconds: the nearest to the exact value of the double, ties to even. The float
product with 1e9 is rounded itself, so near a tie the integer is found with exact integer arithmetic.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from engines.timing.adjusted import added_prefill_ms
from engines.timing.model import AnyTimingModel
from engines.timing.sums import NO_DECODE, DecodeSums, PrefillSums
from messages.errors import ReplayError
from messages.spec import RankSpec

_NS = 10**9
_NEAR_TIE = 1e-6
# Up to 11 days, seconds -> nanoseconds is the exact inverse of nanoseconds -> seconds.
_SAFE_NS = 1e15
_LONG_MS = 1e9


def nanoseconds(seconds: float) -> int:
    """The integer nearest to `seconds` * 10**9, computed exactly, ties to even."""
    product = seconds * 1e9
    if product < 1e9:
        whole = math.floor(product)
        fraction = product - whole
        if abs(fraction - 0.5) > _NEAR_TIE:
            return whole + (fraction > 0.5)
    numerator, denominator = seconds.as_integer_ratio()
    whole, rest = divmod(numerator * _NS, denominator)
    if 2 * rest > denominator or (2 * rest == denominator and whole % 2):
        whole += 1
    return whole


def seconds(ns: int) -> float:
    """Nanoseconds as seconds, whole and fractional part converted separately."""
    return float(ns // _NS) + float(ns % _NS) / 1e9


def scaled(raw_ms: float, ratio: float) -> float:
    """A model's result in ms as the value added to the clock. A ratio of 0 leaves it unscaled."""
    ns = nanoseconds(raw_ms / 1000.0)
    if ratio > 0.0 and ns > 0 and (ratio != 1.0 or ns > _SAFE_NS):
        quotient = seconds(ns) / ratio
        if quotient == math.inf:
            raise ReplayError(f"a pass of {raw_ms} ms at a speed-up ratio of {ratio} has no finite duration")
        ns = nanoseconds(quotient)
    return seconds(ns) * 1000.0


def scaled_run(raw_ms: NDArray[np.float64], ratio: float) -> NDArray[np.float64]:
    """`scaled` for many results at once, equal to the last bit."""
    ns = _nanoseconds_run(raw_ms / 1000.0)
    if ratio > 0.0 and ratio != 1.0:
        ns = np.where(ns > 0, _nanoseconds_run(_seconds_run(ns) / ratio), ns)
    return _seconds_run(ns) * 1000.0


def _nanoseconds_run(values: NDArray[np.float64]) -> NDArray[np.float64]:
    product = values * 1e9
    whole = np.floor(product)
    fraction = product - whole
    ns = whole + (fraction > 0.5)
    # From one second on, the rounding of the product could hide a tie.
    unsure = np.nonzero((np.abs(fraction - 0.5) <= _NEAR_TIE) | (product >= 1e9))[0]
    for index in unsure.tolist():
        ns[index] = nanoseconds(float(values[index]))
    return ns


def _seconds_run(ns: NDArray[np.float64]) -> NDArray[np.float64]:
    whole = np.floor_divide(ns, 1e9)
    result: NDArray[np.float64] = whole + (ns - whole * 1e9) / 1e9
    return result


_CHUNK = 4096
_LARGEST_TABLE = 2**23
"""Entries; a table is filled only where it is used."""


class Durations:
    """Times of one rank's passes, ready to be added to the clock.

    capacity_tokens: tokens that the rank's KV cache holds.
    """

    def __init__(
        self, model: AnyTimingModel, speedup_ratio: float, decode_speedup_ratio: float, capacity_tokens: int
    ) -> None:
        self._model = model
        self._prefill_ratio = speedup_ratio
        self._decode_ratio = speedup_ratio * decode_speedup_ratio
        self._capacity_tokens = capacity_tokens
        self._knows_whole_passes = hasattr(model, "pass_ms")
        entries = min(capacity_tokens + 1, _LARGEST_TABLE) if model.tabulate else 0
        self._table = np.empty(entries)
        self._filled = bytearray(-(-entries // _CHUNK))

    @classmethod
    def of_rank(cls, rank: RankSpec, model: AnyTimingModel) -> Durations:
        """The durations of a rank as the spec describes it."""
        capacity_tokens = rank.num_gpu_blocks * rank.tokens_per_block
        return cls(model, rank.speedup_ratio, rank.decode_speedup_ratio, capacity_tokens)

    def end_ms(self, now_ms: float, prefill: PrefillSums, decode: DecodeSums) -> float:
        """When a pass ends that begins now; of either part there may be nothing."""
        if prefill.requests and decode.requests and self._knows_whole_passes:
            return now_ms + self._whole_ms(prefill, decode)
        prefill_ms = self.prefill_ms(*prefill) if prefill.requests else 0.0
        decode_ms = self.decode_ms(*decode) if decode.requests else 0.0
        return (now_ms + prefill_ms) + decode_ms

    def prefill_ms(self, count: int, isl: int, prefix: int) -> float:
        """Time for a prefill batch of `count` requests with `isl` tokens in all, `prefix` of them known already.

        The means are rounded down: where they coincide, it takes no time.
        """
        raw = added_prefill_ms(self._model, PrefillSums(count, isl, prefix), NO_DECODE, 0.0, self._capacity_tokens)
        return scaled(_valid(raw, "prefill"), self._prefill_ratio)

    def decode_ms(self, count: int, kv_tokens: int) -> float:
        """Time for one token each of `count` requests with `kv_tokens` in all."""
        if kv_tokens < len(self._table):
            if not self._filled[kv_tokens // _CHUNK]:
                self._fill(kv_tokens, kv_tokens)
            return self._table.item(kv_tokens)
        raw = self._model.decode_ms(count, kv_tokens, self._capacity_tokens)
        return scaled(_valid(raw, "decode"), self._decode_ratio)

    def decode_run_ms(self, count: int, kv_tokens: int, passes: int) -> NDArray[np.float64]:
        """`decode_ms` of `passes` passes in a row, each adding `count` tokens."""
        last = kv_tokens + count * (passes - 1)
        if last < len(self._table):
            if not all(self._filled[kv_tokens // _CHUNK : last // _CHUNK + 1]):
                self._fill(kv_tokens, last)
            return self._table[kv_tokens : last + 1 : count]
        return self._compute(count, np.arange(kv_tokens, last + 1, count))

    def _whole_ms(self, prefill: PrefillSums, decode: DecodeSums) -> float:
        """A pass with both parts, rounded once. What decodes and what prompts add to it have a ratio each."""
        model, capacity_tokens = self._model, self._capacity_tokens
        if self._prefill_ratio == self._decode_ratio and hasattr(model, "pass_ms"):
            return scaled(_valid(model.pass_ms(prefill, decode, capacity_tokens), "pass"), self._prefill_ratio)
        decode_ms = _valid(model.decode_ms(*decode, capacity_tokens), "decode")
        prefill_ms = _valid(added_prefill_ms(model, prefill, decode, decode_ms, capacity_tokens), "prefill")
        return scaled(prefill_ms / (self._prefill_ratio or 1.0) + decode_ms / (self._decode_ratio or 1.0), 1.0)

    def _fill(self, first: int, last: int) -> None:
        """Compute what the table lacks of the entries `first` to `last`, in whole chunks."""
        for chunk in range(first // _CHUNK, last // _CHUNK + 1):
            if not self._filled[chunk]:
                entries = np.arange(chunk * _CHUNK, min((chunk + 1) * _CHUNK, len(self._table)))
                self._table[entries[0] : entries[-1] + 1] = self._compute(1, entries)
                self._filled[chunk] = 1

    def _compute(self, count: int, tokens: NDArray[np.int64]) -> NDArray[np.float64]:
        raw = self._model.decode_run_ms(count, tokens, self._capacity_tokens)
        shortest, longest = raw.min(), raw.max()
        if not (shortest >= 0.0 and longest < _LONG_MS):
            return np.array([scaled(_valid(value, "decode"), self._decode_ratio) for value in raw.tolist()])
        return scaled_run(raw, self._decode_ratio)


def _valid(raw_ms: float, kind: str) -> float:
    if not 0.0 <= raw_ms < math.inf:
        raise ReplayError(
            f"the timing model returned an invalid {kind} duration of {raw_ms} ms; it must be finite and at least 0"
        )
    return raw_ms
