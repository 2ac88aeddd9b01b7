"""The radix cache: matching, splitting, locking, least-recently-used eviction of leaves, all on spans of identities."""

from __future__ import annotations

import random

import pytest

from engines.radix_cache import Node, RadixCache, cut
from messages.requests import Span
from tests.routing.trees import branching_prompts


def store(cache: RadixCache, *spans: Span) -> None:
    """Compute the pages in `spans` for a request that ends at once."""
    pages = sum(end - start for start, end in spans)
    prefix = cache.match(spans)
    node = cache.lock_prefix(spans, prefix)
    assert cache.take(pages - prefix)
    _, duplicates = cache.insert(node, cut(spans, prefix)[1], cache.stamp())
    assert not duplicates
    cache.unlock(node)


def nodes(node: Node, depth: int = 0) -> list[tuple[int, list[Span]]]:
    """(depth, spans) of all nodes below one, in the order of their first identities."""
    found = []
    for _, child in sorted(node.children.items()):
        found += [(depth, child.spans), *nodes(child, depth + 1)]
    return found


def test_a_match_ends_where_the_contents_part() -> None:
    cache = RadixCache(100)
    store(cache, (0, 10), (50, 60))
    assert cache.match([(0, 10), (50, 60)]) == 20
    assert cache.match([(0, 10), (50, 55)]) == 15
    assert cache.match([(0, 7), (70, 75)]) == 7
    assert cache.match([(0, 10), (80, 85)]) == 10
    assert cache.match([(90, 99)]) == 0
    assert cache.match([]) == 0


def test_a_long_prompt_costs_a_step_per_span() -> None:
    cache = RadixCache(1_000_000)
    store(cache, (0, 12_000), (50_000, 90_000))
    assert nodes(cache.root) == [(0, [(0, 12_000), (50_000, 90_000)])]
    assert cache.match([(0, 12_000), (50_000, 80_000)]) == 42_000


def test_a_branch_splits_the_node_where_it_leaves() -> None:
    cache = RadixCache(100)
    store(cache, (0, 10), (50, 60))
    store(cache, (0, 7), (20, 25))
    assert nodes(cache.root) == [(0, [(0, 7)]), (1, [(7, 10), (50, 60)]), (1, [(20, 25)])]


def test_a_request_alone_goes_on_with_its_node_and_others_get_a_child() -> None:
    cache = RadixCache(100)
    store(cache, (0, 5))
    first = cache.lock_prefix([(0, 5)], 5)
    assert cache.insert(first, [(5, 8)], cache.stamp()) == (first, 0)
    second = cache.lock_prefix([(0, 5), (5, 8)], 8)
    assert second is first
    end, _ = cache.insert(first, [(8, 9)], cache.stamp())
    assert end is not first
    assert nodes(cache.root) == [(0, [(0, 8)]), (1, [(8, 9)])]


def test_pages_that_the_tree_has_already_are_duplicates() -> None:
    cache = RadixCache(100)
    cache.take(20)
    root = cache.root
    assert cache.insert(root, [(0, 10)], cache.stamp())[1] == 0
    assert cache.insert(root, [(0, 8), (30, 32)], cache.stamp())[1] == 8


def test_locks_hold_for_all_above_and_pages_in_use_are_not_evicted() -> None:
    cache = RadixCache(20)
    store(cache, (0, 10))
    store(cache, (0, 4), (20, 24))
    assert (cache.free, cache.evictable) == (6, 14)
    held = cache.lock_prefix([(0, 4), (20, 24)], 8)
    assert (cache.evictable, cache.available) == (6, 12)
    assert not cache.take(13)
    # What could be evicted is gone all the same.
    assert (cache.free, cache.evictable) == (12, 0)
    assert cache.match([(0, 10)]) == 4
    cache.unlock(held)
    assert cache.evictable == 8


def test_the_leaf_used_longest_ago_is_evicted_first_and_from_its_end() -> None:
    cache = RadixCache(20)
    store(cache, (0, 8))
    store(cache, (20, 28))
    cache.unlock(cache.lock_prefix([(0, 8)], 8))
    assert cache.take(7)
    assert (cache.match([(0, 8)]), cache.match([(20, 28)])) == (8, 5)
    assert cache.take(6)
    assert (cache.match([(0, 8)]), cache.match([(20, 28)])) == (7, 0)


def test_a_parent_becomes_a_leaf_with_its_own_time_of_use() -> None:
    cache = RadixCache(30)
    store(cache, (0, 10))
    store(cache, (0, 4), (20, 24))
    store(cache, (40, 50))
    cache.unlock(cache.lock_prefix([(0, 4)], 4))
    assert cache.take(6 + 6 + 4)
    assert (cache.match([(0, 4)]), cache.match([(40, 50)])) == (4, 10)
    assert cache.take(3)
    assert (cache.match([(0, 4)]), cache.match([(40, 50)])) == (4, 7)


def test_the_part_before_a_split_keeps_the_old_time_of_use() -> None:
    cache = RadixCache(30)
    store(cache, (0, 10))
    store(cache, (40, 50))
    cache.unlock(cache.lock_prefix([(0, 10)], 4))
    assert cache.take(10 + 6)
    assert (cache.match([(0, 10)]), cache.match([(40, 50)])) == (4, 10)
    assert cache.take(1)
    assert (cache.match([(0, 10)]), cache.match([(40, 50)])) == (3, 10)


def test_an_insertion_can_be_made_later_as_if_in_time() -> None:
    cache = RadixCache(30)
    cache.decode_passes = 7
    store(cache, (0, 4))
    store(cache, (20, 24))
    cache.touch(next(iter(cache.root.children.values())), cache.stamp_of_token(7, order=3))
    cache.take(24)
    assert (cache.match([(0, 4)]), cache.match([(20, 24)])) == (2, 4)


def test_the_version_changes_with_what_others_can_match() -> None:
    cache = RadixCache(10)
    store(cache, (0, 4))
    version = cache.version
    line = cache.private_line(10)
    assert line < 0
    node = cache.lock_prefix([(0, 4)], 4)
    cache.take(2)
    cache.insert(node, [(line, line + 2)], cache.stamp())
    cache.unlock(node)
    assert cache.version == version
    cache.take(5)
    assert cache.version != version


@pytest.mark.parametrize("seed", range(20))
def test_counts_stay_consistent(seed: int) -> None:
    rng = random.Random(seed)
    cache = RadixCache(120)
    held: list[tuple[Node, int]] = []
    for _ in range(300):
        if held and rng.random() < 0.4:
            node, private = held.pop(rng.randrange(len(held)))
            cache.unlock(node)
            cache.free += private
            continue
        branch = rng.randrange(1, 4)
        spans = [(0, rng.randint(1, 20)), (100 * branch, 100 * branch + rng.randint(1, 20))]
        if spans[0][1] < 20:
            spans = spans[:1]
        pages = sum(end - start for start, end in spans)
        prefix = cache.match(spans)
        node = cache.lock_prefix(spans, prefix)
        if pages - prefix + 3 > cache.available:
            cache.unlock(node)
            continue
        assert cache.take(pages - prefix + 3)
        end, duplicates = cache.insert(node, cut(spans, prefix)[1], cache.stamp())
        if end is not node:
            cache.move_lock(node, end)
        cache.free += duplicates
        held.append((end, 3))
        assert cache.match(spans) == pages
        assert cache.free + 3 * len(held) + _pages(cache.root) == 120
        assert cache.evictable == _pages(cache.root, unlocked=True)
    for node, private in held:
        cache.unlock(node)
        cache.free += private
    assert cache.available == 120
    assert cache.take(120)
    assert not cache.root.children


def _pages(node: Node, *, unlocked: bool = False) -> int:
    return sum(
        (child.pages if not (unlocked and child.locks) else 0) + _pages(child, unlocked=unlocked)
        for child in node.children.values()
    )


@pytest.mark.parametrize("seed", range(40))
def test_the_next_evictions_are_those_that_come(seed: int) -> None:
    rng = random.Random(seed)
    prompts = branching_prompts(rng, 40)
    cache = RadixCache(30)
    cache.evicted = []
    held: list[Node] = []
    for prompt in prompts:
        pages = sum(end - start for start, end in prompt)
        prefix = cache.match(prompt)
        node = cache.lock_prefix(prompt, prefix)
        if pages - prefix > cache.available:
            cache.unlock(node)
            continue
        foretold = cache.next_evictions(max(pages - prefix - cache.free, 0))
        cache.evicted.clear()
        cache.take(pages - prefix)
        assert [span for _, span in foretold] == cache.evicted
        assert [blocks for blocks, _ in foretold] == [end - start for start, end in cache.evicted]
        end, duplicates = cache.insert(node, cut(prompt, prefix)[1], cache.stamp())
        assert not duplicates
        cache.move_lock(node, end)
        held.append(end)
        while len(held) > 2:
            cache.unlock(held.pop(rng.randrange(len(held))))
