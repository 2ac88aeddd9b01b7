"""Mooncake traces: one request per line, prompts as hash ids, optionally sessions of turns.

The delta variant has the same rows; there each row of a session names only the tokens that it adds to the history.
"""

from __future__ import annotations

import math
from array import array
from functools import partial
from typing import TypeVar

import msgspec
import numpy as np
from msgspec import UNSET, UnsetType

from actors.workload.prompt_sources import DrawnOutputs, HashIdPrompts, TokenPrompts, TokenTurn, authored, repeated_ids
from actors.workload.rows import I32, U32, U64, U64_MAX, RowError, TraceFile, counted, out_of_bounds, show
from actors.workload.source import Prompts, Session, Turn, Workload
from actors.workload.times import twice_rounded
from engines.prompts import TokenIdentities, Tokens, TraceBlockIdentities
from engines.sequence import output_limit
from messages.requests import NO_ROUTING_METADATA, RoutingMetadata
from messages.spec import RankSpec

_V = TypeVar("_V")

_THINK_TIME = "expected a finite think time >= 0 ms"


class MooncakeRow(msgspec.Struct, frozen=True, gc=False):
    """One line of the trace; unknown keys are ignored. Lengths in tokens, times in ms."""

    request_id: str | None = None
    session_id: str | None = None
    input_length: U64 | UnsetType | None = UNSET
    input_tokens: U64 | UnsetType | None = UNSET
    output_length: U64 | UnsetType | None = UNSET
    output_tokens: U64 | UnsetType | None = UNSET
    output_token_ids: list[U32] | None = None
    hash_ids: list[U64] | None = None
    timestamp: float | UnsetType | None = UNSET
    created_time: float | UnsetType | None = UNSET
    delay: float | UnsetType | None = UNSET
    delay_ms: float | UnsetType | None = UNSET
    priority: I32 | None = None
    strict_priority: U32 | None = None
    policy_class: str | None = None


class _LoadedTurn(msgspec.Struct, frozen=True, gc=False):
    line_number: int
    request_id: str
    input_length: int
    output_length: int
    delay_ms: float
    hash_ids: array[int]
    output_token_ids: array[int] | None
    routing: RoutingMetadata


class _LoadedSession(msgspec.Struct, gc=False):
    """A session while its rows are read. `sound` is false once one of its rows was bad."""

    turns: list[_LoadedTurn]
    first_timestamp_ms: float | None = None
    last_timestamp_ms: float | None = None
    sound: bool = True


class MooncakeLoader:
    """Reads one trace file into a workload.

    `trace_block_size`: tokens that one hash id stands for. `arrival_speedup_ratio` is for open loop.
    """

    def __init__(
        self,
        trace: TraceFile,
        rank: RankSpec,
        *,
        trace_block_size: int,
        delta: bool,
        max_in_flight: int | None,
        arrival_speedup_ratio: float,
    ) -> None:
        self._trace = trace
        self._rank = rank
        self._trace_block_size = trace_block_size
        self._delta = delta
        self._max_in_flight = max_in_flight
        self._speedup = arrival_speedup_ratio
        self._sessions: dict[str, _LoadedSession] = {}
        self._surplus_lines: list[int] = []
        self._row_without_session = False

    def load(self) -> Workload:
        """Read the file. Raises InputError as `TraceFile` says."""
        for line_number, row in self._trace.rows(MooncakeRow):
            if row is None:
                self._row_without_session = True
                continue
            try:
                self._add(line_number, row)
            except RowError as error:
                self._trace.reject(line_number, str(error))
        if not self._sessions and self._trace.is_sound:
            self._trace.fail(f"{self._trace.path}: the trace holds no requests")
        loaded = list(self._sessions.values())
        has_sessions = self._max_in_flight is not None or any(len(session.turns) > 1 for session in loaded)
        return Workload(
            sessions=self._build_sessions(has_sessions),
            prompts=self._build_prompts(loaded),
            max_in_flight=self._max_in_flight,
            warnings=self._warnings(),
        )

    def _add(self, line_number: int, row: MooncakeRow) -> None:
        default_id = f"request_{line_number}"
        name = row.session_id if row.session_id is not None else default_id
        session = self._sessions.get(name)
        if session is None:
            session = self._sessions[name] = _LoadedSession([])
            # Its first row may have been one that could not be read.
            session.sound = not self._row_without_session or row.session_id is None
        try:
            self._add_turn(line_number, default_id, name, session, row)
        except RowError:
            session.sound = False
            raise

    def _add_turn(
        self, line_number: int, default_id: str, name: str, session: _LoadedSession, row: MooncakeRow
    ) -> None:
        if row.hash_ids is None:
            raise RowError("hash_ids: missing; give one id per trace block of the prompt")
        try:
            hash_ids = array("Q", row.hash_ids)
        except OverflowError:
            raise RowError(out_of_bounds("hash_ids", row.hash_ids, MooncakeRow)) from None
        input_length = self._input_length(line_number, row, len(hash_ids))
        output_length = _output_length(row)
        delay_ms = self._delay_ms(name, session, row)
        if input_length == 0:
            empty = "input_length: expected an integer >= 1, got 0"
            raise RowError(empty if hash_ids else "hash_ids: expected at least one id, got an empty list")
        session.turns.append(
            _LoadedTurn(
                line_number,
                row.request_id if row.request_id is not None else default_id,
                input_length,
                output_length,
                delay_ms,
                hash_ids,
                None if row.output_token_ids is None else array("I", row.output_token_ids),
                _routing(row),
            )
        )

    def _input_length(self, line_number: int, row: MooncakeRow, id_count: int) -> int:
        capacity = id_count * self._trace_block_size
        field, given = _either("input_length", row.input_length, "input_tokens", row.input_tokens)
        if given is None:
            return capacity
        if not 0 <= given <= U64_MAX:
            raise RowError(out_of_bounds(field, given, MooncakeRow))
        if given > capacity:
            raise RowError(
                f"{field}: expected at most {capacity}, the capacity of hash_ids"
                f" ({counted(id_count, 'id')} of {counted(self._trace_block_size, 'token')}), got {given}"
            )
        if given <= capacity - self._trace_block_size:
            self._surplus_lines.append(line_number)
        return given

    def _delay_ms(self, name: str, session: _LoadedSession, row: MooncakeRow) -> float:
        timestamp_field, timestamp_ms = _either("timestamp", row.timestamp, "created_time", row.created_time)
        delay_field, authored_ms = _either("delay", row.delay, "delay_ms", row.delay_ms)
        if timestamp_ms is not None:
            timestamp_ms = twice_rounded(timestamp_ms)
        if authored_ms is not None:
            authored_ms = twice_rounded(authored_ms)
        last_ms = session.last_timestamp_ms
        if timestamp_ms is not None:
            session.last_timestamp_ms = timestamp_ms
        if authored_ms is not None and authored_ms < 0.0:
            raise RowError(f"{delay_field}: {_THINK_TIME}, got {show(authored_ms)}")
        if not session.sound:
            return 0.0
        if not session.turns:
            if authored_ms:
                raise RowError(
                    f"{delay_field}: the first turn of session {show(name)} has nothing to wait for;"
                    f" remove it or set it to 0, got {show(authored_ms)}"
                )
            self._check_first_timestamp(name, timestamp_field, timestamp_ms)
            session.first_timestamp_ms = timestamp_ms
            return 0.0
        if authored_ms is not None:
            delay_ms = authored_ms
        elif timestamp_ms is None:
            return 0.0
        elif last_ms is None:
            raise RowError(
                f"{timestamp_field}: no think time can be told from it, since session {show(name)} has no earlier"
                " timestamp; give a delay or earlier timestamps"
            )
        else:
            delay_field, delay_ms = timestamp_field, timestamp_ms - last_ms
        if not 0.0 <= delay_ms < math.inf:
            raise RowError(f"{delay_field}: {_THINK_TIME}, got {show(delay_ms)}")
        return delay_ms

    def _check_first_timestamp(self, name: str, field: str, timestamp_ms: float | None) -> None:
        if self._max_in_flight is None:
            if timestamp_ms is None:
                raise RowError(
                    f"{field}: missing on the first row of session {show(name)}; give it in ms, or set max_in_flight"
                )
        elif timestamp_ms is not None and timestamp_ms < 0.0:
            raise RowError(f"{field}: expected a number >= 0 together with max_in_flight, got {show(timestamp_ms)}")

    def _build_sessions(self, has_sessions: bool) -> list[Session]:
        open_loop = self._max_in_flight is None
        firsts = [session.first_timestamp_ms or 0.0 for session in self._sessions.values()]
        base = min(firsts, default=0.0)
        ratio = self._speedup if open_loop else 1.0
        sessions: list[Session] = []
        for (name, loaded), first in zip(self._sessions.items(), firsts, strict=True):
            turns = tuple(
                Turn(
                    turn.request_id,
                    turn.input_length,
                    turn.output_length,
                    self._finite(turn.delay_ms / ratio, name),
                    name if has_sessions else None,
                    index if has_sessions else None,
                    routing=turn.routing,
                )
                for index, turn in enumerate(loaded.turns)
            )
            sessions.append(Session(turns, self._finite((first - base) / ratio, name) if open_loop else first))
        return sessions

    def _finite(self, time_ms: float, name: str) -> float:
        if not math.isfinite(time_ms):
            self._trace.fail(
                f"{self._trace.path}: a time of session {show(name)} exceeds the range of numbers once divided by"
                f" arrival_speedup_ratio {self._speedup}"
            )
        return time_ms

    def _build_prompts(self, loaded: list[_LoadedSession]) -> Prompts:
        rank = self._rank
        accumulate = self._delta and any(len(session.turns) > 1 for session in loaded)
        authored_outputs = any(turn.output_token_ids is not None for session in loaded for turn in session.turns)
        if not accumulate and not authored_outputs:
            # Nobody can repeat an output, so hash ids alone tell prompts apart.
            # Prompts that no cache can hold have identities to their end: routers count what they share.
            identities = TraceBlockIdentities(self._trace_block_size, rank.tokens_per_block)
            return HashIdPrompts(
                identities, [[(turn.input_length, turn.hash_ids) for turn in session.turns] for session in loaded]
            )
        return TokenPrompts(
            TokenIdentities(rank.tokens_per_block),
            self._token_turns(loaded),
            accumulate=accumulate,
            max_tokens=rank.num_gpu_blocks * rank.tokens_per_block,
            output_limit=partial(output_limit, rank),
        )

    def _token_turns(self, loaded: list[_LoadedSession]) -> list[list[TokenTurn]]:
        numbers: dict[int, int] = {}
        for turn in sorted((turn for session in loaded for turn in session.turns), key=lambda turn: turn.line_number):
            for hash_id in turn.hash_ids:
                numbers.setdefault(hash_id, len(numbers))
        drawn = DrawnOutputs()

        def token_turn(turn: _LoadedTurn) -> TokenTurn:
            interned: Tokens = np.array([numbers[hash_id] for hash_id in turn.hash_ids], np.uint32)
            if turn.output_token_ids is None:
                output = drawn.take(turn.output_length)
            else:
                output = partial(authored, np.array(turn.output_token_ids, np.uint32))
            prompt = partial(repeated_ids, interned, self._trace_block_size)
            return TokenTurn(turn.input_length, prompt, turn.output_length, output)

        return [[token_turn(turn) for turn in session.turns] for session in loaded]

    def _warnings(self) -> list[str]:
        if not self._surplus_lines:
            return []
        count = len(self._surplus_lines)
        have = "has" if count == 1 else "have"
        lines = _list_lines(self._surplus_lines)
        return [
            f"{self._trace.path}: {counted(count, 'row')} {have} more hash_ids than input_length needs"
            f" ({lines}); ignored"
        ]


def _routing(row: MooncakeRow) -> RoutingMetadata:
    if row.priority is None and row.strict_priority is None and row.policy_class is None:
        return NO_ROUTING_METADATA
    return RoutingMetadata(row.priority or 0, row.strict_priority or 0, row.policy_class)


def _output_length(row: MooncakeRow) -> int:
    field, length = _either("output_length", row.output_length, "output_tokens", row.output_tokens)
    if length is None:
        raise RowError("output_length: missing; give the number of tokens to generate")
    if not 0 <= length <= U64_MAX:
        raise RowError(out_of_bounds(field, length, MooncakeRow))
    if row.output_token_ids is not None and len(row.output_token_ids) != length:
        raise RowError(
            f"output_token_ids: expected {counted(length, 'id')} as {field} says, got {len(row.output_token_ids)}"
        )
    return length


def _either(field: str, value: _V | UnsetType, alias: str, alias_value: _V | UnsetType) -> tuple[str, _V | None]:
    """Return the name in use and its value, None where the row has neither."""
    if isinstance(alias_value, UnsetType):
        return field, None if isinstance(value, UnsetType) else value
    if isinstance(value, UnsetType):
        return alias, alias_value
    raise RowError(f"{alias}: another name of {field}, which the row has too; keep one")


def _list_lines(line_numbers: list[int], shown: int = 3) -> str:
    """Return e.g. `lines 4, 7, 9 and 12 more`."""
    head = ", ".join(map(str, line_numbers[:shown]))
    more = len(line_numbers) - shown
    return f"line{'s' if len(line_numbers) > 1 else ''} {head}{f' and {more} more' if more > 0 else ''}"
