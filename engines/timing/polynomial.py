"""The built-in polynomial model."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


class PolynomialModel:
    """Prefill: quadratic in the new tokens. Decode: quadratic in the used share of the cache, at least 1 ms.

    The coefficients are the reference's; each operation is rounded in the order written.
    """

    tabulate = True

    def prefill_ms(self, count: int, mean_isl: int, mean_prefix: int) -> float:
        if count == 0 or mean_isl <= mean_prefix:
            return 0.0
        tokens = float(count * (mean_isl - mean_prefix))
        return (4.209989e-07 * (tokens * tokens) + 1.518344e-02 * tokens) + 1.650142e01

    def decode_ms(self, count: int, kv_tokens: int, capacity_tokens: int) -> float:
        used = min(float(kv_tokens) / float(capacity_tokens), 1.0)
        return max((-25.74 * (used * used) + 54.01 * used) + 5.74, 1.0)

    def decode_run_ms(self, count: int, kv_tokens: NDArray[np.int64], capacity_tokens: int) -> NDArray[np.float64]:
        used = np.minimum(kv_tokens / float(capacity_tokens), 1.0)
        return np.maximum((-25.74 * (used * used) + 54.01 * used) + 5.74, 1.0)
