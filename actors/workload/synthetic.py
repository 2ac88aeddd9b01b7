"""Generated workloads: equal requests, or sessions of them, at constant, Poisson or closed-loop load."""

from __future__ import annotations

import math
from itertools import accumulate

from actors.workload.prompt_sources import FreshPrompts
from actors.workload.source import Session, Turn, Workload
from engines.chacha import ChaChaStream
from engines.prompts import TraceBlockIdentities
from messages.requests import Span
from messages.spec import RankSpec, SyntheticWorkload

_GROUP_SEED = 42
_SMALLEST_NORMAL = 2.2250738585072014e-308


class GroupedPrompts:
    """Prompts of equal length that start with the blocks of their session's group, if it has one, and go on alone."""

    def __init__(
        self, identities: TraceBlockIdentities, length: int, shared_tokens: int, groups: list[int | None]
    ) -> None:
        self._identities = identities
        self._length = length
        self._shared_tokens = shared_tokens
        self._groups = groups
        self._prefixes: dict[int, tuple[Span, ...]] = {}

    def resolve(self, session: int, _turn: int) -> tuple[int, tuple[Span, ...]]:
        """Return the length of the prompt and the identities of its complete blocks."""
        group = self._groups[session]
        if group is None:
            return self._length, self._identities.fresh(self._length)
        prefix = self._prefixes.get(group)
        if prefix is None:
            prefix = self._prefixes[group] = self._identities.fresh(self._shared_tokens)
        return self._length, prefix + self._identities.fresh(self._length - self._shared_tokens)

    def completed(self, session: int) -> None:
        """Prompts are complete as given: outputs do not enter later ones."""

    def closed(self, session: int) -> None:
        """Nothing is kept for one session."""


def generate(workload: SyntheticWorkload, rank: RankSpec, max_in_flight: int | None) -> Workload:
    """Return the workload that the checked parameters describe."""
    arrivals_ms = _arrivals_ms(workload, max_in_flight)
    identities = TraceBlockIdentities(rank.tokens_per_block, rank.tokens_per_block, rank.num_gpu_blocks)
    if not workload.has_sessions:
        flat = [
            Session((Turn(f"request_{index + 1}", workload.input_tokens, workload.output_tokens),), arrival_ms)
            for index, arrival_ms in enumerate(arrivals_ms)
        ]
        lengths = [workload.input_tokens] * len(flat)
        return Workload(sessions=flat, prompts=FreshPrompts(identities, lengths), max_in_flight=max_in_flight)
    delay_ms = workload.inter_turn_delay_ms
    if max_in_flight is None:
        delay_ms /= workload.arrival_speedup_ratio
    turns = workload.turns_per_session
    sessions = [
        Session(
            tuple(
                Turn(
                    f"request_{index * turns + turn + 1}",
                    workload.input_tokens,
                    workload.output_tokens,
                    delay_ms if turn else 0.0,
                    f"session_{index}",
                    turn,
                )
                for turn in range(turns)
            ),
            arrival_ms,
        )
        for index, arrival_ms in enumerate(arrivals_ms)
    ]
    prompts = _grouped_prompts(workload, rank.tokens_per_block, identities)
    return Workload(sessions=sessions, prompts=prompts, max_in_flight=max_in_flight)


def round_half_away(value: float) -> int:
    """Round a number >= 0 to the nearest integer, halves up."""
    floor = math.floor(value)
    return floor + (value - floor >= 0.5)


def _grouped_prompts(workload: SyntheticWorkload, block_size: int, identities: TraceBlockIdentities) -> GroupedPrompts:
    length = workload.input_tokens
    blocks = -(-length // block_size)
    shared = min(round_half_away(blocks * workload.shared_prefix_ratio), blocks)
    groups: list[int | None] = [None] * workload.request_count
    if workload.shared_prefix_ratio > 0.0 and workload.num_prefix_groups > 0:
        stream = ChaChaStream(_GROUP_SEED)
        groups = [stream.draw_below(workload.num_prefix_groups) for _ in groups]
    # A shared last block that is not full has no identity.
    return GroupedPrompts(identities, length, min(shared, length // block_size) * block_size, groups)


def _arrivals_ms(workload: SyntheticWorkload, max_in_flight: int | None) -> list[float]:
    count = workload.request_count
    if max_in_flight is not None:
        return [0.0] * count
    if workload.request_rate is not None:
        gaps_ms = _poisson_gaps_ms(workload.request_rate, workload.arrival_seed, count - 1)
    elif workload.arrival_interval_ms:
        requests_per_second = 1000.0 / workload.arrival_interval_ms
        gaps_ms = [1000.0 / requests_per_second] * (count - 1)
    else:
        gaps_ms = [0.0] * (count - 1)
    return [at_ms / workload.arrival_speedup_ratio for at_ms in accumulate(gaps_ms, initial=0.0)]


def _poisson_gaps_ms(requests_per_second: float, seed: int, count: int) -> list[float]:
    mean_ms = 1000.0 / requests_per_second
    draws = ChaChaStream(seed).draw_doubles(count)
    return [-mean_ms * math.log(min(max(1.0 - draw, _SMALLEST_NORMAL), 1.0)) for draw in draws]
