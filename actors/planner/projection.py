"""The last step of every tick: floors and budget, whatever was proposed."""

from __future__ import annotations

from actors.planner.budget import clamp_pair, clamp_single
from actors.planner.fleet import Fleet, Proposal
from messages.planner_report import ScaleTo, WorkerCounts


def project(proposal: Proposal | None, counts: WorkerCounts, fleet: Fleet) -> ScaleTo | None:
    """Pool sizes to ask for; None where they are what they are.

    While no pool is on its way to another size, one below its floor is filled up and an allocation outside the budget
    brought into it, even if nothing was proposed.
    """
    ready = fleet.ready(counts)
    prefill, decode = ready
    if proposal is not None:
        prefill = prefill if proposal.prefill is None else proposal.prefill
        decode = proposal.decode
    if fleet.prefill is None:
        size = _project_single(decode, ready[1], counts, fleet)
        return None if size == ready[1] else ScaleTo(None, size)
    pair = _project_pair((prefill, decode), ready, counts, fleet)
    return None if pair == ready else ScaleTo(*pair)


def _project_single(decode: int, ready: int, counts: WorkerCounts, fleet: Fleet) -> int:
    gpus, bounds = fleet.decode.gpus, fleet.bounds
    is_outside = False
    if not counts.are_busy:
        decode = max(decode, fleet.decode_floor)
        is_outside = not bounds.hold(ready * gpus, bounds.tolerance(gpus))
    if decode == ready and not is_outside:
        return ready
    return clamp_single(max(decode, fleet.decode_floor), gpus, bounds, fleet.decode_floor)


def _project_pair(pair: tuple[int, int], ready: tuple[int, int], counts: WorkerCounts, fleet: Fleet) -> tuple[int, int]:
    costs, bounds = fleet.costs, fleet.bounds
    is_outside = False
    if not counts.are_busy:
        pair = costs.lift(pair)
        is_outside = not bounds.hold(costs.total(ready), bounds.tolerance(costs.largest))
    if pair == ready and not is_outside:
        return ready
    return clamp_pair(costs.lift(pair), costs, bounds)
