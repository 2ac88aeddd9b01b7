"""What a timing model is told of a pass: counts and token sums over its requests."""

from __future__ import annotations

from typing import NamedTuple


class PrefillSums(NamedTuple):
    """The requests that compute prompt tokens in a pass.

    requests: how many. isl: their prompt tokens up to the end of the pass. prefix: those of them known before it.
    """

    requests: int
    isl: int
    prefix: int


class DecodeSums(NamedTuple):
    """The requests that compute one token each. kv_tokens: known tokens of all of them, before this one."""

    requests: int
    kv_tokens: int


NO_PREFILL = PrefillSums(0, 0, 0)
NO_DECODE = DecodeSums(0, 0)
