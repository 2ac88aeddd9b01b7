"""Prompts as block identities: one integer stands for an engine block and everything before it.

Two prompts have equal identities for their leading blocks exactly as far as their tokens agree, so a prefix match is
a walk over integers. Prompts of a trace are lists of hash ids, each standing for `trace_block_size` equal tokens;
they are re-cut at the engine's block size without spelling out a token. Prompts with explicit tokens go through
`TokenIdentities`. Identities of the two classes must not be mixed.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

import msgspec
import numpy as np
from numpy.typing import NDArray

Tokens = NDArray[np.uint32]

_ROOT = -1


class TraceBlockIdentities:
    """Identities of prompts given as trace hash ids.

    Engine block i covers tokens [i*B, (i+1)*B) and ends in trace block d(i) = ceil((i+1)*B / T) - 1 of T tokens each.
    Its identity is the trie node of trace blocks 0..d(i) together with its place among the engine blocks that end
    there. `max_blocks` bounds the length of a result: no cache holds more of a prompt.
    """

    def __init__(self, trace_block_size: int, block_size: int, max_blocks: int | None = None) -> None:
        self._trace_block_size = trace_block_size
        self._block_size = block_size
        self._max_blocks = max_blocks
        # A node is the first of a range of identities, one for each engine block that can end in a trace block.
        stride = -(-trace_block_size // block_size)
        self._stride = stride if max_blocks is None else max(1, min(stride, max_blocks))
        self._next_node = 0
        self._children: dict[tuple[int, int], int] = {}
        self._depths: NDArray[np.int64] = np.empty(0, np.int64)
        self._places: NDArray[np.int64] = np.empty(0, np.int64)

    def identities(self, hash_ids: Sequence[int], tokens: int) -> tuple[int, ...]:
        """Return the identities of the complete engine blocks of a prompt of `tokens` tokens.

        Raises ValueError where `hash_ids` does not cover them; surplus ids are ignored.
        """
        blocks = self._complete_blocks(tokens)
        if blocks == 0:
            return ()
        nodes = self._walk(hash_ids, (blocks * self._block_size - 1) // self._trace_block_size + 1)
        if self._trace_block_size == self._block_size:
            return tuple(nodes)
        if blocks > len(self._depths):
            self._extend_cut(blocks)
        cut = np.array(nodes, np.int64)[self._depths[:blocks]] + self._places[:blocks]
        return tuple(cut.tolist())

    def fresh(self, tokens: int) -> tuple[int, ...]:
        """Return the identities of a prompt of `tokens` tokens, or of the rest of one, that nothing else repeats."""
        blocks = self._complete_blocks(tokens)
        first = self._next_node
        self._next_node += -(-blocks // self._stride) * self._stride
        return tuple(range(first, first + blocks))

    def _complete_blocks(self, tokens: int) -> int:
        blocks = tokens // self._block_size
        return blocks if self._max_blocks is None else min(blocks, self._max_blocks)

    def _walk(self, hash_ids: Sequence[int], depth: int) -> list[int]:
        if len(hash_ids) < depth:
            raise ValueError(f"{depth} hash ids are needed, got {len(hash_ids)}")
        children = self._children
        unused = self._next_node
        node = _ROOT
        nodes: list[int] = []
        for hash_id in islice(hash_ids, depth):
            node = children.setdefault((node, hash_id), unused)
            if node == unused:
                unused += self._stride
            nodes.append(node)
        self._next_node = unused
        return nodes

    def _extend_cut(self, blocks: int) -> None:
        index = np.arange(max(blocks, 2 * len(self._depths)), dtype=np.int64)
        # A trace block longer than any prompt cuts like one that just covers it; this keeps int64 from overflowing.
        trace_block_size = min(self._trace_block_size, len(index) * self._block_size)
        self._depths = ((index + 1) * self._block_size - 1) // trace_block_size
        self._places = index - self._depths * trace_block_size // self._block_size


class TokenHistory(msgspec.Struct, frozen=True):
    """A token sequence as its complete blocks and the tokens after them, uint32 of fewer than a block."""

    block_ids: tuple[int, ...]
    tail: Tokens


EMPTY_HISTORY = TokenHistory((), np.empty(0, np.uint32))


class TokenIdentities:
    """Identities of prompts given as tokens, uint32 arrays. Histories grow at the cost of what is added."""

    def __init__(self, block_size: int) -> None:
        self._block_size = block_size
        self._children: dict[tuple[int, int | bytes], int] = {}

    def identities(self, tokens: Tokens) -> tuple[int, ...]:
        """Return the identities of the complete blocks of `tokens`."""
        return self.extend(EMPTY_HISTORY, tokens).block_ids

    def extend(self, history: TokenHistory, tokens: Tokens) -> TokenHistory:
        """Return `history` followed by `tokens`."""
        joined = np.concatenate((history.tail, tokens)) if len(history.tail) else tokens
        count = len(joined) // self._block_size
        complete = count * self._block_size
        tail = joined[complete:].copy()
        if count == 0:
            return TokenHistory(history.block_ids, tail)
        blocks = joined[:complete].reshape(count, self._block_size)
        added = self._intern(history.block_ids[-1] if history.block_ids else _ROOT, blocks)
        return TokenHistory(history.block_ids + tuple(added), tail)

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
