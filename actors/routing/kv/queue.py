"""Requests that wait in the router, by policy class: their order in a class, and whose turn it is."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from messages.errors import ReplayError
from messages.requests import RoutingMetadata
from messages.router_policy import PolicyClass, PolicyProfile

T = TypeVar("T")


class Demand(msgspec.Struct, frozen=True, gc=False):
    """What a waiting request stands for, in tokens: its prompt, and what the best rank has cached of it."""

    prompt_tokens: int
    cached_tokens: int

    @property
    def uncached_tokens(self) -> int:
        return self.prompt_tokens - self.cached_tokens

    @property
    def cost(self) -> int:
        """What a release takes from the deficit of its class."""
        return max(self.uncached_tokens, 1)


class ClassTable:
    """Tells the class of a request, as index into `classes`."""

    def __init__(self, profile: PolicyProfile) -> None:
        self.classes = profile.policy_classes
        self._profile = profile
        self._explicit = {entry.name: index for index, entry in enumerate(self.classes) if entry.policy_family is None}
        self._of_pair = {
            (entry.policy_family, entry.cache_bucket): index
            for index, entry in enumerate(self.classes)
            if entry.policy_family is not None
        }
        self._families = {family for family, _ in self._of_pair}

    def class_of(self, policy_class: str | None, uncached_tokens: int) -> int:
        """The class of a request that asks for `policy_class`: by that name, or by family and tokens to compute."""
        if len(self.classes) == 1 and not self._explicit:
            return 0
        if policy_class in self._explicit:
            return self._explicit[policy_class]
        family = policy_class if policy_class in self._families else self._profile.default_policy_family
        buckets = [bucket for bucket in self._profile.uncached_isl_buckets if bucket.min_tokens <= uncached_tokens]
        return self._of_pair[family, buckets[-1].bucket]


class _Queue(Generic[T]):
    """The queue of a class; `deficit` is its credit in tokens."""

    def __init__(self, policy_class: PolicyClass) -> None:
        self.policy_class = policy_class
        self.heap: list[tuple[int, float, int, Demand, T]] = []
        self.prompt_tokens = 0
        self.cached_tokens = 0
        self.deficit = 0

    @property
    def head_cost(self) -> int:
        return self.heap[0][3].cost


class PendingQueue(Generic[T]):
    """Queues of all classes, served in turn by deficit round robin."""

    def __init__(self, classes: Sequence[PolicyClass]) -> None:
        self._queues: list[_Queue[T]] = [_Queue(policy_class) for policy_class in classes]
        self._pushed = 0
        self._waiting = 0
        self._cursor = 0
        self._carried: int | None = None

    def __len__(self) -> int:
        return self._waiting

    def has_backlog(self, index: int) -> bool:
        """Whether anybody of a class waits."""
        return bool(self._queues[index].heap)

    def push(self, index: int, item: T, demand: Demand, routing: RoutingMetadata, now_ms: float, ranks: int) -> None:
        """Let a request of a class wait. `ranks`: how many may be chosen; the limits are per rank.

        Raises:
            ReplayError: the class had reached a limit before.
        """
        queue = self._queues[index]
        self._check_limits(queue, ranks)
        key = (-routing.strict_priority, -_score(queue.policy_class.queue_policy, demand, routing, now_ms))
        heapq.heappush(queue.heap, (*key, self._pushed, demand, item))
        queue.prompt_tokens += demand.prompt_tokens
        queue.cached_tokens += demand.cached_tokens
        self._pushed += 1
        self._waiting += 1

    def pop(self, may_go: Callable[[PolicyClass], bool]) -> T | None:
        """Take the next request out whose class may go on; None where there is none."""
        if not self._waiting:
            return None
        queues = self._queues
        ready = [bool(queue.heap) and may_go(queue.policy_class) for queue in queues]
        if not any(ready):
            self._carried = None
            for queue in queues:
                queue.deficit = queue.deficit if queue.heap else 0
            return None
        carried, self._carried = self._carried, None
        if carried is not None and ready[carried] and queues[carried].head_cost <= queues[carried].deficit:
            return self._take(carried)
        turns = [(self._cursor + step) % len(queues) for step in range(len(queues))]
        for index in turns:
            queue = queues[index]
            if not ready[index]:
                queue.deficit = queue.deficit if queue.heap else 0
                continue
            if queue.head_cost > queue.deficit:
                queue.deficit += queue.policy_class.quantum
            if queue.head_cost <= queue.deficit:
                return self._take(index)
        turns = [index for index in turns if ready[index]]
        rounds = min(
            -(-(queues[index].head_cost - queues[index].deficit) // queues[index].policy_class.quantum)
            for index in turns
        )
        for index in turns:
            queues[index].deficit += rounds * queues[index].policy_class.quantum
        return self._take(next(index for index in turns if queues[index].head_cost <= queues[index].deficit))

    def _take(self, index: int) -> T:
        queue = self._queues[index]
        _, _, _, demand, item = heapq.heappop(queue.heap)
        queue.prompt_tokens -= demand.prompt_tokens
        queue.cached_tokens -= demand.cached_tokens
        self._waiting -= 1
        self._cursor = (index + 1) % len(self._queues)
        queue.deficit = max(queue.deficit - demand.cost, 0) if queue.heap else 0
        if queue.deficit:
            self._carried = index
        return item

    def _check_limits(self, queue: _Queue[T], ranks: int) -> None:
        policy_class = queue.policy_class
        for name, current, limit in (
            ("requests", len(queue.heap), policy_class.request_queue_limit_per_worker),
            ("raw_isl_tokens", queue.prompt_tokens, policy_class.raw_isl_token_queue_limit_per_worker),
            ("cached_tokens", queue.cached_tokens, policy_class.cached_token_queue_limit_per_worker),
        ):
            if limit is not None and current >= limit * ranks:
                raise ReplayError(
                    f'placement policy error: router policy class "{policy_class.name}" queue {name} limit reached '
                    f"(current={current}, limit={limit * ranks})"
                )


def _score(policy: str, demand: Demand, routing: RoutingMetadata, now_ms: float) -> float:
    """The higher, the earlier. One unit of priority is worth a second of waiting, or as much as the request alone."""
    priority = float(max(routing.priority, 0))
    if policy == "wspt":
        return (1.0 + priority) / demand.cost
    arrived_s = max(now_ms, 0.0) / 1000.0
    return priority + arrived_s if policy == "lcfs" else priority - arrived_s
