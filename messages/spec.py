"""ReplaySpec: the JSON document that describes a replay. Structure, defaults and single-value limits.

Lengths are tokens, sizes blocks, times and delays simulated milliseconds (`_ms`). A part checks its own fields when it
is made (ValueError); checks that involve several parts are in `messages.spec_checks`. Source of names and defaults: the
reference's ReplaySpec version 1.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from messages.fields import AbovePositive, Count, NonNegative, Positive, Seed, Strict, TokenId
from messages.kv_router import KvRouterConfig
from messages.planner import PlannerScaling, ScheduleScaling


class PoolSpec(Strict, frozen=True):
    """A pool of logical workers. `startup_delay_ms` holds for workers added after the start of the run."""

    initial_workers: Positive
    startup_delay_ms: NonNegative = 0.0


class AggregatedTopology(Strict, tag_field="kind", tag="aggregated", frozen=True):
    """One pool whose workers prefill and decode."""

    workers: PoolSpec


class DisaggregatedTopology(Strict, tag_field="kind", tag="disaggregated", frozen=True):
    """A pool that builds prompts and a pool that generates outputs.

    handoff_latency_ms: time a prompt's KV travels, where the prefill ranks give no bytes per token and bandwidth.
    """

    prefill: PoolSpec
    decode: PoolSpec
    handoff_latency_ms: NonNegative = 0.0


class Adjustment(Strict, frozen=True):
    """Factors on the times of a timing model, and what every pass takes besides.

    A pass takes `pass_overhead_ms + decode_scale * decode + prefill_scale * (whole - decode)`, where `decode` is the
    time of its decoding requests alone and `whole` that of all of it.

    request_overhead_ms: what passes between the arrival of a request and its entry into the cluster.
    """

    prefill_scale: AbovePositive = 1.0
    decode_scale: AbovePositive = 1.0
    pass_overhead_ms: NonNegative = 0.0
    request_overhead_ms: NonNegative = 0.0


class PolynomialTiming(Strict, tag_field="type", tag="polynomial", frozen=True):
    """Built-in polynomials in the number of new tokens (prefill) and in the use of the cache (decode)."""

    adjust: Adjustment | None = None


class FixedTiming(Strict, tag_field="type", tag="fixed", frozen=True):
    """Constant pass durations."""

    prefill_ms: NonNegative
    decode_ms: NonNegative
    adjust: Adjustment | None = None


def _check_path(path: str) -> None:
    """Refuse what no file system can hold."""
    if "\0" in path:
        raise ValueError(f"path: expected the name of a file, which holds no zero byte, got {path!r}")


class ProfileConfig(Strict, frozen=True):
    """`path`: npz file with measured grids, relative to the spec file."""

    path: Annotated[str, Meta(min_length=1)]

    def __post_init__(self) -> None:
        _check_path(self.path)


class ExternalTiming(Strict, tag_field="type", tag="external", frozen=True):
    """Step times interpolated from a measured profile."""

    provider: Literal["dynamo_profile"]
    config: ProfileConfig
    adjust: Adjustment | None = None


class AiconfiguratorTiming(Strict, tag_field="type", tag="aiconfigurator", frozen=True):
    """Step times of a known model on a known GPU, as the package aiconfigurator-core estimates them.

    model, system: names of a model and of a kind of GPU that the package has data of. backend, backend_version: whose
        data; by default the rank's backend and the newest version.
    tensor_parallel_size, attention_dp_size: GPUs per rank and ranks per worker, by default those of the engine.
    expert_parallel_size: groups that the experts of a mixture-of-experts model are split into.
    gpu_memory_utilization: share of the memory for weights, activations and cache (TensorRT-LLM: share for the cache
        of what weights and activations leave); it decides about `num_gpu_blocks` where that is not given.
    """

    model: Annotated[str, Meta(min_length=1)]
    system: Annotated[str, Meta(min_length=1)]
    backend: Literal["vllm", "sglang", "trtllm"] | None = None
    backend_version: Annotated[str, Meta(min_length=1)] | None = None
    tensor_parallel_size: Positive | None = None
    attention_dp_size: Positive | None = None
    expert_parallel_size: Positive = 1
    gpu_memory_utilization: Annotated[float, Meta(gt=0.0, le=1.0)] = 0.9
    adjust: Adjustment | None = None


class TableTiming(Strict, tag_field="type", tag="table", frozen=True):
    """Step times interpolated between measured ones. `path`: CSV or JSON file, relative to the spec file."""

    path: Annotated[str, Meta(min_length=1)]
    adjust: Adjustment | None = None

    def __post_init__(self) -> None:
        _check_path(self.path)


class CalibratedTiming(Strict, tag_field="type", tag="calibrated", frozen=True):
    """The timing model that a JSON file holds, adjusted as it says. `path`: relative to the spec file."""

    path: Annotated[str, Meta(min_length=1)]

    def __post_init__(self) -> None:
        _check_path(self.path)


BasicTimingModel = PolynomialTiming | FixedTiming | ExternalTiming | AiconfiguratorTiming | TableTiming
TimingModel = BasicTimingModel | CalibratedTiming

DEPLOYED = (AiconfiguratorTiming, CalibratedTiming)
"""Timing models that may know which model runs on which GPU."""


class SglangSpec(Strict, frozen=True):
    """What the SGLang scheduler has beside the common fields; other schedulers ignore it."""

    schedule_policy: Literal["fifo", "lpm"] = "fifo"
    max_prefill_tokens: Positive = 16384
    chunked_prefill_size: Positive = 8192
    clip_max_new_tokens: Count = 4096
    schedule_conservativeness: NonNegative = 1.0


class TrtllmSpec(Strict, frozen=True):
    """What the TensorRT-LLM scheduler has beside the common fields; other schedulers ignore it."""

    capacity_scheduler_policy: Literal["guaranteed_no_evict"] = "guaranteed_no_evict"


_NOT_GIVEN: Any = UNSET
"""Default of numbers that may follow from the timing model; those are filled in when a document is loaded."""

_NUM_GPU_BLOCKS = 16384
_BLOCK_SIZES = {"vllm": 64, "sglang": 1, "trtllm": 32}


class RankSpec(Strict, frozen=True):
    """One scheduler rank. A ratio of 0 leaves durations unscaled.

    num_gpu_blocks: 16384 if not given, or what the memory holds where the timing model knows model and GPU.
    aic_nextn: draft tokens per pass of speculative decoding; aic_nextn_accept_rates: their conditional acceptance
        rates, separated by commas; aic_mtp_seed: of the random stream.
    """

    backend: Literal["vllm", "sglang", "trtllm"] = "vllm"
    num_gpu_blocks: Positive = _NOT_GIVEN
    block_size: Positive | None = None
    max_model_len: Positive | None = None
    max_num_seqs: Positive | None = 256
    max_num_batched_tokens: Positive | None = 8192
    prefill_schedule_interval: Positive = 1
    prefill_decode_interval: Count = 0
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    speedup_ratio: NonNegative = 1.0
    decode_speedup_ratio: NonNegative = 1.0
    aic_nextn: Annotated[int, Meta(ge=1, le=5)] | None = None
    aic_nextn_accept_rates: str | None = None
    aic_mtp_seed: Seed = 42
    preemption_mode: Literal["lifo", "fifo"] = "lifo"
    timing_model: TimingModel = PolynomialTiming()
    emit_kv_events: bool = False
    emit_kv_token_ids: bool = False
    kv_transfer_bytes_per_token: Positive | None = None
    kv_bytes_per_token: Positive | None = None
    kv_transfer_bandwidth: NonNegative | None = None
    kv_transfer_timing_mode: Literal["full_prompt", "destination_missing"] = "full_prompt"
    sglang: SglangSpec = SglangSpec()
    trtllm: TrtllmSpec = TrtllmSpec()

    def __post_init__(self) -> None:
        if self.num_gpu_blocks is _NOT_GIVEN and not isinstance(self.timing_model, DEPLOYED):
            msgspec.structs.force_setattr(self, "num_gpu_blocks", _NUM_GPU_BLOCKS)
        self._check_backend()
        self._check_speculation()
        if self.emit_kv_token_ids and not self.emit_kv_events:
            raise ValueError("emit_kv_token_ids requires emit_kv_events")
        if self.kv_transfer_bytes_per_token is not None and self.kv_bytes_per_token is not None:
            raise ValueError("kv_bytes_per_token is another name of kv_transfer_bytes_per_token: give one of them")

    @property
    def tokens_per_block(self) -> int:
        """`block_size`, or the default of the backend where it is null."""
        return self.block_size or _BLOCK_SIZES[self.backend]

    def accept_rates(self) -> tuple[float, ...]:
        """The acceptance rates that are given; empty where the defaults hold."""
        texts = (self.aic_nextn_accept_rates or "").split(",")
        return tuple(float(text) for text in texts if text.strip())

    def _check_backend(self) -> None:
        if self.backend != "sglang" and self.tokens_per_block < 2:
            raise ValueError(f"block_size must be at least 2 for backend {self.backend}, got {self.block_size}")
        if self.backend != "vllm" and self.prefill_schedule_interval != 1:
            raise ValueError("prefill_schedule_interval is supported only for backend vllm")
        if self.backend != "sglang" and self.prefill_decode_interval:
            raise ValueError("prefill_decode_interval is supported only for backend sglang")
        if self.backend == "sglang":
            if not self.enable_chunked_prefill:
                raise ValueError("enable_chunked_prefill: false is not supported for backend sglang")
            if self.sglang.chunked_prefill_size % self.tokens_per_block:
                raise ValueError("sglang.chunked_prefill_size must be divisible by block_size")

    def _check_speculation(self) -> None:
        if self.aic_mtp_seed >= 2**64:
            raise ValueError(f"aic_mtp_seed must be below 2**64, got {self.aic_mtp_seed}")
        if self.aic_nextn_accept_rates is not None and self.aic_nextn is None:
            raise ValueError("aic_nextn_accept_rates requires aic_nextn")
        if self.aic_nextn is not None and self.decode_speedup_ratio != 1.0:
            raise ValueError("aic_nextn requires decode_speedup_ratio 1.0: bursts are its output acceleration")
        for text in (self.aic_nextn_accept_rates or "").split(","):
            if text.strip() and not _is_rate(text):
                raise ValueError(f"aic_nextn_accept_rates: expected numbers from 0 to 1, got {text.strip()!r}")


def _is_rate(text: str) -> bool:
    try:
        return 0.0 <= float(text) <= 1.0
    except ValueError:
        return False


def _fill_tensor_parallel_size(engine: RoleSpec | EngineSpec) -> None:
    """Have an engine and its timing model agree on the GPUs per rank, of which either may tell.

    Only a file may tell too; then the number stays open.
    """
    timing = engine.rank.timing_model
    told = timing.tensor_parallel_size if isinstance(timing, AiconfiguratorTiming) else None
    if engine.tensor_parallel_size is _NOT_GIVEN:
        if not isinstance(timing, CalibratedTiming):
            msgspec.structs.force_setattr(engine, "tensor_parallel_size", told or 1)
    elif told not in (None, engine.tensor_parallel_size):
        raise ValueError(
            f"tensor_parallel_size {engine.tensor_parallel_size} contradicts "
            f"rank.timing_model.tensor_parallel_size {told}; give it once"
        )


def _check_chunk_share(rank: RankSpec, dp_size: int) -> None:
    """Refuse ranks of SGLang whose share of a chunk is nothing."""
    if rank.backend == "sglang" and rank.sglang.chunked_prefill_size < dp_size:
        raise ValueError(
            f"dp_size {dp_size} leaves nothing of rank.sglang.chunked_prefill_size "
            f"{rank.sglang.chunked_prefill_size}, which the ranks share"
        )


class RoleSpec(Strict, frozen=True):
    """The engine of the workers of one pool; the fields are those of `EngineSpec`."""

    rank: RankSpec = RankSpec()
    dp_size: Positive = 1
    tensor_parallel_size: Positive = _NOT_GIVEN

    def __post_init__(self) -> None:
        _fill_tensor_parallel_size(self)
        _check_chunk_share(self.rank, self.dp_size)


class EngineSpec(Strict, frozen=True):
    """The engine of every worker.

    prefill, decode: what the workers of that pool of a disaggregated cluster have instead, as a whole.

    dp_size: attention-DP ranks behind one pass barrier; each has the scheduler and the cache that `rank` describes.
    tensor_parallel_size: GPUs per rank, for the GPU-hours; 1 if not given, or what the timing model says.
    """

    rank: RankSpec = RankSpec()
    dp_size: Positive = 1
    tensor_parallel_size: Positive = _NOT_GIVEN
    prefill: RoleSpec | None = None
    decode: RoleSpec | None = None

    @property
    def given(self) -> list[RoleSpec]:
        """The shared engine, and those that pools have of their own."""
        return [self.role(), *(own for own in (self.prefill, self.decode) if own is not None)]

    def role(self, own: RoleSpec | None = None) -> RoleSpec:
        """The engine of a pool: its own, or the shared one."""
        return own or RoleSpec(rank=self.rank, dp_size=self.dp_size, tensor_parallel_size=self.tensor_parallel_size)

    def __post_init__(self) -> None:
        _fill_tensor_parallel_size(self)
        _check_chunk_share(self.rank, self.dp_size)


class RoundRobinPlacement(Strict, tag_field="provider", tag="round_robin", frozen=True):
    """Workers in turn."""

    config: None = None


class KvRouterPlacement(Strict, tag_field="provider", tag="kv_router", frozen=True):
    """The worker with the lowest cost, of what it has cached of the prompt and what it has to do."""

    config: KvRouterConfig = KvRouterConfig()


class NoScaling(Strict, tag_field="provider", tag="none", frozen=True):
    """The pool keeps its size."""

    config: None = None


class Adapters(Strict, frozen=True):
    """Policies chosen by name."""

    placement: RoundRobinPlacement | KvRouterPlacement = RoundRobinPlacement()
    scaling: NoScaling | ScheduleScaling | PlannerScaling = NoScaling()


class Sla(Strict, frozen=True):
    """Bounds of a good request: time to first token and mean inter-token latency, or end-to-end latency."""

    ttft_ms: AbovePositive | None = None
    itl_ms: AbovePositive | None = None
    e2e_ms: AbovePositive | None = None

    def __post_init__(self) -> None:
        if self.e2e_ms is not None and (self.ttft_ms is not None or self.itl_ms is not None):
            raise ValueError("e2e_ms is mutually exclusive with ttft_ms and itl_ms")


class TelemetrySpec(Strict, frozen=True):
    """Samples of the state of the cluster. `sample_interval_ms`: simulated time from one to the next."""

    sample_interval_ms: AbovePositive = 1000.0


TraceFormat = Literal["mooncake", "mooncake-delta", "mooncake_delta", "applied_compute_agentic"]


class TraceWorkload(Strict, tag_field="kind", tag="trace", frozen=True):
    """Requests read from a JSON Lines file. `block_size`: tokens that one hash id stands for."""

    path: Annotated[str, Meta(min_length=1)]
    format: TraceFormat = "mooncake"
    block_size: Positive = 512
    arrival_speedup_ratio: float = 1.0
    shared_prefix_ratio: float = 0.0
    num_prefix_groups: Count = 0

    def __post_init__(self) -> None:
        _check_path(self.path)


class SyntheticWorkload(Strict, tag_field="kind", tag="synthetic", frozen=True):
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

    @property
    def has_sessions(self) -> bool:
        """Whether any parameter of sessions is in use; otherwise every request stands alone."""
        return (
            self.turns_per_session > 1
            or self.shared_prefix_ratio > 0.0
            or self.num_prefix_groups > 0
            or self.inter_turn_delay_ms > 0.0
        )


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


class InlineRequest(Strict, frozen=True):
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


class ReplaySpec(Strict, frozen=True):
    """The whole document. Exactly one of `requests` and `workload` is given.

    schema_uri: where an editor finds the JSON Schema of the document; of no other use.
    """

    topology: AggregatedTopology | DisaggregatedTopology
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
    telemetry: TelemetrySpec | None = None
    schema_uri: str | UnsetType = msgspec.field(name="$schema", default=UNSET)

    @property
    def ranks(self) -> list[RankSpec]:
        """The ranks of all pools."""
        if isinstance(self.topology, AggregatedTopology):
            return [self.engine.rank]
        return [self.engine.role(self.engine.prefill).rank, self.engine.role(self.engine.decode).rank]

    @property
    def prompt_rank(self) -> RankSpec:
        """The rank whose block size and cache the prompts of the workload are cut to."""
        *_, decode = self.ranks
        return msgspec.structs.replace(decode, num_gpu_blocks=max(rank.num_gpu_blocks for rank in self.ranks))
