"""The decoding requests of an SGLang rank, advanced together, with their pages in a radix cache."""

from __future__ import annotations

import heapq

from engines.decode_batch import LockstepBatch
from engines.radix_lease import RadixLeases, RadixSequence


class RadixBatch(LockstepBatch[RadixSequence]):
    """Running requests that emit one token each in every pass, and fill a page in every `page_size`-th.

    A page of generated tokens is its member's own, and so is the tree's node that ends with it. Nobody notices when
    such a node grows, so the pages after the first of them are inserted when the member leaves, with the time stamp of
    the pass that filled the last. All other insertions are made in their pass.
    """

    def __init__(self, leases: RadixLeases, page_size: int) -> None:
        super().__init__(page_size)
        self._leases = leases
        self._cache = leases.cache
        self._due: list[tuple[int, int, RadixSequence]] = []
        """(decode pass, order, member) of insertions that others can notice."""
        self._due_private: list[tuple[int, int, RadixSequence]] = []
        """The same of first pages of generated tokens: only what the tree looks like in that pass matters."""

    def join(self, sequence: RadixSequence) -> None:
        """Take a running request in."""
        self.add(sequence)
        self._schedule_insertion(sequence, sequence.computed)

    def leave(self, sequence: RadixSequence) -> None:
        """Let a member go, with those pages in the tree that it inserted when it generated tokens.

        A last token inserts nothing: that is left to the end of the request.
        """
        self.remove(sequence)
        sequence.due = -1
        since_filled = sequence.computed % self._block_size
        if self.passes > sequence.joined and (since_filled or not sequence.complete):
            stamp = self._cache.stamp_of_token(self._cache.decode_passes - since_filled, sequence.order)
            self._leases.publish(sequence, sequence.computed, stamp)

    def passes_to_insertion(self, most: int) -> int:
        """Passes until a member inserts what others can notice, or `most` if that is less."""
        due = self._due
        while due and due[0][0] != due[0][2].due:
            heapq.heappop(due)
        return min(due[0][0] - self._cache.decode_passes, most) if due else most

    def decode(self, passes: int) -> list[RadixSequence]:
        """Go through passes for which there are pages; returns the members that are complete, in order of admission.

        No member may be complete, and none insert what others can notice, before the last of these passes.
        """
        cache = self._cache
        before = cache.decode_passes
        due: list[tuple[int, int, RadixSequence]] = []
        for heap in (self._due, self._due_private):
            while heap and heap[0][0] <= before + passes:
                due.append(heapq.heappop(heap))
        due.sort(key=lambda entry: entry[:2])
        taken = 0
        inserted: list[tuple[RadixSequence, int]] = []
        for at, order, sequence in due:
            if at == sequence.due:
                # Where in the tree it goes can depend on what was evicted before.
                needed = self.blocks_needed(at - before)
                self._leases.take(needed - taken)
                taken = needed
                computed = sequence.computed + self.passes - sequence.joined + at - before
                self._leases.publish(sequence, computed, cache.stamp_of_token(at, order))
                inserted.append((sequence, computed + before + passes - at))
        self._leases.take(self.blocks_needed(passes) - taken)
        cache.decode_passes += passes
        finished = self.advance(passes)
        for sequence, computed in inserted:
            self._schedule_insertion(sequence, computed)
        return finished

    def _schedule_insertion(self, sequence: RadixSequence, computed: int) -> None:
        """Note in which pass a member with `computed` tokens must insert its next page, if any."""
        sequence.due = -1
        leases = self._leases
        if not leases.prefix_caching or sequence.published > sequence.shared_blocks:
            return
        overdue = computed // self._block_size > sequence.published
        passes = 1 if overdue else self._block_size - computed % self._block_size
        if passes < sequence.finish - self.passes:
            sequence.due = self._cache.decode_passes + passes
            private = sequence.published >= sequence.shared_blocks and not overdue
            heapq.heappush(self._due_private if private else self._due, (sequence.due, sequence.order, sequence))
