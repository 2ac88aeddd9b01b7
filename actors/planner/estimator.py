"""The performance model: how long a forward pass takes, learned from passes that were seen."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

from actors.planner.regression import Fit, Point, fit
from actors.planner.samples import Sample, SampleGrid

EngineRole = Literal["prefill", "decode", "aggregated"]

_SHORTEST_MS = 1e-6


class PassShape(NamedTuple):
    """What a pass does: requests and fresh tokens of prompts, KV that these find, requests and KV of generation."""

    num_prefill: int = 0
    prefill_tokens: int = 0
    prefill_kv: int = 0
    num_decode: int = 0
    decode_kv: int = 0

    @property
    def is_empty(self) -> bool:
        """Whether the pass does nothing."""
        return self.prefill_tokens == 0 and self.num_decode == 0


class PassEstimator(Protocol):
    """Answers how long passes take."""

    def estimate_ms(self, shape: PassShape) -> float | None:
        """Duration of a pass in ms, 0 for one that does nothing; None if the estimator cannot tell yet."""


class PassError(ValueError):
    """A pass that the model of this role cannot hold."""


class ForwardPassModel:
    """Regression of pass durations on attention and token counts, a store of samples per kind of pass.

    capacity: samples per store; cells: regions by which a store keeps its variety; min_observations: samples before a
    store answers.
    """

    def __init__(self, role: EngineRole, capacity: int, cells: int, min_observations: int) -> None:
        self._role = role
        self._min_observations = min_observations
        kinds = {"prefill": ("prefill",), "decode": ("decode",), "aggregated": ("prefill", "decode", "mixed")}[role]
        self._stores = {kind: _Store(capacity, cells, min_observations) for kind in kinds}

    @property
    def is_ready(self) -> bool:
        """Whether the model can answer for some kind of pass."""
        return any(store.fit is not None for store in self._stores.values())

    def learn(self, passes: Sequence[tuple[PassShape, float]]) -> None:
        """Learn passes, each with its duration in ms; those that do nothing or took no time teach nothing.

        Raises PassError if one of them cannot be in this role; then none is learned.
        """
        for shape, _ in passes:
            self._check(shape)
        for shape, duration_ms in passes:
            if not shape.is_empty and math.isfinite(duration_ms) and duration_ms > 0:
                self._store(shape).add(Sample(self._regressors(shape), duration_ms))

    def estimate_ms(self, shape: PassShape) -> float | None:
        """Duration of a pass in ms, 0 for one that does nothing; None if such passes are not known yet.

        Raises PassError if the pass cannot be in this role.
        """
        self._check(shape)
        if shape.is_empty:
            return 0.0
        known = self._store(shape).fit
        return None if known is None else max(_SHORTEST_MS, known.at(self._regressors(shape)))

    def _check(self, shape: PassShape) -> None:
        if shape.num_prefill == 0 and (shape.prefill_tokens or shape.prefill_kv):
            raise PassError("prompt tokens without a request")
        if shape.num_decode == 0 and shape.decode_kv:
            raise PassError("decode KV tokens without a request")
        if self._role == "prefill" and shape.num_decode:
            raise PassError("decode requests in a prefill worker")
        if self._role == "decode" and shape.prefill_tokens:
            raise PassError("prompt tokens in a decode worker")

    def _store(self, shape: PassShape) -> _Store:
        if shape.prefill_tokens and shape.num_decode:
            return self._stores["mixed"]
        return self._stores["prefill" if shape.prefill_tokens else "decode"]

    def _regressors(self, shape: PassShape) -> Point:
        """Tokens that attention reads, and tokens that are computed."""
        fresh, requests = shape.prefill_tokens, shape.num_prefill
        attention = 0.0
        if fresh:
            pairs = shape.prefill_kv * fresh / requests + fresh**2 / (2 * requests) + fresh / 2
            attention = shape.prefill_kv + pairs
        return attention + shape.decode_kv, float(fresh + shape.num_decode)


class _Store:
    """Samples of one kind of pass and the plane through them."""

    def __init__(self, capacity: int, cells: int, min_observations: int) -> None:
        self._grid = SampleGrid(capacity, cells)
        self._min_observations = min_observations
        self._fit: Fit | None = None
        self._is_fitted = True

    def add(self, sample: Sample) -> None:
        self._grid.add(sample)
        self._is_fitted = False

    @property
    def fit(self) -> Fit | None:
        """The plane, made when it is asked for; None as long as there is too little to tell."""
        if not self._is_fitted:
            samples = self._grid.samples
            enough = len(samples) >= self._min_observations
            points, values = [sample.point for sample in samples], [sample.value_ms for sample in samples]
            self._fit = fit(points, values) if enough else None
            self._is_fitted = True
        return self._fit
