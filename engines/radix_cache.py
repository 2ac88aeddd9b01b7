"""The KV pages of one SGLang rank: a radix tree of cached prefixes over a pool of pages.

Keys are page identities (`engines.prompts`), kept as spans: a node of any number of pages costs as much as it has
spans. Physical pages are only counted: which of them holds what is of no consequence.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from messages.kv import Eviction
from messages.requests import Span

_DECODE_SHIFT = 40
_AFTER_TOKENS = 1 << (_DECODE_SHIFT - 1)


class Node:
    """A stretch of pages with one parent and one lock count.

    spans, pages: identities of its pages, and how many those are. children: by the first identity of each.
    locks: requests that use the node or one below it. used_at: time stamp of the last use.
    listed: whether it is in the heap of candidates for eviction.
    """

    __slots__ = ("children", "listed", "locks", "pages", "parent", "spans", "used_at")

    def __init__(self, parent: Node | None, spans: list[Span], pages: int, used_at: int) -> None:
        self.parent = parent
        self.spans = spans
        self.pages = pages
        self.children: dict[int, Node] = {}
        self.locks = 0
        self.used_at = used_at
        self.listed = False


class RadixCache:
    """Pages are free, private to a request, or in the tree; those in nodes without a lock can be evicted.

    Leaves without a lock are evicted in the order of their last use, the end of a leaf before its beginning. Locks of a
    node hold for all above it. Time stamps count operations; between them there is a stamp for every request in every
    decode pass, so that what a request inserts there can be inserted later as if it had been done in time.

    Attributes:
        free: pages that hold nothing. evictable: pages in nodes without a lock. evicted_pages: pages so far.
        version: changes with everything that can change the match of a request that is not running.
        decode_passes: decode passes of the rank so far; kept by the scheduler.
    """

    def __init__(self, num_pages: int) -> None:
        self.num_pages = num_pages
        self.free = num_pages
        self.evictable = 0
        self.evicted_pages = 0
        self.version = 0
        self.decode_passes = 0
        self.root = Node(None, [], 0, 0)
        self._operations = 0
        self._candidates: list[tuple[int, int, Node]] = []
        self._pushes = 0
        self._next_private = 0
        self.evicted: list[Span] | None = None
        """Identities evicted since somebody emptied the list, the last of a leaf first; None to note none."""

    @property
    def available(self) -> int:
        """Pages that can be taken: free, or evictable."""
        return self.free + self.evictable

    def private_line(self, pages: int) -> int:
        """Reserve `pages` consecutive identities that no other request has; returns the first. They are negative."""
        self._next_private -= pages
        return self._next_private

    def stamp(self) -> int:
        """The time stamp of an operation that happens now."""
        self._operations += 1
        return (self.decode_passes << _DECODE_SHIFT) + _AFTER_TOKENS + self._operations

    @staticmethod
    def stamp_of_token(decode_pass: int, order: int) -> int:
        """The time stamp of what request number `order` inserts with its token of the given decode pass."""
        return (decode_pass << _DECODE_SHIFT) + order

    def match(self, spans: Sequence[Span]) -> int:
        """How many of the leading pages are in the tree. Changes nothing."""
        if not spans:
            return 0
        node, matched, index = self.root, 0, 0
        start, end = spans[0]
        while (child := node.children.get(start)) is not None:
            for first, last in child.spans:
                while first < last:
                    if first != start:
                        return matched
                    count = min(last - first, end - start)
                    matched += count
                    first += count
                    start += count
                    if start == end:
                        index += 1
                        if index == len(spans):
                            return matched
                        start, end = spans[index]
            node = child
        return matched

    def lock_prefix(self, spans: Sequence[Span], pages: int) -> Node:
        """Use and lock the first `pages` of the pages, which must be in the tree; returns the node that ends with them.

        A node is split where they end inside of it. The part before that is locked without being used.
        """
        stamp = self.stamp()
        node = self.root
        index, skip = 0, 0
        while pages:
            # `skip` leads to the first page of the next node.
            while skip >= (size := spans[index][1] - spans[index][0]):
                skip -= size
                index += 1
            child = node.children[spans[index][0] + skip]
            if child.pages > pages:
                node = self._split(child, pages)
                break
            child.used_at = stamp
            pages -= child.pages
            skip += child.pages
            node = child
        self._lock(node, self.root)
        return node

    def unlock(self, node: Node) -> None:
        """Take a lock off a node and all above it."""
        current: Node | None = node
        while current is not None and current.parent is not None:
            current.locks -= 1
            if not current.locks:
                self.evictable += current.pages
                if not current.children:
                    self._list(current)
            current = current.parent

    def touch(self, node: Node, stamp: int) -> None:
        """Note the use of a node and all above it at the time `stamp`, which later uses may have overtaken."""
        current: Node | None = node
        while current is not None:
            if current.used_at < stamp:
                current.used_at = stamp
            current = current.parent

    def insert(self, node: Node, spans: list[Span], stamp: int) -> tuple[Node, int]:
        """Put pages into the tree that follow those of `node`, which the caller has locked.

        Returns (the node that ends with them, how many of them were in the tree already). No lock is moved.
        """
        self.touch(node, stamp)
        current, rest, duplicates = node, spans, 0
        while rest:
            if (
                current.parent is not None
                and not current.children
                and (not current.locks or (current is node and current.locks == 1))
            ):
                self._extend(current, rest, stamp)
                break
            child = current.children.get(rest[0][0])
            if child is None:
                current = self._add_leaf(current, rest, stamp)
                break
            common = _common(child.spans, rest)
            duplicates += common
            rest = cut(rest, common)[1]
            if common < child.pages:
                current = self._split(child, common)
                if rest:
                    current = self._add_leaf(current, rest, stamp)
                break
            current = child
            current.used_at = max(current.used_at, stamp)
        return current, duplicates

    def move_lock(self, node: Node, below: Node) -> None:
        """Move a lock from `node` to a node below it."""
        self._lock(below, node)

    def take(self, pages: int) -> bool:
        """Take pages out of the pool, evicting what that needs; what was evicted stays so where it was not enough."""
        if pages > self.free:
            self._evict(pages - self.free)
            if pages > self.free:
                return False
        self.free -= pages
        return True

    def next_evictions(self, pages: int) -> list[Eviction]:
        """What taking pages evicts next, up to `pages` of them, if nothing is used or unlocked meanwhile."""
        evictions: list[Eviction] = []
        candidates, pushes = list(self._candidates), self._pushes
        children: dict[Node, int] = {}
        unlisted: set[Node] = set()
        while pages > 0 and candidates:
            used_at, _, node = heapq.heappop(candidates)
            if node.locks or children.get(node, len(node.children)):
                unlisted.add(node)
                continue
            if node.used_at != used_at:
                pushes += 1
                heapq.heappush(candidates, (node.used_at, pushes, node))
                continue
            count = min(pages, node.pages)
            pages -= count
            for start, end in reversed(cut(node.spans, node.pages - count)[1]):
                evictions.append((end - start, (start, end) if start >= 0 else None))
            parent = node.parent
            assert parent is not None
            left = children[parent] = children.get(parent, len(parent.children)) - 1
            if not (left or parent.locks or parent.parent is None) and (not parent.listed or parent in unlisted):
                pushes += 1
                unlisted.discard(parent)
                heapq.heappush(candidates, (parent.used_at, pushes, parent))
        return evictions

    def _lock(self, node: Node, above: Node) -> None:
        current = node
        while current is not above:
            if not current.locks:
                self.evictable -= current.pages
            current.locks += 1
            assert current.parent is not None
            current = current.parent

    def _split(self, node: Node, pages: int) -> Node:
        """Cut a node after so many pages; returns the new node before the cut. The rest keeps the node's identity."""
        front_spans, rear_spans = cut(node.spans, pages)
        front = Node(node.parent, front_spans, pages, node.used_at)
        front.locks = node.locks
        front.children[rear_spans[0][0]] = node
        assert node.parent is not None
        node.parent.children[front_spans[0][0]] = front
        node.parent = front
        node.spans = rear_spans
        node.pages -= pages
        return front

    def _extend(self, node: Node, spans: list[Span], stamp: int) -> None:
        pages = _count(spans)
        self._note_change(spans)
        if spans[0][0] == node.spans[-1][1]:
            node.spans[-1] = (node.spans[-1][0], spans[0][1])
            spans = spans[1:]
        node.spans += spans
        node.pages += pages
        node.used_at = max(node.used_at, stamp)
        if not node.locks:
            self.evictable += pages

    def _add_leaf(self, parent: Node, spans: list[Span], stamp: int) -> Node:
        leaf = Node(parent, list(spans), _count(spans), stamp)
        parent.children[spans[0][0]] = leaf
        self.evictable += leaf.pages
        self._list(leaf)
        self._note_change(spans)
        return leaf

    def _note_change(self, inserted: Sequence[Span]) -> None:
        # Private pages follow all others, and match nobody but their owner, who does not wait while he adds some.
        if inserted[0][0] >= 0:
            self.version += 1

    def _list(self, leaf: Node) -> None:
        if not leaf.listed:
            leaf.listed = True
            self._pushes += 1
            heapq.heappush(self._candidates, (leaf.used_at, self._pushes, leaf))

    def _evict(self, pages: int) -> None:
        """Evict so many pages, or all that can be."""
        self.version += 1
        candidates = self._candidates
        while pages > 0 and candidates:
            used_at, _, node = candidates[0]
            if node.locks or node.children or node.used_at != used_at:
                heapq.heappop(candidates)
                node.listed = False
                if not (node.locks or node.children):
                    self._list(node)
                continue
            count = min(pages, node.pages)
            pages -= count
            self.free += count
            self.evictable -= count
            self.evicted_pages += count
            kept, gone = cut(node.spans, node.pages - count)
            if self.evicted is not None:
                self.evicted += reversed(gone)
            if kept:
                node.spans = kept
                node.pages -= count
                return
            heapq.heappop(candidates)
            parent = node.parent
            assert parent is not None
            del parent.children[node.spans[0][0]]
            if parent.parent is not None and not parent.children and not parent.locks:
                self._list(parent)


def _count(spans: Sequence[Span]) -> int:
    return sum(end - start for start, end in spans)


def _common(ours: Sequence[Span], theirs: Sequence[Span]) -> int:
    """How many leading identities are the same; the spans may be cut at different places."""
    common, index = 0, 0
    start, end = theirs[0]
    for first, last in ours:
        while first < last:
            if first != start:
                return common
            count = min(last - first, end - start)
            common += count
            first += count
            start += count
            if start == end:
                index += 1
                if index == len(theirs):
                    return common
                start, end = theirs[index]
    return common


def cut(spans: Sequence[Span], pages: int) -> tuple[list[Span], list[Span]]:
    """Spans of the first `pages` identities, and of the rest."""
    for index, (start, end) in enumerate(spans):
        size = end - start
        if pages < size:
            if not pages:
                return list(spans[:index]), list(spans[index:])
            return [*spans[:index], (start, start + pages)], [(start + pages, end), *spans[index + 1 :]]
        pages -= size
    return list(spans), []
