"""A request inside an engine, what one pass schedules, and the outcomes of trying."""

from __future__ import annotations

import enum
from collections.abc import Iterator

from engines.block_pool import BlockPool, Held
from messages.requests import Request, Span
from messages.spec import RankSpec


def output_limit(rank: RankSpec, input_tokens: int, output_tokens: int) -> int:
    """How many of the requested output tokens a request can emit before it meets a limit of its rank.

    The model's context ends it on every backend; TensorRT-LLM also plans with the size of the cache.
    """
    if rank.max_model_len is not None:
        output_tokens = min(output_tokens, max(rank.max_model_len - input_tokens, 0))
    cache_tokens = rank.num_gpu_blocks * rank.tokens_per_block
    if rank.backend == "trtllm" and input_tokens < cache_tokens:
        output_tokens = min(output_tokens, cache_tokens - input_tokens)
    return output_tokens


class Sequence:
    """State of one request on one rank. Lengths in tokens, counts in blocks.

    prompt_tokens: prompt length. max_output: output to aim for. limit: tokens it may generate at all.
    generated: tokens generated. computed: leading tokens whose KV exists. While a `DecodeBatch` carries
        the request, these and `blocks` are as of its joining.
    spans, shared_blocks: identities of the blocks whose content others may repeat, and how many those are.
    blocks: blocks held. held, published: the cached ones among them, and how many those are.
    footprint: blocks it will hold at its end, where the scheduler plans with that.
    order: place in the order of admission. accepted: place in the order of destinations; tried: see
        `engines.destinations.Destinations`.
    """

    __slots__ = (
        "_private_line",
        "accepted",
        "blocks",
        "computed",
        "finish",
        "footprint",
        "generated",
        "held",
        "joined",
        "limit",
        "max_output",
        "order",
        "ordinal",
        "preempted",
        "prompt_tokens",
        "published",
        "shared_blocks",
        "spans",
        "tried",
    )

    def __init__(self, request: Request, max_output: int, limit: int) -> None:
        self.ordinal = request.ordinal
        self.prompt_tokens = request.input_tokens
        self.max_output = max_output
        self.limit = limit
        self.spans = request.spans
        self.shared_blocks = sum(end - start for start, end in request.spans)
        self.generated = 0
        self.computed = 0
        self.blocks = 0
        self.held: list[Held] = []
        self.published = 0
        self.preempted = False
        self.footprint = 0
        self.accepted = 0
        self.tried = -1
        self.order = 0
        self.joined = 0
        self.finish = 0
        self._private_line: int | None = None

    @property
    def length(self) -> int:
        """Known tokens: prompt and generated."""
        return self.prompt_tokens + self.generated

    @property
    def complete(self) -> bool:
        """Whether nothing remains to be generated."""
        return self.generated >= self.limit

    @property
    def prompt_built(self) -> bool:
        """Whether the KV of the whole prompt exists."""
        return self.computed >= self.prompt_tokens

    def repeats_outputs(self, block_size: int) -> bool:
        """Whether blocks with generated tokens are among those that other requests may repeat."""
        return self.shared_blocks > self.prompt_tokens // block_size

    def known_spans(self, block_size: int) -> tuple[Span, ...]:
        """Identities of its complete blocks, as far as any of them can be in a cache."""
        known = self.length // block_size
        if known == self.shared_blocks or (known > self.shared_blocks and self._private_line is None):
            return self.spans
        return tuple((start, end) for _, start, end in self._lines(0, known))

    def private_tail(self, last: int, pool: BlockPool) -> tuple[int, int, int] | None:
        """(line, start, end) of the private identities of its blocks `published` to `last` - 1, if there are any."""
        if last <= max(self.published, self.shared_blocks):
            return None
        if self._private_line is None:
            # Enough for every block it can ever fill, so that the numbers stay the same after a preemption.
            self._private_line = pool.private_line(self.prompt_tokens + self.limit)
        line = self._private_line
        return line, line + max(self.published - self.shared_blocks, 0), line + last - self.shared_blocks

    def publish(self, last: int, pool: BlockPool) -> None:
        """Make its blocks up to `last` - 1 visible to later lookups."""
        if last <= self.published:
            return
        if last > self.shared_blocks and self._private_line is None:
            self._private_line = pool.private_line(self.prompt_tokens + self.limit)
        parent = self.held[-1][1] - 1 if self.held else None
        for line, start, end in self._lines(self.published, last):
            pool.publish(self.held, line, start, end, parent)
            parent = end - 1
        self.published = last

    def _lines(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """(line, start, end) of the identities of its blocks `first` to `last` - 1."""
        skip, rest = first, last - first
        for line, end in self.spans:
            size = end - line
            if skip >= size:
                skip -= size
                continue
            count = min(size - skip, rest)
            if count <= 0:
                return
            yield line, line + skip, line + skip + count
            skip, rest = 0, rest - count
        if rest > 0 and self._private_line is not None:
            line = self._private_line
            yield line, line + skip, line + skip + rest


class Outcome(enum.Enum):
    """What came of scheduling one request."""

    SCHEDULED = enum.auto()
    BLOCKED = enum.auto()
    PREEMPTED_ITSELF = enum.auto()


class Batch:
    """What one pass has scheduled so far, request by request.

    budget: tokens left. defer: prompts are left alone.
    scheduled: request -> (tokens, prompt tokens among them, prompt tokens before). preempted: who was.
    """

    __slots__ = (
        "budget",
        "defer",
        "isl",
        "preempted",
        "prefill_count",
        "prefill_tokens",
        "prefix",
        "scheduled",
    )

    def __init__(self, budget: int, *, defer: bool = False) -> None:
        self.budget = budget
        self.defer = defer
        self.prefill_count = 0
        self.isl = 0
        self.prefix = 0
        self.prefill_tokens = 0
        self.preempted: list[int] = []
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
