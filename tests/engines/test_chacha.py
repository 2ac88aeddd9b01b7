"""Golden values: the reference's generator, observed through its arrivals, group draws and output tokens."""

from __future__ import annotations

import pytest

from engines.chacha import ChaChaStream


def test_64_bit_draws_take_the_low_half_first() -> None:
    stream = ChaChaStream(42)
    drawn = [stream.draw_u64() for _ in range(3)]
    assert drawn == [0x86CC7763222724A2, 0x8AF00A133FAD517D, 0xA2EF6071DE5134D1]


def test_32_bit_draws_are_the_words_in_order() -> None:
    stream = ChaChaStream(42)
    assert [stream.draw_u32() for _ in range(4)] == [572990626, 2261546851, 1068323197, 2330987027]


def test_doubles() -> None:
    assert ChaChaStream(0).draw_doubles(2) == [0.7311134158637046, 0.7734601843532382]


def test_output_tokens_are_words_of_a_fixed_stream() -> None:
    words = ChaChaStream(0xD37A0A7E5EED).words(0, 6).tolist()
    assert words == [952584220, 694593853, 2967053780, 2932165014, 2184908278, 3971079078]


@pytest.mark.parametrize(
    ("bound", "expected"),
    [
        (2, [0, 1, 0, 1, 1, 1, 1, 0, 1, 0, 1, 0]),
        (3, [0, 1, 0, 1, 2, 1, 2, 1, 2, 0, 1, 1]),
        (5, [0, 2, 1, 2, 4, 3, 4, 2, 4, 0, 3, 2]),
        (7, [0, 3, 1, 3, 6, 4, 6, 2, 6, 0, 4, 2]),
        (16, [2, 8, 3, 8, 13, 10, 15, 6, 15, 0, 9, 6]),
    ],
)
def test_uniform_integers(bound: int, expected: list[int]) -> None:
    stream = ChaChaStream(42)
    assert [stream.draw_below(bound) for _ in expected] == expected


def test_a_carry_from_the_second_word_raises_the_result() -> None:
    bound = 3 << 30
    stream, words = ChaChaStream(42), ChaChaStream(42)
    for _ in range(200):
        product = words.draw_u32() * bound
        expected, low = divmod(product, 2**32)
        if low > 2**32 - bound:
            expected += low + (words.draw_u32() * bound >> 32) >= 2**32
        assert stream.draw_below(bound) == expected


def test_words_at_any_position_equal_those_drawn_in_order() -> None:
    stream = ChaChaStream(7)
    drawn = [stream.draw_u32() for _ in range(2100)]
    assert ChaChaStream(7).words(0, 2100).tolist() == drawn
    assert ChaChaStream(7).words(1000, 77).tolist() == drawn[1000:1077]
    assert ChaChaStream(7).words(5, 0).tolist() == []


def test_kinds_of_draws_follow_each_other_in_the_stream() -> None:
    stream = ChaChaStream(42)
    words = stream.words(0, 8).tolist()
    assert stream.draw_u32() == words[0]
    assert stream.draw_doubles(2) == [((words[i] | words[i + 1] << 32) >> 11) * 2.0**-53 for i in (1, 3)]
    assert stream.draw_u64() == words[5] | words[6] << 32


def test_the_counter_runs_beyond_32_bits() -> None:
    stream = ChaChaStream(1)
    across = stream.words(16 * (2**32 - 1), 32).tolist()
    assert across[:16] == stream.words(16 * (2**32 - 1), 16).tolist()
    assert across[16:] == stream.words(16 * 2**32, 16).tolist()
    assert across[16:] != stream.words(0, 16).tolist()
