"""Step times of a known model on a known GPU, as aiconfigurator-core estimates them from its measurements."""

from __future__ import annotations

import functools

import numpy as np
from numpy.typing import NDArray

from engines.timing.aiconfigurator_package import (
    Deployment,
    forward_pass_ms,
    native_model,
    resolve_model,
    resolve_version,
)
from engines.timing.contexts import ContextTables
from engines.timing.sums import DecodeSums, PrefillSums
from messages.spec import AiconfiguratorTiming


def deployment_of(timing: AiconfiguratorTiming) -> Deployment:
    """What a spec means, where a backend is given. Raises InputError for names without data; sizes default to 1."""
    backend = timing.backend or "vllm"
    model = resolve_model(timing.model)
    return Deployment(
        model=model,
        system=timing.system,
        backend=backend,
        backend_version=resolve_version(timing.system, backend, timing.backend_version),
        tensor_parallel_size=timing.tensor_parallel_size or 1,
        attention_dp_size=timing.attention_dp_size or 1,
        expert_parallel_size=timing.expert_parallel_size,
    )


class AiconfiguratorModel:
    """Implements `WholePassModel`.

    A pass in which all requests decode depends on their number and their mean context, rounded down; its times come
    from `ContextTables`. All others are asked for one by one.

    Raises:
        InputError: the package is not installed, or has no data of what the spec names.
    """

    tabulate = False

    def __init__(self, timing: AiconfiguratorTiming) -> None:
        self.deployment = deployment_of(timing)
        self._native = native_model(self.deployment)
        self._tables = _tables(self.deployment)

    def pass_ms(self, prefill: PrefillSums, decode: DecodeSums, capacity_tokens: int) -> float:
        count, isl, prefix = prefill
        return forward_pass_ms(self._native, count, isl - prefix, prefix, *decode)

    def decode_ms(self, count: int, kv_tokens: int, capacity_tokens: int) -> float:
        return self._tables.at(count, kv_tokens // count)

    def decode_run_ms(self, count: int, kv_tokens: NDArray[np.int64], capacity_tokens: int) -> NDArray[np.float64]:
        return self._tables.run(count, int(kv_tokens[0]) // count, len(kv_tokens))

    def exact_decode_ms(self, count: int, context: int) -> float:
        """The time of a decode pass without interpolation."""
        return forward_pass_ms(self._native, 0, 0, 0, count, count * context)


@functools.lru_cache(maxsize=16)
def _tables(deployment: Deployment) -> ContextTables:
    """Tables that all runs of a process share: what they hold does not depend on who filled them."""
    native = native_model(deployment)

    def exact(count: int, context: int) -> float:
        return forward_pass_ms(native, 0, 0, 0, count, count * context)

    return ContextTables(exact)
