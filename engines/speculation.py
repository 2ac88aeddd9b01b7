"""Speculative decoding: how many tokens a request gets out of a pass."""

from __future__ import annotations

from collections.abc import Sequence

from engines.chacha import ChaChaStream
from engines.engine import EngineOptions
from messages.spec import RankSpec

DEFAULT_ACCEPT_RATES = (0.85, 0.3)
"""Conditional acceptance rates where the spec gives none; those beyond them are 0."""

_MASK_64 = 2**64 - 1


class SpeculativeSampler:
    """Draws accepted lengths for one rank. Draft token i is accepted with `accept_rates[i]` if all before it were.

    draft_tokens: draft tokens per pass. accept_rates: missing ones are 0, surplus ones are ignored.
    seed: of the rank; every rank has its own.
    """

    def __init__(self, draft_tokens: int, accept_rates: Sequence[float], seed: int) -> None:
        self.draft_tokens = draft_tokens
        rates = (*accept_rates, *[0.0] * draft_tokens)[:draft_tokens]
        # A rate of 1 needs no draw; any other is compared with 64 random bits.
        self._thresholds = [None if rate == 1.0 else int(rate * 2.0**64) for rate in rates]
        self._stream = ChaChaStream(seed & _MASK_64)

    def draw(self) -> int:
        """Tokens that the next request gets if nothing limits them: one, and one per accepted draft token."""
        accepted = 1
        for threshold in self._thresholds:
            if threshold is not None and self._stream.draw_u64() >= threshold:
                break
            accepted += 1
        return accepted


def build_sampler(rank: RankSpec, options: EngineOptions) -> SpeculativeSampler | None:
    """The sampler of one rank, or None where the spec has no speculation."""
    if rank.aic_nextn is None:
        return None
    seed = rank.aic_mtp_seed + options.worker_id * options.dp_size + options.dp_rank
    return SpeculativeSampler(rank.aic_nextn, rank.accept_rates() or DEFAULT_ACCEPT_RATES, seed)
