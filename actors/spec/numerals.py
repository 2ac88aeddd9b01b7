"""Numbers as a JSON file writes them."""

from __future__ import annotations

import math


class Oversized(float):
    """The infinity that a numeral beyond the range of floats is read as, with the numeral for messages."""

    numeral: str


def read_float(numeral: str) -> float:
    """Read a numeral; for `parse_float` of the json module."""
    value = float(numeral)
    if math.isfinite(value):
        return value
    oversized = Oversized(value)
    oversized.numeral = numeral
    return oversized
