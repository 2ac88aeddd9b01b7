"""The choice of a rank: the cost of every rank that may be chosen, and the lowest of them, or a draw."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping, Sequence

import msgspec

from actors.routing.kv.load import Loads


class CostModel(msgspec.Struct, frozen=True):
    """Weights of the cost, which is measured in blocks of `block_size` tokens. Names as in `KvRouterConfig`."""

    block_size: int
    overlap_credit: float
    credit_decay: float
    prefill_scale: float
    request_weight: float
    track_prefill: bool
    track_blocks: bool

    def costs(
        self,
        ranks: Sequence[int],
        input_tokens: int,
        overlaps: Mapping[int, int],
        active: Mapping[int, int],
        loads: Loads,
    ) -> list[float]:
        """The cost of a prompt on each of `ranks`.

        overlaps, active: leading blocks of it that each rank has cached, or among those of its active requests.
        The order of the operations is that of the reference, so that equal costs are equal to the last bit.
        """
        size = self.block_size
        full_blocks = input_tokens // size
        request_blocks = -(-input_tokens // size)
        tokens, blocks, requests = loads.prefill_tokens, loads.blocks, loads.requests
        fades = self.track_prefill and self.credit_decay > 0.0
        least = min([tokens[rank] for rank in ranks]) if fades else 0
        costs: list[float] = []
        for rank in ranks:
            cached = overlaps.get(rank, 0)
            prefill = 0.0
            if self.track_prefill:
                credit = self.overlap_credit
                if fades:
                    excess = (tokens[rank] - least) / size
                    credit *= 1.0 / (1.0 + self.credit_decay * (excess / request_blocks))
                prefill = max((tokens[rank] + max(input_tokens, cached * size)) / size - credit * cached, 0.0)
            decode = blocks[rank] + full_blocks - active.get(rank, 0) if self.track_blocks else 0
            costs.append(self.prefill_scale * prefill + decode + self.request_weight * requests[rank])
        return costs


class Chooser:
    """Takes the first of the lowest costs; with a temperature, draws: the lower a cost, the likelier."""

    def __init__(self, temperature: float, seed: str) -> None:
        self._temperature = temperature
        self._random = random.Random(seed)

    def choose(self, costs: Sequence[float]) -> int:
        """The index of the chosen cost; there is at least one."""
        lowest = min(costs)
        if self._temperature == 0.0:
            return costs.index(lowest)
        drawn = self._random.random()
        spread = (max(costs) - lowest) * self._temperature
        if spread == 0.0:
            candidates = [index for index, cost in enumerate(costs) if cost == lowest]
            return candidates[int(drawn * len(candidates))]
        weights = [math.exp(-(cost - lowest) / spread) for cost in costs]
        total = sum(weights)
        reached = 0.0
        for index, weight in enumerate(weights):
            reached += weight / total
            if reached >= drawn:
                return index
        return len(costs) - 1
