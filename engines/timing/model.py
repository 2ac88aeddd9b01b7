"""The protocol of a timing model, and the table that builds one from the spec."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engines.timing.fixed import FixedModel
from engines.timing.polynomial import PolynomialModel
from engines.timing.profile import ProfileModel
from messages import spec

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class TimingModel(Protocol):
    """Pure functions from the size of a batch to raw milliseconds, before speed-up ratios and rounding.

    tabulate: `decode_ms` depends on `kv_tokens` alone, for a given capacity, so its results may be kept in a table.
    """

    tabulate: bool

    def prefill_ms(self, count: int, mean_isl: int, mean_prefix: int) -> float:
        """Time to compute `count` prompts of `mean_isl` tokens, of which `mean_prefix` are known already."""
        ...

    def decode_ms(self, count: int, kv_tokens: int, capacity_tokens: int) -> float:
        """Time for one token each of `count` requests that hold `kv_tokens` in a cache of `capacity_tokens`."""
        ...

    def decode_run_ms(self, count: int, kv_tokens: Ints, capacity_tokens: int) -> Floats:
        """`decode_ms` for a run of passes of the same `count` requests, a value per element of `kv_tokens`."""
        ...


def build_timing(model: spec.TimingModel, base_dir: Path) -> TimingModel:
    """The model that the spec names; a profile's path is relative to `base_dir`.

    Raises:
        InputError: the profile cannot be read or does not have the documented arrays.
    """
    if isinstance(model, spec.FixedTiming):
        return FixedModel(model.prefill_ms, model.decode_ms)
    if isinstance(model, spec.ExternalTiming):
        return ProfileModel.load(base_dir / model.config.path)
    return PolynomialModel()
