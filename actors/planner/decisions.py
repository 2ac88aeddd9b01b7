"""Opinions about the size of one pool, and the words for why it changes or stays."""

from __future__ import annotations

from typing import NamedTuple

SCALE_UP = "scale_up"
SCALE_DOWN = "scale_down"
CAPPED = "scale_down_capped_by_throughput"
REFUSED = "scale_down_refused_consolidation"
NO_CHANGE = "no_change"
NO_FPM_DATA = "no_fpm_data"
SCALING_IN_PROGRESS = "scaling_in_progress"
WORKER_COUNT_MISMATCH = "worker_count_mismatch"
INSUFFICIENT_DATA = "insufficient_data"
DISABLED = "disabled"

_BY_WEIGHT = (SCALE_UP, CAPPED, SCALE_DOWN)


class SubDecision(NamedTuple):
    """A wanted number of workers, None for no opinion; `reason` tells why there is none or the size stays."""

    desired: int | None
    reason: str = NO_CHANGE


def reason_of(final: int, ready: int, sub: SubDecision, lifted: int) -> str:
    """Why a pool ends at a size. `lifted`: the wanted size after lower bounds and floors, before the budget."""
    if final > ready:
        return SCALE_UP
    if final < ready:
        return SCALE_DOWN
    if sub.desired is not None and sub.desired < ready <= lifted:
        return CAPPED
    return sub.reason


def joint_reason(prefill: str, decode: str) -> str:
    """One reason for two pools: the weightiest change, or else the first that tells more than that nothing changed."""
    for reason in _BY_WEIGHT:
        if reason in (prefill, decode):
            return reason
    return decode if prefill == NO_CHANGE else prefill
