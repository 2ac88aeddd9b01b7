"""What the planner scales: the pools, what their engines can hold, and the limits of their sizes."""

from __future__ import annotations

from typing import Literal, NamedTuple

from actors.planner.budget import Bounds, PairCosts
from actors.planner.capacity import EngineLimits
from messages.planner import PlannerConfig
from messages.planner_report import WorkerCounts
from messages.spec import RoleSpec

Role = Literal["prefill", "decode"]


class EngineCapabilities(NamedTuple):
    """What one worker of a pool is.

    gpus: GPUs per worker; context_length, max_kv_tokens: tokens, None if unlimited or unknown; rank_kv_tokens: KV of
    one attention-DP rank; nextn: draft tokens of speculative decoding, 0 without.
    """

    gpus: int = 1
    max_num_batched_tokens: int | None = None
    max_num_seqs: int | None = None
    context_length: int | None = None
    max_kv_tokens: int | None = None
    rank_kv_tokens: int = 0
    nextn: int = 0

    @property
    def limits(self) -> EngineLimits:
        """The same for the search of capacities, with defaults for what is unknown."""
        return EngineLimits(
            self.max_num_batched_tokens or 8192, self.max_num_seqs or 512, self.max_kv_tokens or 2_000_000
        )


def capabilities(role: RoleSpec) -> EngineCapabilities:
    """What the spec says about the workers of a pool."""
    rank = role.rank
    rank_kv_tokens = rank.num_gpu_blocks * rank.tokens_per_block
    return EngineCapabilities(
        gpus=role.tensor_parallel_size * role.dp_size,
        max_num_batched_tokens=rank.max_num_batched_tokens,
        max_num_seqs=rank.max_num_seqs,
        context_length=rank.max_model_len,
        max_kv_tokens=rank_kv_tokens * role.dp_size,
        rank_kv_tokens=rank_kv_tokens,
        nextn=rank.aic_nextn or 0,
    )


class Fleet(NamedTuple):
    """The pools of a run. An aggregated cluster has no prefill engines; its workers count as decode."""

    decode: EngineCapabilities
    prefill: EngineCapabilities | None
    decode_floor: int
    prefill_floor: int
    bounds: Bounds

    @property
    def costs(self) -> PairCosts:
        """Costs and floors of both pools."""
        prefill_gpus = self.prefill.gpus if self.prefill else 0
        return PairCosts(prefill_gpus, self.decode.gpus, self.prefill_floor, self.decode_floor)

    def is_below_floor(self, prefill: int, decode: int) -> bool:
        """Whether a pool has fewer workers than it must have."""
        return prefill < self.prefill_floor or decode < self.decode_floor

    def ready(self, counts: WorkerCounts) -> tuple[int, int]:
        """Active workers of both pools."""
        return counts.ready_num_prefill or 0, counts.ready_num_decode


def build_fleet(config: PlannerConfig, decode: EngineCapabilities, prefill: EngineCapabilities | None) -> Fleet:
    """The pools with the limits that a configuration sets."""
    bounds = Bounds(config.min_gpu_budget, config.max_gpu_budget)
    return Fleet(decode, prefill, config.floor("decode"), config.floor("prefill"), bounds)


class Proposal(NamedTuple):
    """Pool sizes that one step asks for; None for a pool it says nothing about."""

    prefill: int | None
    decode: int


class LowerBounds:
    """Least workers that the last forecast asks for."""

    def __init__(self) -> None:
        self.prefill = 1
        self.decode = 1


class Observed:
    """What the last window of traffic told that later steps need."""

    def __init__(self, config: PlannerConfig) -> None:
        self.hit_rate: float | None = None
        self._accept_length = 1.0
        self._default_nextn = config.speculative_nextn

    def note(self, hit_rate: float | None, accept_length: float | None) -> None:
        """Take the values of a window."""
        self.hit_rate = hit_rate
        if accept_length is not None:
            self._accept_length = accept_length

    def accept_length(self, engine: EngineCapabilities) -> float:
        """Tokens per decode pass of an engine: 1 without speculation."""
        nextn = engine.nextn if engine.nextn > 0 else self._default_nextn
        return min(max(self._accept_length, 1.0), nextn + 1.0) if nextn > 0 else 1.0
