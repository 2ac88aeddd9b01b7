"""The queue policy "lpm" of SGLang: requests with the longest cached prefix first."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from engines.radix_lease import RadixSequence

LONGEST_SORTED_QUEUE = 128
"""Requests; a longer queue keeps the order that it has."""

_SHORT_PREFIX = 32
"""Tokens: up to here a cached prefix is too short to tell requests apart."""


def longest_prefix_first(
    waiting: Iterable[RadixSequence], page_size: int, resident: Callable[[RadixSequence], int]
) -> list[RadixSequence]:
    """The queue in its new order; equals keep theirs.

    Of several requests that begin alike and whose beginning is not cached, all but the first go to the end: they will
    find the beginning cached once the first has been through. Sorting a sorted queue changes nothing.

    resident: tells how many leading pages of a request are cached.
    """
    pages_compared = -(-_SHORT_PREFIX // page_size)
    seen: set[int] = set()
    keyed: list[tuple[tuple[bool, int], RadixSequence]] = []
    for sequence in waiting:
        pages = resident(sequence)
        duplicate = False
        if pages * page_size <= _SHORT_PREFIX and sequence.length >= pages_compared * page_size:
            beginning = _identity(sequence, pages_compared - 1)
            if beginning is not None:
                duplicate = beginning in seen
                seen.add(beginning)
        keyed.append(((duplicate, -pages), sequence))
    keyed.sort(key=lambda entry: entry[0])
    return [sequence for _, sequence in keyed]


def _identity(sequence: RadixSequence, page: int) -> int | None:
    """The identity of a page, which stands for all before it too; None where no other request can have it."""
    for start, end in sequence.spans:
        if page < end - start:
            return start + page
        page -= end - start
    return None
