"""Forward-pass rows: what one pass of one rank worked on and left in the queue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from engines.sequence import Sequence
from messages.passes import ForwardPassMetrics


def _summed(values: Iterable[int]) -> tuple[int, int, float]:
    """Count, sum and population variance (running form)."""
    count, total, mean, squares = 0, 0, 0.0, 0.0
    for value in values:
        count += 1
        total += value
        delta = value - mean
        mean += delta / count
        squares += delta * (value - mean)
    return count, total, squares / count if count else 0.0


def forward_pass_metrics(
    wall_time_ms: float, scheduled: Mapping[Sequence, tuple[int, int, int]], queued: Iterable[Sequence]
) -> ForwardPassMetrics:
    """The row of a pass, from its state after scheduling and before it generates tokens.

    scheduled: request -> (tokens, prompt tokens among them, prompt tokens before); queued: the waiting requests.
    """
    prefill = [(s, entry) for s, entry in scheduled.items() if entry[1] > 0]
    decode = [s for s, entry in scheduled.items() if entry[1] == 0 and not s.complete]
    queued = list(queued)
    _, _, var_prefill = _summed(s.prompt_tokens for s, _ in prefill)
    num_decode, sum_decode, var_decode = _summed(s.length for s in decode)
    num_fresh, sum_fresh, var_fresh = _summed(s.prompt_tokens for s in queued if not s.preempted)
    num_preempted, sum_preempted, var_preempted = _summed(s.length for s in queued if s.preempted)
    return ForwardPassMetrics(
        wall_time_s=wall_time_ms / 1000.0,
        num_prefill_requests=len(prefill),
        sum_prefill_tokens=sum(entry[0] for _, entry in prefill),
        var_prefill_length=var_prefill,
        sum_prefill_kv_tokens=sum(entry[2] for _, entry in prefill),
        num_decode_requests=num_decode,
        sum_decode_kv_tokens=sum_decode,
        var_decode_kv_tokens=var_decode,
        num_queued_prefill=num_fresh,
        sum_queued_prefill_tokens=sum_fresh,
        var_queued_prefill_length=var_fresh,
        num_queued_decode=num_preempted,
        sum_queued_decode_kv_tokens=sum_preempted,
        var_queued_decode_kv_tokens=var_preempted,
    )
