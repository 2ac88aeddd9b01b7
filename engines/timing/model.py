"""The protocols of timing models, and the table that builds one from the spec."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from engines.timing.adjusted import AdjustedModel
from engines.timing.calibration import read_calibration
from engines.timing.fixed import FixedModel
from engines.timing.polynomial import PolynomialModel
from engines.timing.profile import ProfileModel
from engines.timing.sums import DecodeSums, PrefillSums
from engines.timing.table import TableModel
from messages import spec

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class DecodeModel(Protocol):
    """What all timing models have: times of passes in which all requests decode.

    Timing models are pure functions from the size of a batch to raw milliseconds, before speed-up ratios and rounding.

    tabulate: `decode_ms` depends on `kv_tokens` alone, for a given capacity, so its results may be kept in a table.
    """

    tabulate: bool

    def decode_ms(self, count: int, kv_tokens: int, capacity_tokens: int) -> float:
        """Time for one token each of `count` requests that hold `kv_tokens` in a cache of `capacity_tokens`."""
        ...

    def decode_run_ms(self, count: int, kv_tokens: Ints, capacity_tokens: int) -> Floats:
        """`decode_ms` for a run of passes of the same `count` requests, a value per element of `kv_tokens`.

        Each element holds `count` tokens more than the one before it, unless the model may be tabulated.
        """
        ...


class TimingModel(DecodeModel, Protocol):
    """A model whose prefill and decode times add up."""

    def prefill_ms(self, count: int, mean_isl: int, mean_prefix: int) -> float:
        """Time to compute `count` prompts of `mean_isl` tokens, of which `mean_prefix` are known already."""
        ...


class WholePassModel(DecodeModel, Protocol):
    """A model that knows what a pass takes in which some requests prefill while others decode."""

    def pass_ms(self, prefill: PrefillSums, decode: DecodeSums, capacity_tokens: int) -> float:
        """Time of a pass that computes prompt tokens; `decode` may be empty."""
        ...


AnyTimingModel = TimingModel | WholePassModel


def build_timing(model: spec.TimingModel, base_dir: Path) -> AnyTimingModel:
    """The model that the spec names; paths in it are relative to `base_dir`.

    Raises:
        InputError: a file cannot be read or does not hold what is documented, or a package is not installed.
    """
    if isinstance(model, spec.FixedTiming):
        return _adjusted(FixedModel(model.prefill_ms, model.decode_ms), model.adjust)
    if isinstance(model, spec.ExternalTiming):
        return _adjusted(ProfileModel.load(base_dir / model.config.path), model.adjust)
    if isinstance(model, spec.AiconfiguratorTiming):
        from engines.timing.aiconfigurator import AiconfiguratorModel

        return _adjusted(AiconfiguratorModel(model), model.adjust)
    if isinstance(model, spec.TableTiming):
        return _adjusted(TableModel.load(base_dir / model.path), model.adjust)
    if isinstance(model, spec.CalibratedTiming):
        path = base_dir / model.path
        calibration = read_calibration(path)
        return _adjusted(build_timing(calibration.timing_model, path.parent), calibration.adjust)
    return _adjusted(PolynomialModel(), model.adjust)


def request_overhead_ms(model: spec.TimingModel, base_dir: Path) -> float:
    """What the adjustment of a timing model adds between the arrival of a request and its entry into the cluster.

    Raises InputError where the calibration that the spec names cannot be read.
    """
    if isinstance(model, spec.CalibratedTiming):
        return read_calibration(base_dir / model.path).adjust.request_overhead_ms
    return model.adjust.request_overhead_ms if model.adjust is not None else 0.0


def _adjusted(model: AnyTimingModel, adjustment: spec.Adjustment | None) -> AnyTimingModel:
    return model if adjustment is None else AdjustedModel(model, adjustment)
