"""Completes engines whose timing model knows the model and the GPU: sizes, versions, and the room of the KV cache."""

from __future__ import annotations

from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec import UNSET

from engines.timing.aiconfigurator import deployment_of
from engines.timing.aiconfigurator_package import KvCapacity, kv_capacity
from engines.timing.calibration import read_calibration
from engines.timing.model import build_timing
from messages.errors import InputError
from messages.spec import (
    DEPLOYED,
    AiconfiguratorTiming,
    CalibratedTiming,
    EngineSpec,
    RankSpec,
    ReplaySpec,
    RoleSpec,
    TimingModel,
)

Engine = TypeVar("Engine", RoleSpec, EngineSpec)

_NUM_GPU_BLOCKS = RankSpec().num_gpu_blocks
_MOST_TOKENS, _MOST_REQUESTS = 8192, 256
"""What a pass is taken to compute where the scheduler has no limit."""
_GIB = 2**30


def complete(spec: ReplaySpec, base_dir: Path) -> tuple[ReplaySpec, list[str]]:
    """Return a document in which every number is given, and findings; with findings the numbers may be stand-ins."""
    findings: list[str] = []
    engine = _completed(spec.engine, "engine", base_dir, findings)
    for name in ("prefill", "decode"):
        own = getattr(engine, name)
        if own is not None:
            own = _completed(own, f"engine.{name}", base_dir, findings)
            engine = msgspec.structs.replace(engine, **{name: own})
    return msgspec.structs.replace(spec, engine=engine), findings


def deployed_timing(rank: RankSpec, base_dir: Path) -> AiconfiguratorTiming | None:
    """What a rank's timing model, or the calibration it names, says about model and GPU; None if nothing.

    Raises InputError where the calibration cannot be read.
    """
    timing: TimingModel = rank.timing_model
    if isinstance(timing, CalibratedTiming):
        timing = read_calibration(base_dir / timing.path).timing_model
    return timing if isinstance(timing, AiconfiguratorTiming) else None


def capacity_of(rank: RankSpec, timing: AiconfiguratorTiming) -> KvCapacity:
    """The memory of a GPU of a rank. Raises InputError where nothing of it is left for the KV cache."""
    tokens = rank.sglang.chunked_prefill_size if rank.backend == "sglang" else rank.max_num_batched_tokens
    return kv_capacity(
        deployment_of(timing),
        timing.gpu_memory_utilization,
        tokens or _MOST_TOKENS,
        rank.max_num_seqs or _MOST_REQUESTS,
    )


def capacity_text(rank: RankSpec, timing: AiconfiguratorTiming) -> str:
    """The arithmetic behind `num_gpu_blocks`."""
    memory = capacity_of(rank, timing)
    block_size, share = rank.tokens_per_block, timing.gpu_memory_utilization
    parts = " - ".join(
        f"{name} {getattr(memory, name) / _GIB:.2f}"
        for name in ("weights", "activations", "runtime", "communication")
        if getattr(memory, name)
    )
    total = f"{memory.total / _GIB:.2f} GiB"
    budget = f"({total} - {parts}) x {share:g}" if timing.backend == "trtllm" else f"{total} x {share:g} - {parts}"
    return (
        f"num_gpu_blocks {memory.tokens // block_size}: {budget} = {memory.cache / _GIB:.2f} GiB of KV cache, "
        f"at {memory.bytes_per_token} bytes per token {memory.tokens} tokens, in blocks of {block_size}"
    )


def capacity_notes(spec: ReplaySpec, base_dir: Path) -> list[str]:
    """The arithmetic behind each `num_gpu_blocks` of a complete document that is what the memory holds.

    Where the pools of a disaggregated cluster differ, each note names its pool.
    """
    notes = [_capacity_note(rank, base_dir) for rank in spec.ranks]
    if len(set(notes)) > 1:
        pools = zip(("prefill", "decode"), notes, strict=True)
        return [f"{pool}: {note}" for pool, note in pools if note is not None]
    return [note for note in notes[:1] if note is not None]


def _capacity_note(rank: RankSpec, base_dir: Path) -> str | None:
    timing = deployed_timing(rank, base_dir) if isinstance(rank.timing_model, DEPLOYED) else None
    if timing is None:
        return None
    try:
        computed = capacity_of(rank, timing).tokens // rank.tokens_per_block
    except InputError:
        return None  # the number was given, since there is none
    return capacity_text(rank, timing) if computed == rank.num_gpu_blocks else None


def _completed(engine: Engine, path: str, base_dir: Path, findings: list[str]) -> Engine:
    rank = engine.rank
    if not isinstance(rank.timing_model, DEPLOYED):
        return engine
    try:
        timing = deployed_timing(rank, base_dir)
        if timing is not None and isinstance(rank.timing_model, AiconfiguratorTiming):
            timing = _complete_timing(timing, engine)
            rank = msgspec.structs.replace(rank, timing_model=timing)
        size = (timing.tensor_parallel_size or 1) if timing is not None else 1
        if engine.tensor_parallel_size is UNSET:
            engine = msgspec.structs.replace(engine, tensor_parallel_size=size)
        if timing is not None:
            _check_sizes(timing, size, engine)
        build_timing(rank.timing_model, base_dir)
        if rank.num_gpu_blocks is UNSET:
            rank = msgspec.structs.replace(rank, num_gpu_blocks=_blocks(rank, timing))
    except InputError as error:
        for finding in error.findings:
            field = finding.partition(":")[0]
            joint = "." if field in {"type", *AiconfiguratorTiming.__struct_fields__} else ": "
            findings.append(f"{path}.rank.timing_model{joint}{finding}")
        if rank.num_gpu_blocks is UNSET:
            rank = msgspec.structs.replace(rank, num_gpu_blocks=_NUM_GPU_BLOCKS)
        if engine.tensor_parallel_size is UNSET:
            engine = msgspec.structs.replace(engine, tensor_parallel_size=1)
    return msgspec.structs.replace(engine, rank=rank)


def _complete_timing(timing: AiconfiguratorTiming, engine: RoleSpec | EngineSpec) -> AiconfiguratorTiming:
    """Fill in what the engine and the newest data say."""
    timing = msgspec.structs.replace(
        timing,
        backend=timing.backend or engine.rank.backend,
        tensor_parallel_size=engine.tensor_parallel_size,
        attention_dp_size=timing.attention_dp_size or engine.dp_size,
    )
    found = deployment_of(timing)
    return msgspec.structs.replace(timing, model=found.model, backend_version=found.backend_version)


def _check_sizes(timing: AiconfiguratorTiming, size: int, engine: RoleSpec | EngineSpec) -> None:
    """Refuse times of a deployment that has other sizes than the engine."""
    findings = []
    if timing.backend is None:
        findings.append("backend: missing; a calibration names the backend whose times it adjusts")
    if size != engine.tensor_parallel_size:
        findings.append(f"tensor_parallel_size: {size} contradicts the engine's {engine.tensor_parallel_size}")
    ranks = timing.attention_dp_size or 1
    if ranks != engine.dp_size:
        findings.append(f"attention_dp_size: {ranks} contradicts the engine's dp_size {engine.dp_size}")
    if findings:
        raise InputError(*findings)


def _blocks(rank: RankSpec, timing: AiconfiguratorTiming | None) -> int:
    if timing is None:
        return _NUM_GPU_BLOCKS
    blocks = capacity_of(rank, timing).tokens // rank.tokens_per_block
    if not blocks:
        raise InputError(
            f"gpu_memory_utilization: {timing.gpu_memory_utilization} leaves no room for a block of "
            f"{rank.tokens_per_block} tokens; use more GPUs per rank"
        )
    return blocks
