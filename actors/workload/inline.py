"""Requests spelled out in the spec: a flat list in order of arrival."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from actors.workload.prompt_sources import FreshPrompts, TokenPrompts, TokenTurn, authored, counted_up
from actors.workload.source import Prompts, Session, Turn, Workload
from engines.prompts import TokenIdentities, TraceBlockIdentities
from engines.sequence import output_limit
from messages.requests import NO_ROUTING_METADATA, RoutingMetadata
from messages.spec import InlineRequest, RankSpec


def lower_requests(requests: list[InlineRequest], rank: RankSpec, max_in_flight: int | None) -> Workload:
    """Return the workload of a list of requests; arrivals are neither normalised nor sped up."""
    ordered = sorted(enumerate(requests), key=lambda entry: entry[1].arrival_time_ms)
    sessions = [Session((_turn(request),), request.arrival_time_ms) for _, request in ordered]
    return Workload(sessions=sessions, prompts=_prompts(ordered, rank), max_in_flight=max_in_flight)


def _turn(request: InlineRequest) -> Turn:
    return Turn(
        request.id,
        request.input_tokens,
        _output_length(request),
        session_id=request.session_id,
        turn_index=request.turn_index,
        metadata=request.metadata,
        dp_rank=request.dp_rank,
        routing=_routing(request.metadata),
    )


def _routing(metadata: dict[str, Any] | None) -> RoutingMetadata:
    """What the metadata, which the document's checks have passed, ask of a placement policy."""
    if not metadata:
        return NO_ROUTING_METADATA
    given = {name: metadata[name] for name in RoutingMetadata.__struct_fields__ if name in metadata}
    return RoutingMetadata(**given) if given else NO_ROUTING_METADATA


def _output_length(request: InlineRequest) -> int:
    """Return the tokens to generate: authored ids win over `output_tokens`, whatever their number."""
    return request.output_tokens if request.output_token_ids is None else len(request.output_token_ids)


def _prompts(ordered: list[tuple[int, InlineRequest]], rank: RankSpec) -> Prompts:
    if all(request.input_token_ids is None and request.output_token_ids is None for _, request in ordered):
        # Length-only prompts differ in their first token already.
        identities = TraceBlockIdentities(rank.tokens_per_block, rank.tokens_per_block, rank.num_gpu_blocks)
        return FreshPrompts(identities, [request.input_tokens for _, request in ordered])
    return TokenPrompts(
        TokenIdentities(rank.tokens_per_block),
        [[_token_turn(index, request)] for index, request in ordered],
        accumulate=False,
        max_tokens=rank.num_gpu_blocks * rank.tokens_per_block,
        output_limit=partial(output_limit, rank),
    )


def _token_turn(index: int, request: InlineRequest) -> TokenTurn:
    prompt = partial(counted_up, index)
    if request.input_token_ids is not None:
        prompt = partial(authored, np.array(request.input_token_ids, np.uint32))
    output = None
    if request.output_token_ids is not None:
        output = partial(authored, np.array(request.output_token_ids, np.uint32))
    return TokenTurn(request.input_tokens, prompt, _output_length(request), output)
