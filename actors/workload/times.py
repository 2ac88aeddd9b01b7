"""Times of trace rows as the reference reads them from their decimal digits."""

from __future__ import annotations

import re

_EXACT_INTEGERS = 2.0**53
_NUMBER = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d+))?")


def twice_rounded(value: float) -> float:
    """Return the double that the reference makes of the shortest decimal form of `value`.

    It converts the digits, as one integer, to a double and then scales that by a power of ten. With 17 digits the
    first step rounds already, so the result can be one unit in the last place off. Times have to agree to the last
    bit, for they decide which event comes first. Source: observed on traces with such timestamps.
    """
    if value.is_integer() and abs(value) < _EXACT_INTEGERS:
        return value
    match = _NUMBER.fullmatch(repr(value))
    if match is None:
        return value
    sign, whole, fraction, exponent = match.groups(default="")
    digits = int(whole + fraction)
    scale = int(exponent or 0) - len(fraction)
    if digits < _EXACT_INTEGERS or not -300 < scale <= 0:
        return value
    scaled = float(digits) / float(f"1e{-scale}")
    return -scaled if sign else scaled
