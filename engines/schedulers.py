"""The table of schedulers: which engine runs a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import msgspec

from engines.data_parallel import HandoffGroup, RankGroup
from engines.engine import Engine, EngineOptions, HandoffRank, RankScheduler, Role
from engines.sglang import SglangScheduler
from engines.timing.durations import Durations
from engines.trtllm import TrtllmScheduler
from engines.vllm import VllmScheduler
from messages.spec import RankSpec, RoleSpec

SCHEDULERS: dict[str, Callable[[RankSpec, Durations, EngineOptions], RankScheduler]] = {
    "vllm": VllmScheduler,
    "sglang": SglangScheduler,
    "trtllm": TrtllmScheduler,
}


def build_engine(role: RoleSpec, durations: Durations, options: EngineOptions) -> Engine:
    """A fresh engine for the logical worker of `options`; `durations` may be shared by all workers of a kind."""
    scheduler = SCHEDULERS[role.rank.backend]
    ranks = [
        scheduler(role.rank, durations, msgspec.structs.replace(options, dp_rank=dp_rank, dp_size=role.dp_size))
        for dp_rank in range(role.dp_size)
    ]
    if options.role is Role.AGGREGATED:
        return RankGroup(ranks, options.horizon_ms)
    return HandoffGroup(cast("list[HandoffRank]", ranks), options.horizon_ms)
