"""The admission budget of SGLang: how much of the cache and of a pass new requests may take."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import numpy as np
from numpy.typing import NDArray

from engines.sequence import Sequence
from messages.spec import RankSpec

_TOLERANCE = 1e-9
"""Relative; much more than sums of a few thousand doubles can be off."""


class NewTokenRatio:
    """The share of their remaining output that running requests are assumed to need, a double.

    It starts at an initial value, falls a step with every decode pass down to a floor, and is estimated anew when
    requests are retracted.
    """

    def __init__(self, conservativeness: float) -> None:
        self._initial = 0.7 * conservativeness
        self._floor = self._initial * 0.14
        self._step = (self._initial - self._floor) / 600.0
        self.value = self._initial

    @property
    def settled(self) -> bool:
        """Whether it is at its floor."""
        return self.value == self._floor

    def reset(self) -> None:
        """Go back to the initial value."""
        self.value = self._initial

    def decay(self, passes: int = 1) -> None:
        """Follow `passes` decode passes."""
        for _ in range(passes):
            if self.settled:
                return
            self.value = max(self.value - self._step, self._floor)

    def ahead(self, passes: int) -> NDArray[np.float64]:
        """The values before each of the next `passes` decode passes."""
        steps = np.full(passes, self._step)
        steps[0] = self.value
        values = np.subtract.accumulate(steps)
        values[1:] = np.maximum(values[1:], self._floor)
        return values

    def estimate(self, survivors: Iterable[Sequence]) -> None:
        """Set it from the running requests that outlived a retraction."""
        generated = limits = count = 0
        for sequence in survivors:
            generated += sequence.generated
            limits += sequence.limit
            count += 1
        self.value = min((float(generated) + 20.0 * float(count)) / (float(limits) + 1.0), 1.0)


class Demand(msgspec.Struct, frozen=True):
    """What the next chunk of a request takes, in tokens: computed ones, the same in whole pages, reserved output."""

    tokens: int
    charge: int
    reserved: int


class AdmissionRules:
    """Limits of a pass. dp_size: ranks of the worker; they share the chunk and are less cautious.

    Attributes:
        max_prefill_tokens, chunk_tokens: per pass. clip: most output tokens that are reserved per request.
    """

    def __init__(self, rank: RankSpec, dp_size: int) -> None:
        self.page_size = rank.tokens_per_block
        self.max_prefill_tokens = rank.sglang.max_prefill_tokens
        self.chunk_tokens = rank.sglang.chunked_prefill_size
        self.clip = rank.sglang.clip_max_new_tokens
        self.conservativeness = rank.sglang.schedule_conservativeness
        if dp_size > 1:
            self.chunk_tokens //= dp_size
            self.conservativeness *= 0.3

    def demand(self, rest: int, remaining: int, chunk_left: int) -> Demand | None:
        """What a request with `rest` tokens to compute and `remaining` to generate takes next; None: nothing fits."""
        size = self.page_size
        tokens = rest
        if -(-rest // size) * size > chunk_left:
            tokens = chunk_left // size * size
            if not tokens:
                return None
        reserved = min(remaining, self.clip) if tokens == rest else 0
        return Demand(tokens, -(-tokens // size) * size, reserved)

    def least_demand(self, length: int, rest: int, remaining: int) -> int | None:
        """The least that a request can ask of the cache in an otherwise empty pass, even if its prefix gets evicted.

        length: all its tokens. Returns None if it is refused whatever the cache has.
        """
        demand = self.demand(rest, remaining, self.chunk_tokens)
        if demand is None or demand.charge > self.max_prefill_tokens:
            return None
        least = demand.charge + demand.reserved
        if demand.tokens == rest and -(-length // self.page_size) * self.page_size > self.chunk_tokens:
            # With less of a prefix it would be cut, and what is cut reserves no output.
            least = min(least, self.chunk_tokens // self.page_size * self.page_size)
        return least

    def why_refused(self, rest: int, remaining: int, num_pages: int) -> str:
        """Why a request that an otherwise idle rank does not admit never will be, for its record."""
        demand = self.demand(rest, remaining, self.chunk_tokens)
        if demand is None:
            return f"a chunk of {self.chunk_tokens} tokens is smaller than a page of {self.page_size}"
        if demand.charge > self.max_prefill_tokens:
            return f"a chunk of {demand.charge} tokens exceeds max_prefill_tokens {self.max_prefill_tokens}"
        return (
            f"{demand.charge} tokens to compute and {demand.reserved} reserved for output do not fit the KV cache "
            f"of {num_pages * self.page_size} tokens"
        )

    def left_by(self, available_pages: int, remaining: Iterable[int], ratio: float) -> float:
        """Tokens of the cache that running requests with so many tokens to generate leave to others."""
        reserve = 0.0
        for tokens in remaining:
            reserve += float(min(tokens, self.clip)) * ratio
        return float(available_pages * self.page_size) - reserve

    def passes_refused(
        self, least: int, available_pages: NDArray[np.int64], remaining: list[int], ratios: NDArray[np.float64]
    ) -> int:
        """How many decode passes begin with a budget that is surely too small for a demand of `least` tokens.

        available_pages, ratios: before each pass. remaining: tokens that each running request is still to generate.
        Where rounding could decide, the answer is the number of passes before that.
        """
        clipped = [tokens - self.clip for tokens in remaining if tokens > self.clip]
        passes = min(len(ratios), min(clipped, default=len(ratios)))
        capped = sum(min(tokens, self.clip) for tokens in remaining)
        falling = len(remaining) - len(clipped)
        reserves = ratios[:passes] * (float(capped) - float(falling) * np.arange(passes))
        tokens_available = available_pages[:passes] * float(self.page_size)
        margins = least - (tokens_available - reserves)
        admissible = np.nonzero(margins <= _TOLERANCE * (1.0 + tokens_available + reserves))[0]
        return int(admissible[0]) if len(admissible) else passes
