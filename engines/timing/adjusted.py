"""A timing model with its times scaled, and a constant added to every pass."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from engines.timing.sums import DecodeSums, PrefillSums
from messages.spec import Adjustment

if TYPE_CHECKING:
    from engines.timing.model import AnyTimingModel


class AdjustedModel:
    """Implements `WholePassModel`: `overhead + decode_scale * decode + prefill_scale * (whole - decode)`.

    `decode` is what the inner model gives for the decoding requests alone, `whole` for all of the pass; of a model that
    has no times of whole passes it is the sum of its two parts.
    """

    def __init__(self, model: AnyTimingModel, adjustment: Adjustment) -> None:
        self._model = model
        self._adjustment = adjustment
        self.tabulate = model.tabulate

    def pass_ms(self, prefill: PrefillSums, decode: DecodeSums, capacity_tokens: int) -> float:
        decode_ms = (
            self._model.decode_ms(decode.requests, decode.kv_tokens, capacity_tokens) if decode.requests else 0.0
        )
        prefill_ms = added_prefill_ms(self._model, prefill, decode, decode_ms, capacity_tokens)
        return self._adjustment.pass_overhead_ms + (
            self._adjustment.decode_scale * decode_ms + self._adjustment.prefill_scale * prefill_ms
        )

    def decode_ms(self, count: int, kv_tokens: int, capacity_tokens: int) -> float:
        raw = self._model.decode_ms(count, kv_tokens, capacity_tokens)
        return self._adjustment.pass_overhead_ms + self._adjustment.decode_scale * raw

    def decode_run_ms(self, count: int, kv_tokens: NDArray[np.int64], capacity_tokens: int) -> NDArray[np.float64]:
        raw = self._model.decode_run_ms(count, kv_tokens, capacity_tokens)
        adjusted: NDArray[np.float64] = self._adjustment.pass_overhead_ms + self._adjustment.decode_scale * raw
        return adjusted

    def warnings(self) -> list[str]:
        """Those of the inner model."""
        return model_warnings(self._model)


def model_warnings(model: AnyTimingModel) -> list[str]:
    """What a model has to say about the times it was asked for."""
    tell = getattr(model, "warnings", None)
    return tell() if tell is not None else []


def added_prefill_ms(
    model: AnyTimingModel, prefill: PrefillSums, decode: DecodeSums, decode_ms: float, capacity_tokens: int
) -> float:
    """What the prompt tokens of a pass add to the time of its decoding requests, which is `decode_ms`, at least 0."""
    count, isl, prefix = prefill
    if isl <= prefix:
        return 0.0
    if hasattr(model, "pass_ms"):
        return max(model.pass_ms(prefill, decode, capacity_tokens) - decode_ms, 0.0)
    # The means are rounded down: where they coincide, it takes no time.
    if isl // count <= prefix // count:
        return 0.0
    return model.prefill_ms(count, isl // count, prefix // count)
