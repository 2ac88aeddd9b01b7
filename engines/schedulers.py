"""The tables of schedulers: which engine runs a backend."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from engines.data_parallel import DestinationGroup, RankGroup, SourceGroup
from engines.engine import DestinationRank, Engine, EngineOptions, RankScheduler, Role, SourceRank
from engines.sglang import SglangScheduler
from engines.sglang_pools import SglangDestination, SglangSource
from engines.timing.durations import Durations
from engines.trtllm import TrtllmScheduler
from engines.vllm import VllmScheduler
from messages.spec import RankSpec, RoleSpec

SCHEDULERS: dict[str, Callable[[RankSpec, Durations, EngineOptions], RankScheduler]] = {
    "vllm": VllmScheduler,
    "sglang": SglangScheduler,
    "trtllm": TrtllmScheduler,
}
"""Ranks of an aggregated cluster, by backend."""

SOURCES: dict[str, Callable[[RankSpec, Durations, EngineOptions], SourceRank]] = {
    "vllm": VllmScheduler,
    "sglang": SglangSource,
    "trtllm": TrtllmScheduler,
}
"""Ranks of prefill workers."""

DESTINATIONS: dict[str, Callable[[RankSpec, Durations, EngineOptions], DestinationRank]] = {
    "vllm": VllmScheduler,
    "sglang": SglangDestination,
    "trtllm": TrtllmScheduler,
}
"""Ranks of decode workers."""

Built = TypeVar("Built")


def build_engine(role: RoleSpec, durations: Durations, options: EngineOptions) -> Engine:
    """A fresh engine for the logical worker of `options`; `durations` may be shared by all workers of a kind."""

    def ranks(scheduler: Callable[[RankSpec, Durations, EngineOptions], Built]) -> list[Built]:
        return [
            scheduler(role.rank, durations, msgspec.structs.replace(options, dp_rank=dp_rank, dp_size=role.dp_size))
            for dp_rank in range(role.dp_size)
        ]

    backend = role.rank.backend
    if options.role is Role.PREFILL:
        return SourceGroup(ranks(SOURCES[backend]), options.horizon_ms)
    if options.role is Role.DECODE:
        return DestinationGroup(ranks(DESTINATIONS[backend]), options.horizon_ms)
    return RankGroup(ranks(SCHEDULERS[backend]), options.horizon_ms)
