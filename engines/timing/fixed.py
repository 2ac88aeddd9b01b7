"""Constant pass durations."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class FixedModel:
    """The same prefill and the same decode time (ms) for every non-empty batch."""

    tabulate = True

    def __init__(self, prefill_ms: float, decode_ms: float) -> None:
        self._prefill_ms = prefill_ms
        self._decode_ms = decode_ms

    def prefill_ms(self, count: int, mean_isl: int, mean_prefix: int) -> float:
        return self._prefill_ms

    def decode_ms(self, count: int, kv_tokens: int, capacity_tokens: int) -> float:
        return self._decode_ms

    def decode_run_ms(self, count: int, kv_tokens: NDArray[np.int64], capacity_tokens: int) -> NDArray[np.float64]:
        return np.full(len(kv_tokens), self._decode_ms)
