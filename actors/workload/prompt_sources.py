"""How the prompts of a workload become block identities at the moment of release."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import partial

import msgspec
import numpy as np

from engines.chacha import ChaChaStream
from engines.prompts import EMPTY_HISTORY, TokenHistory, TokenIdentities, Tokens, TraceBlockIdentities
from messages.requests import Span

_OUTPUT_SEED = 0xD37A0A7E5EED
_U32_MASK = 2**32 - 1


class FreshPrompts:
    """Prompts of single-turn sessions that share nothing; `lengths` in tokens, one per session."""

    def __init__(self, identities: TraceBlockIdentities, lengths: Sequence[int]) -> None:
        self._identities = identities
        self._lengths = lengths

    def resolve(self, session: int, _turn: int) -> tuple[int, tuple[Span, ...]]:
        """Return the length of the prompt and identities that no other prompt has."""
        length = self._lengths[session]
        return length, self._identities.fresh(length)

    def completed(self, session: int) -> None:
        """Nothing depends on outputs."""

    def closed(self, session: int) -> None:
        """Nothing is kept."""


class HashIdPrompts:
    """Prompts given as trace hash ids: per session, per turn (length in tokens, ids), given up once resolved."""

    def __init__(self, identities: TraceBlockIdentities, prompts: list[list[tuple[int, array[int]]]]) -> None:
        self._identities = identities
        self._prompts = prompts

    def resolve(self, session: int, turn: int) -> tuple[int, tuple[Span, ...]]:
        """Return the length of the prompt and the identities of its complete blocks."""
        turns = self._prompts[session]
        length, hash_ids = turns[turn]
        turns[turn] = (length, _NO_IDS)
        return length, self._identities.identities(hash_ids, length)

    def completed(self, session: int) -> None:
        """Prompts are complete as given: outputs do not enter later ones."""

    def closed(self, session: int) -> None:
        """Turns that will not run any more are given up."""
        self._prompts[session] = []


_NO_IDS: array[int] = array("Q")


class TokenTurn(msgspec.Struct, frozen=True):
    """A turn by its tokens. `prompt(n)` and `output(n)` return the first n of them; None: content known to nobody."""

    input_length: int
    prompt: Callable[[int], Tokens]
    output_length: int
    output: Callable[[int], Tokens] | None


class TokenPrompts:
    """Prompts given as tokens. Identities cover prompt and output, so that later prompts can repeat outputs.

    accumulate: each prompt is the history of its session followed by the turn's own tokens.
    max_tokens: the cache of a rank in tokens; content beyond it never matters and is not spelled out.
    output_limit: (prompt, output tokens) -> tokens that a request emits; only those enter the history.
    """

    def __init__(
        self,
        identities: TokenIdentities,
        turns: list[list[TokenTurn]],
        *,
        accumulate: bool,
        max_tokens: int,
        output_limit: Callable[[int, int], int],
    ) -> None:
        self._identities = identities
        self._turns = turns
        self._accumulate = accumulate
        self._max_tokens = max_tokens
        self._output_limit = output_limit
        self._histories: dict[int, _History] = {}
        self._with_outputs: dict[int, _History] = {}

    def resolve(self, session: int, turn: int) -> tuple[int, tuple[Span, ...]]:
        """Return the length of the prompt and the identities of the complete blocks of prompt and output."""
        row = self._turns[session][turn]
        prompt = self._append(self._histories.get(session, _NO_HISTORY), row.input_length, row.prompt)
        ended = prompt
        if row.output is not None:
            ended = self._append(prompt, self._output_limit(prompt.length, row.output_length), row.output)
        if self._accumulate and turn + 1 < len(self._turns[session]):
            self._histories[session] = prompt
            self._with_outputs[session] = ended
        return prompt.length, ended.tokens.spans

    def completed(self, session: int) -> None:
        """The output of the turn enters the history."""
        if session in self._with_outputs:
            self._histories[session] = self._with_outputs.pop(session)

    def closed(self, session: int) -> None:
        """The history is given up."""
        self._turns[session] = []
        self._histories.pop(session, None)
        self._with_outputs.pop(session, None)

    def _append(self, history: _History, count: int, first_tokens: Callable[[int], Tokens]) -> _History:
        spelled_out = min(count, max(0, self._max_tokens - history.length))
        tokens = history.tokens
        if spelled_out:
            tokens = self._identities.extend(tokens, first_tokens(spelled_out))
        return _History(history.length + count, tokens)


class _History(msgspec.Struct, frozen=True):
    """`length` counts all tokens, `tokens` holds those up to the limit."""

    length: int
    tokens: TokenHistory


_NO_HISTORY = _History(0, EMPTY_HISTORY)


def repeated_ids(numbers: Tokens, trace_block_size: int, count: int) -> Tokens:
    """Return the first `count` tokens of a prompt whose trace blocks repeat the given numbers."""
    blocks = -(-count // trace_block_size)
    per_block = np.full(blocks, trace_block_size)
    per_block[-1] = count - (blocks - 1) * trace_block_size
    return np.repeat(numbers[:blocks], per_block)


def authored(tokens: Tokens, count: int) -> Tokens:
    """Return the first `count` of the given tokens."""
    return tokens[:count]


def counted_up(index: int, count: int) -> Tokens:
    """Return the tokens of a length-only request at list position `index`: (index * 1000003 + k) mod 2**32."""
    start = index * 1000003 & _U32_MASK
    return (np.arange(start, start + count, dtype=np.uint64) & np.uint64(_U32_MASK)).astype(np.uint32)


class DrawnOutputs:
    """The fixed stream of output tokens: turns in loading order take consecutive stretches of it."""

    def __init__(self) -> None:
        self._stream = ChaChaStream(_OUTPUT_SEED)
        self._next = 0

    def take(self, output_length: int) -> Callable[[int], Tokens]:
        """Set aside the stretch of the next turn without drawing it."""
        start = self._next
        self._next += output_length
        return partial(self._stream.words, start)
