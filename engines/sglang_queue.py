"""The waiting queue of SGLang, in order of arrival ("fifo") or by the longest cached prefix ("lpm")."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from engines.radix_lease import RadixLeases, RadixSequence
from messages.spec import RankSpec

_LONGEST_SORTED = 128
"""Requests; a longer queue keeps the order that it has."""

_SHORT_PREFIX = 32
"""Tokens: up to here a cached prefix is too short to tell requests apart."""


class WaitingQueue:
    """Requests that wait for (the rest of) their prefill.

    Attributes:
        sorts: whether the policy is "lpm" and has an effect.
        too_long: how many of the requests have a prompt that the model cannot take.
    """

    def __init__(self, rank: RankSpec, leases: RadixLeases) -> None:
        self.sorts = rank.sglang.schedule_policy == "lpm" and rank.enable_prefix_caching
        self.too_long = 0
        self._page_size = rank.tokens_per_block
        self._max_model_len = rank.max_model_len
        self._leases = leases
        self._requests: deque[RadixSequence] = deque()
        self._sorted_at = -1
        """Version of the tree at which the queue was sorted last, -1 where the queue has changed since."""

    def __len__(self) -> int:
        return len(self._requests)

    def __iter__(self) -> Iterator[RadixSequence]:
        return iter(self._requests)

    @property
    def head(self) -> RadixSequence:
        """The request at the front of a queue that is not empty."""
        return self._requests[0]

    def append(self, sequence: RadixSequence) -> None:
        """Put a request at the end."""
        self.too_long += self._is_too_long(sequence)
        self._requests.append(sequence)
        self._sorted_at = -1

    def put_back(self, sequence: RadixSequence) -> None:
        """Put a request at the front."""
        self._requests.appendleft(sequence)
        self._sorted_at = -1

    def pop(self) -> RadixSequence:
        """Take the request at the front."""
        self._sorted_at = -1
        return self._requests.popleft()

    def take_too_long(self) -> list[RadixSequence]:
        """Take out the requests with a prompt that the model cannot take."""
        if not self.too_long:
            return []
        taken = [sequence for sequence in self._requests if self._is_too_long(sequence)]
        self._requests = deque(sequence for sequence in self._requests if not self._is_too_long(sequence))
        self.too_long = 0
        self._sorted_at = -1
        return taken

    def sort(self) -> None:
        """Apply the policy. Sorting again changes nothing as long as neither queue nor tree change."""
        version = self._leases.cache.version
        if not self.sorts or self._sorted_at == version or len(self._requests) > _LONGEST_SORTED:
            return
        if len(self._requests) > 1:
            self._requests = deque(self._longest_prefix_first())
        self._sorted_at = version

    def _longest_prefix_first(self) -> Iterable[RadixSequence]:
        """The queue in its new order; equals keep theirs.

        Of several requests that begin alike and whose beginning is not cached, all but the first go to the end: they
        will find the beginning cached once the first has been through.
        """
        pages_compared = -(-_SHORT_PREFIX // self._page_size)
        seen: set[int] = set()
        keyed: list[tuple[tuple[bool, int], RadixSequence]] = []
        for sequence in self._requests:
            pages = self._leases.resident(sequence)
            duplicate = False
            if pages * self._page_size <= _SHORT_PREFIX and sequence.length >= pages_compared * self._page_size:
                beginning = _identity(sequence, pages_compared - 1)
                if beginning is not None:
                    duplicate = beginning in seen
                    seen.add(beginning)
            keyed.append(((duplicate, -pages), sequence))
        keyed.sort(key=lambda entry: entry[0])
        return [sequence for _, sequence in keyed]

    def _is_too_long(self, sequence: RadixSequence) -> bool:
        return self._max_model_len is not None and sequence.prompt_tokens >= self._max_model_len


def _identity(sequence: RadixSequence, page: int) -> int | None:
    """The identity of a page, which stands for all before it too; None where no other request can have it."""
    for start, end in sequence.spans:
        if page < end - start:
            return start + page
        page -= end - start
    return None
