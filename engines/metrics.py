"""Forward-pass rows: what one pass of one rank worked on and left in the queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from engines.sequence import Sequence
from messages.passes import ForwardPassMetrics


class Lengths(msgspec.Struct, frozen=True):
    """A number of lengths in tokens, their sum, and the sum of their squares."""

    count: int = 0
    total: int = 0
    squares: int = 0

    @property
    def variance(self) -> float:
        """Population variance, exact before the division."""
        if not self.count:
            return 0.0
        return (self.count * self.squares - self.total * self.total) / (self.count * self.count)

    def plus(self, other: Lengths) -> Lengths:
        """Both together."""
        return Lengths(self.count + other.count, self.total + other.total, self.squares + other.squares)


def lengths(values: Iterable[int]) -> Lengths:
    """Count and sum up lengths."""
    values = tuple(values)
    return Lengths(len(values), sum(values), sum(value * value for value in values))


def forward_pass_metrics(
    wall_time_ms: float,
    scheduled: Mapping[Sequence, tuple[int, int, int]],
    decoding: Lengths,
    queued: Iterable[Sequence],
    handed_over: Iterable[Sequence] = (),
) -> ForwardPassMetrics:
    """The row of a pass, from its state after scheduling and before it generates tokens.

    scheduled: request -> (tokens, prompt tokens among them, prompt tokens before); decoding: known tokens of the
    requests that decode besides; queued: the waiting requests; handed_over: those whose prompt is built elsewhere, of
    which only that counts.
    """
    prefill = [(sequence, entry) for sequence, entry in scheduled.items() if entry[1] > 0]
    prompts = lengths(sequence.prompt_tokens for sequence, _ in prefill)
    single = lengths(sequence.length for sequence, entry in scheduled.items() if not (entry[1] or sequence.complete))
    decode = decoding.plus(single)
    waiting = tuple(queued)
    fresh = lengths(sequence.prompt_tokens for sequence in waiting if not sequence.preempted)
    preempted = lengths(sequence.length for sequence in waiting if sequence.preempted)
    preempted = preempted.plus(lengths(sequence.prompt_tokens for sequence in handed_over))
    return ForwardPassMetrics(
        wall_time_s=wall_time_ms / 1000.0,
        num_prefill_requests=prompts.count,
        sum_prefill_tokens=sum(entry[0] for _, entry in prefill),
        var_prefill_length=prompts.variance,
        sum_prefill_kv_tokens=sum(entry[2] for _, entry in prefill),
        num_decode_requests=decode.count,
        sum_decode_kv_tokens=decode.total,
        var_decode_kv_tokens=decode.variance,
        num_queued_prefill=fresh.count,
        sum_queued_prefill_tokens=fresh.total,
        var_queued_prefill_length=fresh.variance,
        num_queued_decode=preempted.count,
        sum_queued_decode_kv_tokens=preempted.total,
        var_queued_decode_kv_tokens=preempted.variance,
    )
