"""The table of schedulers: which engine runs a backend."""

from __future__ import annotations

from collections.abc import Callable

from engines.engine import Engine, EngineOptions
from engines.timing.durations import Durations
from engines.timing.model import TimingModel
from engines.vllm import VllmScheduler
from messages.spec import EngineSpec, RankSpec

SCHEDULERS: dict[str, Callable[[RankSpec, Durations, EngineOptions], Engine]] = {"vllm": VllmScheduler}


def build_engine(engine: EngineSpec, timing: TimingModel, options: EngineOptions) -> Engine:
    """A fresh engine for one logical worker, as the spec describes it."""
    rank = engine.rank
    capacity_tokens = rank.num_gpu_blocks * rank.tokens_per_block
    durations = Durations(timing, rank.speedup_ratio, rank.decode_speedup_ratio, capacity_tokens)
    return SCHEDULERS[rank.backend](rank, durations, options)
