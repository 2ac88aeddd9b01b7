"""Requests that wait in the KV router: order within a class, turns of classes, limits."""

from __future__ import annotations

from typing import Any

import pytest

from actors.routing.kv.queue import ClassTable, Demand, PendingQueue
from messages.errors import ReplayError
from messages.requests import RoutingMetadata
from messages.router_policy import CacheBucket, PolicyClass, PolicyProfile


def single(policy: Any, **fields: Any) -> PendingQueue[str]:
    return PendingQueue([PolicyClass(name="default", quantum=1, queue_policy=policy, **fields)])


def drained(queue: PendingQueue[str], busy: tuple[str, ...] = ()) -> list[str]:
    names = []
    while (name := queue.pop(lambda policy_class: policy_class.name not in busy)) is not None:
        names.append(name)
    return names


@pytest.mark.parametrize(
    ("policy", "order"),
    [
        # A unit of priority is worth a second; equal scores go by entry, also under lcfs.
        ("fcfs", ["first", "favoured", "twin a", "twin b", "long"]),
        ("lcfs", ["favoured", "long", "twin a", "twin b", "first"]),
        ("wspt", ["twin a", "twin b", "favoured", "first", "long"]),
    ],
)
def test_order_within_a_class(policy: str, order: list[str]) -> None:
    queue = single(policy)
    for name, at_ms, tokens, priority in (
        ("first", 0.0, 100, 0),
        ("twin a", 400.0, 10, -3),
        ("twin b", 400.0, 10, 0),
        ("long", 500.0, 900, 0),
        ("favoured", 1200.0, 100, 1),
    ):
        queue.push(0, name, Demand(tokens, 0), RoutingMetadata(priority=priority), at_ms, 1)
    assert drained(queue) == order


def test_strict_priority_beats_everything() -> None:
    queue = single("fcfs")
    queue.push(0, "usual", Demand(10, 0), RoutingMetadata(priority=1000), 0.0, 1)
    queue.push(0, "strict", Demand(10, 0), RoutingMetadata(strict_priority=1), 9.0, 1)
    assert drained(queue) == ["strict", "usual"]


def test_classes_take_turns_by_what_their_requests_cost() -> None:
    queue: PendingQueue[str] = PendingQueue([PolicyClass(name="a", quantum=40), PolicyClass(name="b", quantum=80)])
    for number in range(4):
        queue.push(0, f"a{number}", Demand(40, 0), RoutingMetadata(), float(number), 1)
        queue.push(1, f"b{number}", Demand(60, 20), RoutingMetadata(), float(number), 1)
    assert drained(queue) == ["a0", "b0", "b1", "a1", "b2", "b3", "a2", "a3"]


def test_costs_beyond_the_quantum_are_saved_up_for() -> None:
    queue: PendingQueue[str] = PendingQueue([PolicyClass(name="a", quantum=1), PolicyClass(name="b", quantum=10)])
    queue.push(0, "dear", Demand(1000, 0), RoutingMetadata(), 0.0, 1)
    queue.push(1, "cheap", Demand(500, 0), RoutingMetadata(), 0.0, 1)
    assert drained(queue) == ["cheap", "dear"]


def test_a_busy_class_keeps_its_place_and_lets_others_pass() -> None:
    queue: PendingQueue[str] = PendingQueue([PolicyClass(name="a", quantum=1), PolicyClass(name="b", quantum=1)])
    queue.push(0, "a0", Demand(5, 0), RoutingMetadata(), 0.0, 1)
    queue.push(1, "b0", Demand(5, 0), RoutingMetadata(), 0.0, 1)
    assert drained(queue, busy=("a",)) == ["b0"]
    assert (len(queue), queue.has_backlog(0), queue.has_backlog(1)) == (1, True, False)
    assert drained(queue) == ["a0"]


@pytest.mark.parametrize(
    ("limit", "text"),
    [
        ({"request_queue_limit_per_worker": 1}, r"requests limit reached \(current=2, limit=2\)"),
        ({"raw_isl_token_queue_limit_per_worker": 30}, r"raw_isl_tokens limit reached \(current=80, limit=60\)"),
        ({"cached_token_queue_limit_per_worker": 0}, r"cached_tokens limit reached \(current=0, limit=0\)"),
    ],
)
def test_limits_are_per_rank_and_the_one_who_crosses_them_is_let_in(limit: dict[str, int], text: str) -> None:
    queue = single("fcfs", **limit)
    let_in = 0 if "cached_token_queue_limit_per_worker" in limit else 2
    for number in range(let_in):
        queue.push(0, str(number), Demand(40, 8), RoutingMetadata(), 0.0, 2)
    with pytest.raises(ReplayError, match='placement policy error: router policy class "default" queue ' + text):
        queue.push(0, "one too many", Demand(40, 8), RoutingMetadata(), 0.0, 2)


def test_classes_are_chosen_by_name_or_by_family_and_tokens_to_compute() -> None:
    table = ClassTable(
        PolicyProfile(
            default_policy_family="f",
            uncached_isl_buckets=[CacheBucket(min_tokens=0, bucket="s"), CacheBucket(min_tokens=100, bucket="l")],
            policy_classes=[
                PolicyClass(name="vip", quantum=1),
                PolicyClass(name="f_s", policy_family="f", cache_bucket="s", quantum=1),
                PolicyClass(name="f_l", policy_family="f", cache_bucket="l", quantum=1),
                PolicyClass(name="g_s", policy_family="g", cache_bucket="s", quantum=1),
                PolicyClass(name="g_l", policy_family="g", cache_bucket="l", quantum=1),
            ],
        )
    )

    def name(policy_class: str | None, tokens: int) -> str:
        return table.classes[table.class_of(policy_class, tokens)].name

    assert [name("vip", 500), name(None, 99), name(None, 100), name("g", 0)] == ["vip", "f_s", "f_l", "g_s"]
    # The name of a class with a family is none to ask for.
    assert [name("g_l", 5), name("unknown", 100)] == ["f_s", "f_l"]
