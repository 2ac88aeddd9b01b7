"""The table of schedulers: which engine runs a backend."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from engines.data_parallel import RankGroup
from engines.engine import Engine, EngineOptions, RankScheduler
from engines.sglang import SglangScheduler
from engines.timing.durations import Durations
from engines.trtllm import TrtllmScheduler
from engines.vllm import VllmScheduler
from messages.spec import EngineSpec, RankSpec

SCHEDULERS: dict[str, Callable[[RankSpec, Durations, EngineOptions], RankScheduler]] = {
    "vllm": VllmScheduler,
    "sglang": SglangScheduler,
    "trtllm": TrtllmScheduler,
}


def build_engine(engine: EngineSpec, durations: Durations, options: EngineOptions) -> Engine:
    """A fresh engine for the logical worker of `options`; `durations` may be shared by all workers of a kind."""
    scheduler = SCHEDULERS[engine.rank.backend]
    ranks = [
        scheduler(engine.rank, durations, msgspec.structs.replace(options, dp_rank=dp_rank, dp_size=engine.dp_size))
        for dp_rank in range(engine.dp_size)
    ]
    return RankGroup(ranks, options.horizon_ms)
