"""Prompts as block identities: one integer stands for an engine block and everything before it.

Two prompts have equal identities for their leading blocks exactly as far as their tokens agree. Identities are given as
spans of consecutive integers: contents form a tree, whose branches are cut into *lines*; a block and the next one of
the same line have consecutive identities, and a span of a prompt always begins where its line begins. So looking up or
counting the blocks of a prompt takes a step per span.

Prompts of a trace are lists of hash ids, each standing for `trace_block_size` equal tokens; they are re-cut at the
engine's block size without spelling out a token. Prompts with explicit tokens go through `TokenIdentities`. Identities
of the two classes must not be mixed.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
from numpy.typing import NDArray

from messages.requests import Span

Tokens = NDArray[np.uint32]

_ROOT = -1


class _Line:
    """Hash ids that follow one another, from trace block `depth` on; `first` is the identity of their first block.

    `branches`: (number of ids followed, the id after them) -> the line that goes on from there.
    """

    __slots__ = ("branches", "depth", "first", "ids")

    def __init__(self, ids: array[int], depth: int, first: int) -> None:
        self.ids = ids
        self.depth = depth
        self.first = first
        self.branches: dict[tuple[int, int], _Line] = {}


class TraceBlockIdentities:
    """Identities of prompts given as trace hash ids.

    Engine block i covers tokens [i*B, (i+1)*B); its content is that of the trace blocks, of T tokens each, up to the
    one in which it ends. So among the engine blocks of a line are those that end in its trace blocks. `max_blocks`
    bounds the length of a result: no cache holds more of a prompt.
    """

    def __init__(self, trace_block_size: int, block_size: int, max_blocks: int | None = None) -> None:
        self._trace_block_size = trace_block_size
        self._block_size = block_size
        self._max_blocks = max_blocks
        self._root = _Line(array("Q"), 0, 0)
        self._next_identity = 0

    def identities(self, hash_ids: Sequence[int], tokens: int) -> tuple[Span, ...]:
        """Return the identities of the complete engine blocks of a prompt of `tokens` tokens.

        Raises ValueError where `hash_ids` does not cover them; surplus ids are ignored.
        """
        blocks = self._complete_blocks(tokens)
        if not blocks:
            return ()
        depth = (blocks * self._block_size - 1) // self._trace_block_size + 1
        if len(hash_ids) < depth:
            raise ValueError(f"{depth} hash ids are needed, got {len(hash_ids)}")
        ids = array("Q", hash_ids[:depth])
        spans: list[Span] = []
        line, followed, position = self._root, 0, 0
        while position < depth:
            branch = (followed, ids[position])
            following = line.branches.get(branch)
            if following is None:
                following = line.branches[branch] = self._new_line(ids[position:], position)
            line = following
            followed = _common(line.ids, ids, position)
            position += followed
            first_block = self._blocks_before(line.depth)
            count = min(self._blocks_before(position), blocks) - first_block
            if count > 0:
                spans.append((line.first, line.first + count))
        return tuple(spans)

    def fresh(self, tokens: int) -> tuple[Span, ...]:
        """Return the identities of a prompt of `tokens` tokens, or of the rest of one, that nothing else repeats."""
        blocks = self._complete_blocks(tokens)
        if not blocks:
            return ()
        first = self._next_identity
        self._next_identity += blocks
        return ((first, first + blocks),)

    def _complete_blocks(self, tokens: int) -> int:
        blocks = tokens // self._block_size
        return blocks if self._max_blocks is None else min(blocks, self._max_blocks)

    def _blocks_before(self, depth: int) -> int:
        """Engine blocks that end before trace block `depth`."""
        return depth * self._trace_block_size // self._block_size

    def _new_line(self, ids: array[int], depth: int) -> _Line:
        line = _Line(ids, depth, self._next_identity)
        self._next_identity += self._blocks_before(depth + len(ids)) - self._blocks_before(depth)
        return line


def _common(line: array[int], ids: array[int], position: int) -> int:
    """How many of a line's ids a prompt follows from `position` on."""
    rest = ids[position : position + len(line)]
    if rest == line[: len(rest)]:
        return len(rest)
    return next(index for index, (ours, theirs) in enumerate(zip(rest, line, strict=False)) if ours != theirs)


class TokenHistory(msgspec.Struct, frozen=True):
    """A token sequence as its `blocks` complete blocks and the tokens after them, uint32 of fewer than a block."""

    spans: tuple[Span, ...]
    blocks: int
    tail: Tokens


EMPTY_HISTORY = TokenHistory((), 0, np.empty(0, np.uint32))


class TokenIdentities:
    """Identities of prompts given as tokens, uint32 arrays. Histories grow at the cost of what is added."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._children: dict[tuple[int, int | bytes], int] = {}

    def identities(self, tokens: Tokens) -> tuple[Span, ...]:
        """Return the identities of the complete blocks of `tokens`."""
        return self.extend(EMPTY_HISTORY, tokens).spans

    def extend(self, history: TokenHistory, tokens: Tokens) -> TokenHistory:
        """Return `history` followed by `tokens`."""
        joined = np.concatenate((history.tail, tokens)) if len(history.tail) else tokens
        count = len(joined) // self._block_size
        complete = count * self._block_size
        tail = joined[complete:].copy()
        if count == 0:
            return TokenHistory(history.spans, history.blocks, tail)
        blocks = joined[:complete].reshape(count, self._block_size)
        added = self._intern(history.spans[-1][1] - 1 if history.spans else _ROOT, blocks)
        return TokenHistory(_appended(history.spans, added), history.blocks + count, tail)

    def _intern(self, node: int, blocks: Tokens) -> list[int]:
        children = self._children
        width = blocks.shape[1] * blocks.itemsize
        data = blocks.tobytes()
        # Blocks cut from a trace block repeat one token: keyed by it, they need no bytes of their own.
        repeats_one = (blocks == blocks[:, :1]).all(axis=1).tolist()
        added: list[int] = []
        for index, first in enumerate(blocks[:, 0].tolist()):
            content = first if repeats_one[index] else data[index * width : (index + 1) * width]
            node = children.setdefault((node, content), len(children))
            added.append(node)
        return added


def _appended(spans: tuple[Span, ...], identities: Iterable[int]) -> tuple[Span, ...]:
    """Spans followed by single identities. Consecutive ones are of one line: each is the first child of the other."""
    result = list(spans)
    for identity in identities:
        if result and result[-1][1] == identity:
            result[-1] = (result[-1][0], identity + 1)
        else:
            result.append((identity, identity + 1))
    return tuple(result)
