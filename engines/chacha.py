"""The random stream of the reference: ChaCha with 12 rounds, bit for bit, computed many blocks at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

_CONSTANTS = np.frombuffer(b"expand 32-byte k", dtype="<u4")
_WORDS_PER_BLOCK = 16
_DOUBLE_ROUNDS = 6
_BUFFERED_WORDS = 1024
_MASK_32 = (1 << 32) - 1
_MASK_64 = (1 << 64) - 1
_QUARTERS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip


class ChaChaStream:
    """An endless sequence of 32-bit words determined by a 64-bit seed, drawn in order or read at any position."""

    def __init__(self, seed: int) -> None:
        self._key = _key_of(seed)
        self._position = 0
        self._buffer: list[int] = []

    def words(self, start: int, count: int) -> NDArray[np.uint32]:
        """Return the 32-bit words [start, start + count) of the stream without drawing them."""
        first_block, skipped = divmod(start, _WORDS_PER_BLOCK)
        block_count = -(-(skipped + count) // _WORDS_PER_BLOCK)
        return self._blocks(first_block, block_count).reshape(-1)[skipped : skipped + count]

    def draw_u32(self) -> int:
        """Draw the next word."""
        if not self._buffer:
            self._buffer = self.words(self._position, _BUFFERED_WORDS)[::-1].tolist()
        self._position += 1
        return self._buffer.pop()

    def draw_u64(self) -> int:
        """Draw the next two words as one number, the low half first."""
        low = self.draw_u32()
        return low | self.draw_u32() << 32

    def draw_below(self, bound: int) -> int:
        """Draw a uniform integer of [0, bound), 1 <= bound <= 2**32."""
        product = self.draw_u32() * bound
        high, low = product >> 32, product & _MASK_32
        if low > -bound & _MASK_32:
            # The low half may carry into the result: a second word decides.
            high += low + (self.draw_u32() * bound >> 32) > _MASK_32
        return high

    def draw_doubles(self, count: int) -> list[float]:
        """Draw `count` uniform doubles of [0, 1)."""
        words = self.words(self._position, 2 * count).astype(np.uint64)
        self._position += 2 * count
        self._buffer = []
        drawn: list[float] = (((words[0::2] | words[1::2] << np.uint64(32)) >> np.uint64(11)) * 2.0**-53).tolist()
        return drawn

    def _blocks(self, first: int, count: int) -> NDArray[np.uint32]:
        counters = np.arange(count, dtype=np.uint64) + np.uint64(first & _MASK_64)
        start = np.zeros((_WORDS_PER_BLOCK, count), np.uint32)
        start[:4] = _CONSTANTS[:, None]
        start[4:12] = self._key[:, None]
        start[12] = counters & np.uint64(_MASK_32)
        start[13] = counters >> np.uint64(32)
        state = start.copy()
        for _ in range(_DOUBLE_ROUNDS):
            for a, b, c, d in _QUARTERS:
                _add_xor_rotate(state, a, b, d, 16)
                _add_xor_rotate(state, c, d, b, 12)
                _add_xor_rotate(state, a, b, d, 8)
                _add_xor_rotate(state, c, d, b, 7)
        state += start
        return state.T.copy()


def _add_xor_rotate(state: NDArray[np.uint32], target: int, addend: int, mixed: int, shift: int) -> None:
    state[target] += state[addend]
    state[mixed] ^= state[target]
    state[mixed] = state[mixed] << np.uint32(shift) | state[mixed] >> np.uint32(32 - shift)


def _key_of(seed: int) -> NDArray[np.uint32]:
    """Spread a 64-bit seed over the eight key words by a permuted congruential generator."""
    words: list[int] = []
    state = seed & _MASK_64
    for _ in range(8):
        state = (state * 6364136223846793005 + 11634580027462260723) & _MASK_64
        mixed = ((state >> 18 ^ state) >> 27) & _MASK_32
        turn = state >> 59
        words.append((mixed >> turn | mixed << (-turn & 31)) & _MASK_32)
    return np.array(words, np.uint32)
