"""What a workload is to the client: sessions of turns, and how the prompt of a turn becomes block identities."""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from messages.requests import NO_ROUTING_METADATA, RoutingMetadata, Span


class Turn(msgspec.Struct, frozen=True):
    """One request before its release.

    request_id: the authored id, else `request_<line>` or `request_<n>`.
    session_id, turn_index: as reported; None where the workload has no sessions.
    input_length: prompt tokens of this turn's own row; output_length: tokens to generate.
    delay_ms: think time after the previous turn's end; 0 for a first turn.
    dp_rank: the attention-DP rank it asks for, None for any.
    routing: what it asks of a placement policy.
    """

    request_id: str
    input_length: int
    output_length: int
    delay_ms: float = 0.0
    session_id: str | None = None
    turn_index: int | None = None
    metadata: Any = None
    dp_rank: int | None = None
    routing: RoutingMetadata = NO_ROUTING_METADATA


class Session(msgspec.Struct, frozen=True):
    """Turns that run one after the other. `first_arrival_ms` counts in open loop only."""

    turns: tuple[Turn, ...]
    first_arrival_ms: float = 0.0


class Prompts(Protocol):
    """Resolves prompts at the moment of release (a delta history is complete only then)."""

    def resolve(self, session: int, turn: int, /) -> tuple[int, tuple[Span, ...]]:
        """Return (prompt length in tokens, identities of its shareable leading blocks) of a turn."""
        ...

    def completed(self, session: int, /) -> None:
        """The turn resolved last completed: its output becomes part of the history where there is one."""
        ...

    def closed(self, session: int, /) -> None:
        """The session ended: whatever is kept for its prompts can be given up."""
        ...


class Workload(msgspec.Struct):
    """Sessions in order of first appearance, with the means to resolve their prompts.

    max_in_flight: None for open loop; otherwise the most sessions active at once, and
    `first_arrival_ms` only orders them.
    warnings: oddities of the input that did not stop the run, each a line for the user.
    """

    sessions: list[Session]
    prompts: Prompts
    max_in_flight: int | None = None
    warnings: list[str] = []
