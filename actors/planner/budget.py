"""GPU budgets: how many workers a floor and a ceiling of GPUs leave of a wish.

Counts are workers, costs GPUs per worker. A negative bound is off. With both bounds set, a total may stay below the
floor by less than the largest cost, because a worker more could break the ceiling.
"""

from __future__ import annotations

import math
from typing import NamedTuple

HOLD = "gpu_budget_guard_hold"
RECONCILE = "gpu_budget_reconcile"

Pair = tuple[int, int]


class Bounds(NamedTuple):
    """Least and most GPUs; negative is off."""

    floor: int
    ceiling: int

    @property
    def are_off(self) -> bool:
        """Whether there is no bound at all."""
        return self.floor < 0 and self.ceiling < 0

    @property
    def ceiling_only(self) -> Bounds:
        """The same without its floor."""
        return Bounds(-1, self.ceiling)

    def tolerance(self, cost: int) -> int:
        """By how much a total of workers that cost this may stay below the floor."""
        return cost if self.floor >= 0 and self.ceiling >= 0 else 0

    def hold(self, total: int, tolerance: int) -> bool:
        """Whether a total is within the bounds."""
        if 0 <= self.ceiling < total:
            return False
        return not (self.floor >= 0 and total < self.floor - tolerance)


class PairCosts(NamedTuple):
    """What a pair of pools is held to: GPUs per worker and least workers of each."""

    prefill_gpus: int
    decode_gpus: int
    prefill_floor: int
    decode_floor: int

    @property
    def are_unknown(self) -> bool:
        """Whether a role costs nothing, which leaves no budget to keep."""
        return self.prefill_gpus <= 0 or self.decode_gpus <= 0

    @property
    def largest(self) -> int:
        """GPUs of the dearer worker."""
        return max(self.prefill_gpus, self.decode_gpus)

    def total(self, pair: Pair) -> int:
        """GPUs of a pair of pools."""
        return pair[0] * self.prefill_gpus + pair[1] * self.decode_gpus

    def lift(self, pair: Pair) -> Pair:
        """A pair raised to its floors."""
        return max(pair[0], self.prefill_floor), max(pair[1], self.decode_floor)


def clamp_single(desired: int, gpus: int, bounds: Bounds, floor: int) -> int:
    """Bring the size of one pool into the budget; 0 where not even `floor` workers fit under the ceiling."""
    if bounds.are_off or gpus <= 0 or bounds.hold(desired * gpus, bounds.tolerance(gpus)):
        return desired
    if 0 <= bounds.ceiling < desired * gpus:
        return 0 if bounds.ceiling < floor * gpus else max(floor, bounds.ceiling // gpus)
    return max(floor, math.ceil(bounds.floor / gpus))


def guard_single(current: int, proposed: int, gpus: int, bounds: Bounds, floor: int) -> tuple[int, str | None]:
    """Change one pool only within the budget; the reason tells of a wish held back or a size repaired."""
    if gpus <= 0:
        return proposed, None
    total = current * gpus
    if not bounds.hold(total, bounds.tolerance(gpus)):
        return clamp_single(current, gpus, bounds, floor), RECONCILE
    if bounds.floor >= 0 and total <= bounds.floor and proposed < current:
        return current, HOLD
    if 0 <= bounds.ceiling <= total and proposed > current:
        return current, HOLD
    wanted = clamp_single(proposed, gpus, bounds, floor)
    if not _between(wanted, current, proposed):
        return current, HOLD
    return wanted, None


def clamp_pair(pair: Pair, costs: PairCosts, bounds: Bounds) -> Pair:
    """Bring the sizes of two pools into the budget, in proportion; (0, 0) where the floors do not fit the ceiling."""
    if bounds.are_off or costs.are_unknown:
        return pair
    total = costs.total(pair)
    if bounds.hold(total, bounds.tolerance(costs.largest)):
        return pair
    if 0 <= bounds.ceiling < total:
        return _shrink_pair(pair, costs, bounds.ceiling)
    return _grow_pair(pair, costs, bounds)


def _shrink_pair(pair: Pair, costs: PairCosts, ceiling: int) -> Pair:
    gp, gd, fp, fd = costs
    if ceiling < fp * gp + fd * gd:
        return 0, 0
    scale = ceiling / costs.total(pair)
    prefill = max(fp, min(math.floor((ceiling - fd * gd) / gp), math.floor(pair[0] * scale)))
    return prefill, max(fd, math.floor((ceiling - prefill * gp) / gd))


def _grow_pair(pair: Pair, costs: PairCosts, bounds: Bounds) -> Pair:
    gp, gd, fp, fd = costs
    total = costs.total(pair)
    if total <= 0:
        prefill = max(fp, math.ceil(bounds.floor / 2 / gp))
    else:
        prefill = max(fp, math.ceil(pair[0] * (bounds.floor / total)))
    needed = max(fd, math.ceil(max(0, bounds.floor - prefill * gp) / gd))
    decode = max(pair[1], needed)
    if 0 <= bounds.ceiling < prefill * gp + decode * gd:
        return pair if needed >= pair[1] else fit_pair(pair, (prefill, pair[1]), costs, bounds)
    return prefill, decode


def fit_pair(current: Pair, proposed: Pair, costs: PairCosts, bounds: Bounds) -> Pair:
    """The pair between two that is within the budget and nearest to the proposal; the current one where there is none.

    A proposal that moves the pools in opposite directions is followed by both of them or by neither.
    """
    if costs.are_unknown:
        return proposed
    (cp, cd), (pp, pd) = current, proposed
    tolerance = bounds.tolerance(costs.largest)
    opposite = (pp - cp) * (pd - cd) < 0
    best: tuple[int, int, int, int, int] | None = None
    for a in range(max(min(cp, pp), costs.prefill_floor), max(cp, pp) + 1):
        for b in range(max(min(cd, pd), costs.decode_floor), max(cd, pd) + 1):
            if not bounds.hold(costs.total((a, b)), tolerance):
                continue
            if (a, b) == proposed:
                return proposed
            if opposite and (a != cp) != (b != cd):
                continue
            skew = abs(abs(a - cp) * abs(pd - cd) - abs(b - cd) * abs(pp - cp))
            rank = (abs(pp - a) + abs(pd - b), skew, -(abs(a - cp) + abs(b - cd)), a, b)
            best = rank if best is None else min(best, rank)
    return current if best is None else (best[3], best[4])


def guard_pair(current: Pair, proposed: Pair, costs: PairCosts, bounds: Bounds) -> tuple[Pair, str | None]:
    """Change two pools only within their common budget; the reason is as in `guard_single`."""
    if costs.are_unknown:
        return clamp_pair(proposed, costs, bounds), None
    tolerance = costs.largest if bounds.ceiling >= 0 else 0
    total = costs.total(current)
    if not bounds.hold(total, tolerance):
        return clamp_pair(current, costs, bounds), RECONCILE
    moves = (proposed[0] - current[0], proposed[1] - current[1])
    some_up, some_down = max(moves) > 0, min(moves) < 0
    opposite = some_up and some_down
    at_floor = total <= bounds.floor
    if at_floor and some_down and not some_up:
        return current, HOLD
    if (at_floor and opposite) or (0 <= bounds.ceiling <= total and some_up):
        fitted = fit_pair(current, proposed, costs, bounds) if opposite else current
        return fitted, (HOLD if fitted == current else None)
    wanted = clamp_pair(proposed, costs, bounds)
    inside = all(_between(*counts) for counts in zip(wanted, current, proposed, strict=True))
    if not inside or not bounds.hold(costs.total(wanted), tolerance):
        return current, HOLD
    return wanted, None


def _between(count: int, one: int, other: int) -> bool:
    return min(one, other) <= count <= max(one, other)
