"""ReplaySpec: the JSON document that describes a replay. Structure, defaults and single-value limits.

Lengths are tokens, sizes blocks, times and delays simulated milliseconds (`_ms`). A part checks its own fields when it
is made (ValueError); checks that involve several parts are in `messages.spec_checks`. Source of names and defaults: the
reference's ReplaySpec version 1.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

LARGEST = 2**63 - 1

Positive = Annotated[int, Meta(ge=1, le=LARGEST)]
Count = Annotated[int, Meta(ge=0, le=LARGEST)]
Seed = Annotated[int, Meta(ge=0)]
NonNegative = Annotated[float, Meta(ge=0.0)]
AbovePositive = Annotated[float, Meta(gt=0.0)]
TokenId = Annotated[int, Meta(ge=0, le=2**32 - 1)]


class _Strict(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Base of every part of the document: unknown keys are refused."""


class PoolSpec(_Strict, frozen=True):
    """A pool of logical workers. `startup_delay_ms` holds for workers added after the start of the run."""

    initial_workers: Positive
    startup_delay_ms: NonNegative = 0.0


class AggregatedTopology(_Strict, tag_field="kind", tag="aggregated", frozen=True):
    """One pool whose workers prefill and decode."""

    workers: PoolSpec


class PolynomialTiming(_Strict, tag_field="type", tag="polynomial", frozen=True):
    """Built-in polynomials in the number of new tokens (prefill) and in the use of the cache (decode)."""


class FixedTiming(_Strict, tag_field="type", tag="fixed", frozen=True):
    """Constant pass durations."""

    prefill_ms: NonNegative
    decode_ms: NonNegative


class ProfileConfig(_Strict, frozen=True):
    """`path`: npz file with measured grids, relative to the spec file."""

    path: Annotated[str, Meta(min_length=1)]


class ExternalTiming(_Strict, tag_field="type", tag="external", frozen=True):
    """Step times interpolated from a measured profile."""

    provider: Literal["dynamo_profile"]
    config: ProfileConfig


TimingModel = PolynomialTiming | FixedTiming | ExternalTiming


class RankSpec(_Strict, frozen=True):
    """One scheduler rank. A ratio of 0 leaves durations unscaled."""

    backend: Literal["vllm"] = "vllm"
    num_gpu_blocks: Positive = 16384
    block_size: Annotated[int, Meta(ge=2, le=LARGEST)] | None = None
    max_model_len: Positive | None = None
    max_num_seqs: Positive | None = 256
    max_num_batched_tokens: Positive | None = 8192
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    speedup_ratio: NonNegative = 1.0
    decode_speedup_ratio: NonNegative = 1.0
    preemption_mode: Literal["lifo", "fifo"] = "lifo"
    timing_model: TimingModel = PolynomialTiming()
    emit_kv_events: bool = False
    emit_kv_token_ids: bool = False
    kv_transfer_bytes_per_token: Positive | None = None
    kv_bytes_per_token: Positive | None = None
    kv_transfer_bandwidth: NonNegative | None = None
    kv_transfer_timing_mode: Literal["full_prompt", "destination_missing"] = "full_prompt"

    def __post_init__(self) -> None:
        if self.emit_kv_token_ids and not self.emit_kv_events:
            raise ValueError("emit_kv_token_ids requires emit_kv_events")
        if self.kv_transfer_bytes_per_token is not None and self.kv_bytes_per_token is not None:
            raise ValueError("kv_bytes_per_token is another name of kv_transfer_bytes_per_token: give one of them")

    @property
    def tokens_per_block(self) -> int:
        """`block_size`, or the default of the backend where it is null."""
        return self.block_size or 64


class EngineSpec(_Strict, frozen=True):
    """The engine of every worker. `tensor_parallel_size` counts GPUs per rank for the GPU-hours."""

    rank: RankSpec = RankSpec()
    tensor_parallel_size: Positive = 1


class RoundRobinPlacement(_Strict, frozen=True):
    """Workers in turn."""

    provider: Literal["round_robin"] = "round_robin"
    config: None = None


class NoScaling(_Strict, frozen=True):
    """The pool keeps its size."""

    provider: Literal["none"] = "none"
    config: None = None


class Adapters(_Strict, frozen=True):
    """Policies chosen by name."""

    placement: RoundRobinPlacement = RoundRobinPlacement()
    scaling: NoScaling = NoScaling()


class Sla(_Strict, frozen=True):
    """Bounds of a good request: time to first token and mean inter-token latency, or end-to-end latency."""

    ttft_ms: AbovePositive | None = None
    itl_ms: AbovePositive | None = None
    e2e_ms: AbovePositive | None = None

    def __post_init__(self) -> None:
        if self.e2e_ms is not None and (self.ttft_ms is not None or self.itl_ms is not None):
            raise ValueError("e2e_ms is mutually exclusive with ttft_ms and itl_ms")


TraceFormat = Literal["mooncake", "mooncake-delta", "mooncake_delta", "applied_compute_agentic"]


class TraceWorkload(_Strict, tag_field="kind", tag="trace", frozen=True):
    """Requests read from a JSON Lines file. `block_size`: tokens that one hash id stands for."""

    path: Annotated[str, Meta(min_length=1)]
    format: TraceFormat = "mooncake"
    block_size: Positive = 512
    arrival_speedup_ratio: float = 1.0
    shared_prefix_ratio: float = 0.0
    num_prefix_groups: Count = 0


class SyntheticWorkload(_Strict, tag_field="kind", tag="synthetic", frozen=True):
    """Generated requests.

    Exactly one of `request_rate` (1/s), `arrival_interval_ms` and the top-level `max_in_flight` is given.
    """

    input_tokens: Positive
    output_tokens: Positive
    request_count: Positive
    request_rate: AbovePositive | None = None
    arrival_interval_ms: NonNegative | None = None
    arrival_seed: Seed = 42
    arrival_speedup_ratio: float = 1.0
    turns_per_session: Count = 1
    shared_prefix_ratio: float = 0.0
    num_prefix_groups: Count = 0
    inter_turn_delay_ms: float = 0.0

    def __post_init__(self) -> None:
        if self.arrival_seed >= 2**64:
            raise ValueError(f"arrival_seed must be below 2**64, got {self.arrival_seed}")


_PRIORITY_BOUNDS = {"priority": (-(2**31), 2**31 - 1), "strict_priority": (0, 2**32 - 1)}


def _check_routing_metadata(metadata: object) -> None:
    """Check the keys that a placement policy reads; all other keys are only reported."""
    if metadata is None:
        return
    if not isinstance(metadata, dict):
        raise TypeError(f"metadata: expected an object or null, got {metadata!r}")
    for name, (low, high) in _PRIORITY_BOUNDS.items():
        value = metadata.get(name, 0)
        if type(value) is not int or not low <= value <= high:
            raise ValueError(f"metadata.{name}: expected an integer in {low}..{high}, got {value!r}")
    policy_class = metadata.get("policy_class")
    if policy_class is not None and not isinstance(policy_class, str):
        raise ValueError(f"metadata.policy_class: expected a string, got {policy_class!r}")


class InlineRequest(_Strict, frozen=True):
    """One request of the list `requests`."""

    id: Annotated[str, Meta(min_length=1)]
    arrival_time_ms: NonNegative
    input_tokens: Positive
    output_tokens: Count
    input_token_ids: list[TokenId] | None = None
    output_token_ids: list[TokenId] | None = None
    dp_rank: Count | None = None
    prefill_dp_rank: Count | None = None
    session_id: str | None = None
    turn_index: Count | None = None
    metadata: Any = None

    def __post_init__(self) -> None:
        if self.input_token_ids is not None and len(self.input_token_ids) != self.input_tokens:
            raise ValueError(
                f"input_tokens is {self.input_tokens} but input_token_ids holds {len(self.input_token_ids)} token ids"
            )
        _check_routing_metadata(self.metadata)


class ReplaySpec(_Strict, frozen=True):
    """The whole document. Exactly one of `requests` and `workload` is given."""

    topology: AggregatedTopology
    version: Literal[1] = 1
    engine: EngineSpec = EngineSpec()
    adapters: Adapters = Adapters()
    workload: TraceWorkload | SyntheticWorkload | UnsetType = UNSET
    requests: list[InlineRequest] | UnsetType = UNSET
    max_in_flight: Positive | None = None
    max_sim_time_ms: NonNegative | None = None
    record_per_request: bool = True
    sla: Sla = Sla()
    strict: bool = False
