"""What requests hold of the KV pages of an SGLang rank: taking, caching and giving back."""

from __future__ import annotations

from engines.page_events import PageEvents
from engines.radix_cache import Node, RadixCache
from engines.sequence import Sequence
from messages.kv import KvEvent
from messages.requests import Request, Span


class RadixSequence(Sequence):
    """A request on an SGLang rank. `blocks` counts its pages, `published` the leading ones that are in the tree.

    node: the locked node that ends with its published pages. announced: leading pages that were announced in KV events.
    due: decode pass in which its next page must be inserted, -1 for none.
    matched, matched_version: pages that the tree has of it, and at which version of the tree that was looked up.
    """

    __slots__ = ("announced", "due", "matched", "matched_version", "node")

    def __init__(self, request: Request, limit: int, root: Node) -> None:
        super().__init__(request, limit, limit)
        self.node = root
        self.announced = 0
        self.due = -1
        self.matched = 0
        self.matched_version = -1

    @property
    def remaining(self) -> int:
        """Tokens that it is still to generate."""
        return self.limit - self.generated

    def page_spans(self, first: int, last: int, cache: RadixCache) -> list[Span]:
        """Identities of its pages `first` to `last` - 1."""
        if last > self.shared_blocks and self._private_line is None:
            # Enough for every page it can ever fill, so that the numbers stay the same after a retraction.
            self._private_line = cache.private_line(self.prompt_tokens + self.limit)
        return [(start, end) for _, start, end in self._lines(first, last)]


class RadixLeases:
    """Takes pages for requests and puts them into the tree.

    Duplicates are not kept: where the tree has a page already, the request goes over to that one and frees its own.
    """

    def __init__(self, num_pages: int, page_size: int, *, prefix_caching: bool, capture_events: bool) -> None:
        self.cache = RadixCache(num_pages)
        self.prefix_caching = prefix_caching
        self._page_size = page_size
        self._events = PageEvents() if capture_events and prefix_caching else None
        if self._events is not None:
            self.cache.evicted = []

    @property
    def capture_events(self) -> bool:
        """Whether somebody sees in which pass pages are stored and evicted."""
        return self._events is not None

    def resident(self, sequence: RadixSequence) -> int:
        """How many of its complete pages the tree has."""
        if not self.prefix_caching:
            return 0
        if sequence.matched_version != self.cache.version:
            sequence.matched = self.cache.match(sequence.known_spans(self._page_size))
            sequence.matched_version = self.cache.version
        return sequence.matched

    def acquire(self, sequence: RadixSequence, prefix: int, end: int) -> bool:
        """Take pages for the tokens up to `end` of a request that has none, `prefix` of them from the tree."""
        node = self.cache.root
        if prefix:
            node = self.cache.lock_prefix(sequence.known_spans(self._page_size), prefix)
        fresh = -(-end // self._page_size) - prefix
        if fresh > self.cache.available:
            self.cache.unlock(node)
            return False
        self.take(fresh)
        sequence.node = node
        sequence.published = sequence.announced = prefix
        sequence.blocks = prefix + fresh
        sequence.computed = end
        self._announce(sequence, end // self._page_size)
        return True

    def extend(self, sequence: RadixSequence, end: int) -> bool:
        """Take what more a request needs for its tokens up to `end`."""
        fresh = max(-(-end // self._page_size) - sequence.blocks, 0)
        if fresh > self.cache.available:
            return False
        self.take(fresh)
        sequence.blocks += fresh
        sequence.computed = end
        self._announce(sequence, end // self._page_size)
        return True

    def take(self, pages: int) -> bool:
        """Take pages out of the pool, evicting what that needs."""
        taken = self.cache.take(pages)
        if self._events is not None and self.cache.evicted:
            self._events.evict(self.cache.evicted)
            self.cache.evicted.clear()
        return taken

    def publish(self, sequence: RadixSequence, computed: int, stamp: int) -> None:
        """Put the complete pages of a request with `computed` tokens into the tree and lock them."""
        last = computed // self._page_size
        if not self.prefix_caching or last <= sequence.published:
            return
        end = self._insert(sequence, last, stamp)
        if end is not sequence.node:
            self.cache.move_lock(sequence.node, end)
            sequence.node = end
        sequence.published = last
        sequence.matched_version = -1

    def complete(self, sequence: RadixSequence) -> None:
        """Leave the complete pages of a request in the tree and give back everything else."""
        last = sequence.computed // self._page_size if self.prefix_caching else 0
        self.cache.free += sequence.blocks - last
        if last > sequence.published:
            self._insert(sequence, last, self.cache.stamp())
        self.cache.unlock(sequence.node)
        self._clear(sequence)

    def retract(self, sequence: RadixSequence) -> None:
        """Give everything back; pages in the tree stay there until they are evicted."""
        if self._events is not None and sequence.announced > sequence.published:
            spans = sequence.page_spans(sequence.published, sequence.announced, self.cache)
            in_tree = max(self._in_tree(sequence, sequence.announced) - sequence.published, 0)
            self._events.withdraw(spans, in_tree)
        self.cache.free += sequence.blocks - sequence.published
        self.cache.unlock(sequence.node)
        self._clear(sequence)

    @property
    def foresees_evictions(self) -> bool:
        """Whether every page that the tree evicts is gone for good, so that `cache.next_evictions` tells it all."""
        return self._events is not None and not self._events.has_outside

    def take_events(self) -> tuple[KvEvent, ...]:
        """The KV events since the last call, in order."""
        return self._events.take() if self._events is not None else ()

    def _clear(self, sequence: RadixSequence) -> None:
        sequence.node = self.cache.root
        sequence.computed = sequence.blocks = sequence.published = sequence.announced = 0
        sequence.matched_version = -1

    def _insert(self, sequence: RadixSequence, last: int, stamp: int) -> Node:
        spans = sequence.page_spans(sequence.published, last, self.cache)
        self._announce(sequence, last)
        end, duplicates = self.cache.insert(sequence.node, spans, stamp)
        self.cache.free += duplicates
        if self._events is not None:
            self._events.enter_tree(spans)
        return end

    def _announce(self, sequence: RadixSequence, last: int) -> None:
        if self._events is None or last <= sequence.announced:
            return
        first = sequence.announced
        parent = sequence.page_spans(first - 1, first, self.cache)[0][0] if first else None
        in_tree = max(self._in_tree(sequence, last) - first, 0)
        self._events.announce(sequence.page_spans(first, last, self.cache), in_tree, parent)
        sequence.announced = last

    def _in_tree(self, sequence: RadixSequence, last: int) -> int:
        return self.cache.match(sequence.page_spans(0, last, self.cache))
