"""The TensorRT-LLM scheduler of one rank: capacity policy "guaranteed no evict".

A request is admitted only when it can run to its end beside everything that runs, so nobody is ever preempted.
"""

from __future__ import annotations

from engines.block_pool import NO_MATCH, Match
from engines.sequence import Batch, Sequence
from engines.vllm import VllmScheduler
from messages.requests import Request


class TrtllmScheduler(VllmScheduler):
    """Implements `RankScheduler`. Forms passes as vLLM does, but for capacity, reuse and lengths.

    Source of the rules: behaviour of the reference's TensorRT-LLM mode.
    """

    _computes_last_token = False

    def _new_sequence(self, request: Request) -> Sequence:
        output_tokens = self._output_limit(request)
        sequence = Sequence(request, output_tokens, output_tokens)
        sequence.footprint = -(-(request.input_tokens + output_tokens) // self._block_size)
        return sequence

    def _exceeds_pool(self, sequence: Sequence) -> str | None:
        if sequence.footprint <= self._pool.num_blocks:
            return None
        tokens = sequence.prompt_tokens + sequence.max_output
        return f"{tokens} tokens to its end need {sequence.footprint} KV blocks, the cache has {self._pool.num_blocks}"

    def _lacks_blocks(self, sequence: Sequence, prefix: Match) -> bool:
        # Destinations of hand-offs hold the blocks of their prompts and are promised the rest.
        handed_over = (*self._destinations.held, *(waiting for waiting in self._waiting if waiting.blocks))
        promised = self._decoders.promised
        for other in (*self._singles, *handed_over):
            promised += other.footprint - other.blocks
        return sequence.footprint - prefix.active > max(self._pool.available - promised, 0)

    def _destination_prefix(self, sequence: Sequence) -> Match | None:
        return None if self._lacks_blocks(sequence, NO_MATCH) else NO_MATCH

    def _preempt(self, batch: Batch, *, undo: bool = True) -> Sequence | None:
        return None
