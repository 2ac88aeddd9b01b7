"""The table of schedulers: which engine runs a backend."""

from __future__ import annotations

from collections.abc import Callable

from engines.engine import Engine, EngineOptions
from engines.timing.durations import Durations
from engines.vllm import VllmScheduler
from messages.spec import EngineSpec, RankSpec

SCHEDULERS: dict[str, Callable[[RankSpec, Durations, EngineOptions], Engine]] = {"vllm": VllmScheduler}


def build_engine(engine: EngineSpec, durations: Durations, options: EngineOptions) -> Engine:
    """A fresh engine for one logical worker, as the spec describes it; `durations` may be shared by all of a kind."""
    return SCHEDULERS[engine.rank.backend](engine.rank, durations, options)
