"""A request inside an engine, and the results of trying to schedule it."""

from __future__ import annotations

import enum

from engines.block_pool import BlockPool
from messages.requests import Request


class Sequence:
    """State of one request on one rank. Lengths in tokens.

    prompt_tokens: prompt length. max_output: requested output. limit: tokens it may generate at all.
    generated: tokens generated. computed: leading tokens whose KV exists.
    blocks: blocks held. keys: cached copies among them, in prefix order; the blocks beyond are private.
    """

    __slots__ = (
        "_private_first",
        "block_ids",
        "blocks",
        "computed",
        "generated",
        "keys",
        "limit",
        "max_output",
        "ordinal",
        "preempted",
        "prompt_tokens",
    )

    def __init__(self, request: Request, max_model_len: int | None) -> None:
        self.ordinal = request.ordinal
        self.prompt_tokens = request.input_tokens
        self.max_output = request.output_tokens
        self.block_ids = request.block_ids
        self.limit = self.max_output
        if max_model_len is not None:
            self.limit = min(self.limit, max(max_model_len - self.prompt_tokens, 0))
        self.generated = 0
        self.computed = 0
        self.blocks = 0
        self.keys: list[int] = []
        self.preempted = False
        self._private_first: int | None = None

    @property
    def length(self) -> int:
        """Known tokens: prompt and generated."""
        return self.prompt_tokens + self.generated

    @property
    def complete(self) -> bool:
        """Whether nothing remains to be generated."""
        return self.generated >= self.limit

    def identities(self, first: int, last: int, pool: BlockPool) -> tuple[int, ...]:
        """Identities of its blocks `first` to `last` - 1."""
        shared = len(self.block_ids)
        if last <= shared:
            return self.block_ids[first:last]
        if self._private_first is None:
            # Enough for every block it can ever fill, so that the numbers stay the same after a preemption.
            self._private_first = pool.private_identities(self.prompt_tokens + self.limit)
        start = self._private_first + shared
        return self.block_ids[first:shared] + tuple(range(start - max(first, shared), start - last, -1))

    def known_identities(self, block_size: int) -> tuple[int, ...]:
        """Identities of its complete blocks, as far as any of them can be in a cache."""
        known = self.length // block_size
        shared = len(self.block_ids)
        if known <= shared or self._private_first is None:
            return self.block_ids if known == shared else self.block_ids[:known]
        start = self._private_first + shared
        return self.block_ids + tuple(range(start - shared, start - known, -1))


class Outcome(enum.Enum):
    """What came of scheduling one request."""

    SCHEDULED = enum.auto()
    BLOCKED = enum.auto()
    PREEMPTED_ITSELF = enum.auto()


class Batch:
    """What one pass has scheduled so far.

    scheduled: request -> (tokens, prompt tokens among them, prompt tokens before).
    """

    __slots__ = ("budget", "isl", "preemptions", "prefill_count", "prefill_tokens", "prefix", "scheduled")

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.prefill_count = 0
        self.isl = 0
        self.prefix = 0
        self.prefill_tokens = 0
        self.preemptions = 0
        self.scheduled: dict[Sequence, tuple[int, int, int]] = {}

    def add(self, sequence: Sequence, used: int, prompt_tokens: int, prompt_before: int) -> None:
        """Count `used` tokens of a request against the budget and its prompt part as prefill."""
        self.scheduled[sequence] = (used, prompt_tokens, prompt_before)
        self.budget -= used
        if prompt_tokens > 0:
            self.prefill_count += 1
            self.isl += prompt_before + prompt_tokens
            self.prefix += prompt_before
            self.prefill_tokens += used

    def remove(self, sequence: Sequence) -> None:
        """Undo `add` for a request that lost its blocks again in the same pass."""
        entry = self.scheduled.pop(sequence, None)
        if entry is None:
            return
        used, prompt_tokens, prompt_before = entry
        self.budget += used
        if prompt_tokens > 0:
            self.prefill_count -= 1
            self.isl -= prompt_before + prompt_tokens
            self.prefix -= prompt_before
            self.prefill_tokens -= used
