"""Applied Compute agentic traces: one session of tool-calling turns per line, for closed loop only."""

from __future__ import annotations

import math

import msgspec

from actors.workload.rows import U64, RowError, TraceFile, out_of_bounds, show
from actors.workload.source import Session, Turn, Workload
from actors.workload.synthetic import round_half_away
from actors.workload.times import twice_rounded
from engines.prompts import TraceBlockIdentities
from messages.requests import Span
from messages.spec import RankSpec


class AppliedComputeRow(msgspec.Struct, frozen=True, gc=False):
    """One line of the trace; unknown keys are ignored. Lengths in tokens, latencies in seconds."""

    num_turns: U64
    input_prompt_length: U64
    assistant_response_length: list[U64]
    tool_call_output_length: list[U64]
    tool_call_latency: list[float]
    final_assistant_response_length: U64


class AppliedComputePrompts:
    """Prompts of growing sessions, whose leading trace blocks may be those of a group.

    A session's list of trace blocks only grows: a block that is not full yet keeps its id when it fills up.
    `shared_blocks` leading ones are those of the session's group.
    """

    def __init__(
        self,
        trace_block_size: int,
        rank: RankSpec,
        lengths: list[tuple[int, ...]],
        groups: list[int],
        num_groups: int,
        shared_blocks: list[int],
    ) -> None:
        self._identities = TraceBlockIdentities(trace_block_size, rank.tokens_per_block, rank.num_gpu_blocks)
        self._max_blocks = -(-rank.num_gpu_blocks * rank.tokens_per_block // trace_block_size)
        self._trace_block_size = trace_block_size
        self._lengths = lengths
        self._groups = groups
        self._num_groups = num_groups
        self._shared_blocks = shared_blocks
        self._ids: dict[int, list[int]] = {}
        self._fresh_ids = 0

    def resolve(self, session: int, turn: int) -> tuple[int, tuple[Span, ...]]:
        """Return the length of the prompt and the identities of its complete blocks."""
        length = self._lengths[session][turn]
        ids = self._ids.setdefault(session, [])
        for position in range(len(ids), min(-(-length // self._trace_block_size), self._max_blocks)):
            ids.append(self._new_id(session, position))
        return length, self._identities.identities(ids, length)

    def completed(self, session: int) -> None:
        """Prompts are complete as given: outputs do not enter later ones."""

    def closed(self, session: int) -> None:
        """The trace blocks of the session are given up."""
        self._ids.pop(session, None)

    def _new_id(self, session: int, position: int) -> int:
        if position < self._shared_blocks[session]:
            return 2 * (position * self._num_groups + self._groups[session])
        self._fresh_ids += 1
        return 2 * self._fresh_ids + 1


def load_applied_compute(
    trace: TraceFile,
    rank: RankSpec,
    *,
    trace_block_size: int,
    max_in_flight: int | None,
    shared_prefix_ratio: float,
    num_prefix_groups: int,
) -> Workload:
    """Read a trace file. `shared_prefix_ratio` of a session's first prompt is common to its group."""
    sharing = shared_prefix_ratio > 0.0 and num_prefix_groups > 0
    sessions: list[Session] = []
    lengths: list[tuple[int, ...]] = []
    groups: list[int] = []
    shared_blocks: list[int] = []
    requests = 0
    for line_number, row in trace.rows(AppliedComputeRow):
        if row is None:
            continue
        try:
            prompts = _prompt_lengths(row)
        except RowError as error:
            trace.reject(line_number, str(error))
            continue
        outputs = (*row.assistant_response_length, row.final_assistant_response_length)
        delays = (0.0, *(twice_rounded(latency) * 1000.0 for latency in row.tool_call_latency))
        name = f"applied_compute_agentic_session_{line_number}"
        turns = tuple(
            Turn(f"request_{requests + index + 1}", prompts[index], outputs[index], delays[index], name, index)
            for index in range(len(prompts))
        )
        requests += len(turns)
        sessions.append(Session(turns))
        lengths.append(prompts)
        groups.append((line_number - 1) % num_prefix_groups if sharing else 0)
        first_blocks = -(-prompts[0] // trace_block_size)
        shared_blocks.append(round_half_away(first_blocks * shared_prefix_ratio) if sharing else 0)
    if not sessions and trace.is_sound:
        trace.fail(f"{trace.path}: the trace holds no requests")
    source = AppliedComputePrompts(trace_block_size, rank, lengths, groups, num_prefix_groups, shared_blocks)
    return Workload(sessions=sessions, prompts=source, max_in_flight=max_in_flight)


def _prompt_lengths(row: AppliedComputeRow) -> tuple[int, ...]:
    """Check a row and return the prompt length of each of its turns in tokens."""
    for field in row.__struct_fields__:
        problem = out_of_bounds(field, getattr(row, field), AppliedComputeRow)
        if problem:
            raise RowError(problem)
    for field in ("assistant_response_length", "tool_call_output_length", "tool_call_latency"):
        count = len(getattr(row, field))
        if count != row.num_turns:
            raise RowError(f"{field}: expected a list of {row.num_turns}, as num_turns says, got {count}")
    if row.input_prompt_length == 0:
        raise RowError("input_prompt_length: expected an integer >= 1, got 0")
    for index, latency in enumerate(row.tool_call_latency):
        if not 0.0 <= latency * 1000.0 < math.inf:
            raise RowError(f"tool_call_latency[{index}]: expected a finite number of seconds >= 0, got {show(latency)}")
    lengths = [row.input_prompt_length]
    for assistant, tool in zip(row.assistant_response_length, row.tool_call_output_length, strict=True):
        lengths.append(lengths[-1] + assistant + tool)
    return tuple(lengths)
