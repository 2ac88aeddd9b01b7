"""Numbers on axes: round ticks, positions, and how numbers are written."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

MISSING = "\u2013"
DEFAULT_TICKS = 5
_ROUND = (1.0, 2.0, 5.0, 10.0)
_SUFFIXES = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))
_LONGEST_PLAIN = 1e4  # ticks from here on are written with a suffix
_LARGEST = 1e9  # number that is spelt out
_MOST_LOG_TICKS = 7
_MS_PER_S, _MS_PER_MIN = 1000.0, 60_000.0


def linear_ticks(low: float, high: float, most: int = DEFAULT_TICKS) -> list[float]:
    """Return at most `most` + 1 multiples of 1, 2 or 5 times a power of ten, from `low` to `high`."""
    if not high > low:
        return [low]
    step = round_up((high - low) / most)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    # A product of a whole number and a round step keeps off the errors that repeated addition would gather.
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """Return powers of ten between two positive numbers; also 2 and 5 times those where there are few."""
    first, last = math.floor(math.log10(low) + 1e-9), math.ceil(math.log10(high) - 1e-9)
    stride = max(1, math.ceil((last - first) / _MOST_LOG_TICKS))
    powers = [10.0**exponent for exponent in range(first, last + 1, stride)]
    fine = [factor * 10.0**exponent for exponent in range(first, last + 1) for factor in (1.0, 2.0, 5.0)]
    inside = [tick for tick in powers if low * 0.999999 <= tick <= high * 1.000001]
    finer = [tick for tick in fine if low * 0.999999 <= tick <= high * 1.000001]
    if len(inside) < 3 and len(finer) > len(inside):
        return finer
    return inside or [low, high]


def round_up(value: float) -> float:
    """Return the least of 1, 2 and 5 times a power of ten that is not below a positive number."""
    power = 10.0 ** math.floor(math.log10(value))
    return next((factor * power for factor in _ROUND if factor * power >= value * (1 - 1e-9)), 10.0 * power)


@dataclass(frozen=True, slots=True)
class Scale:
    """Maps `low`..`high` to `begin`..`end` of a picture, linearly or by logarithm."""

    low: float
    high: float
    begin: float
    end: float
    log: bool = False

    def __call__(self, values: ArrayLike) -> NDArray[np.float64]:
        """Return positions; on a logarithmic scale what lies below `low` is put at its end."""
        array = np.asarray(values, np.float64)
        low, high = self.low, self.high
        if self.log:
            array, low, high = np.log10(np.maximum(array, low)), math.log10(low), math.log10(high)
        return self.begin + (array - low) / (high - low) * (self.end - self.begin)

    def ticks(self, most: int = DEFAULT_TICKS) -> list[float]:
        """Return round numbers on the scale, ascending."""
        return log_ticks(self.low, self.high) if self.log else linear_ticks(self.low, self.high, most)

    def grid(self, count: int) -> NDArray[np.float64]:
        """Return numbers at equal distances in the picture, both ends included."""
        if self.log:
            return np.geomspace(self.low, self.high, count)
        return np.linspace(self.low, self.high, count)


def scale_for(values: NDArray[np.float64], begin: float, end: float, *, log: bool, from_zero: bool) -> Scale:
    """Return a scale that spans all finite values; never an empty one. Without positive values it is linear.

    from_zero: a linear one also spans 0, and ends at round numbers."""
    finite = values[np.isfinite(values)]
    if log and (finite > 0.0).any():
        positive = finite[finite > 0.0]
        low, high = float(positive.min()), float(positive.max())
        if high <= low * 1.05:
            low, high = low / 2.0, high * 2.0
        return Scale(low, high, begin, end, log=True)
    low, high = (float(finite.min()), float(finite.max())) if len(finite) else (0.0, 1.0)
    if from_zero:
        low, high = min(low, 0.0), max(high, 0.0)
    if high - low <= 1e-9 * max(abs(low), abs(high), 1e-9):
        margin = abs(high) / 2.0 or 1.0
        low, high = (max(low - margin, 0.0) if low >= 0.0 else low - margin), high + margin
    if from_zero:
        step = round_up((high - low) / DEFAULT_TICKS)
        low, high = step * math.floor(low / step + 1e-9), step * math.ceil(high / step - 1e-9)
    return Scale(low, high, begin, end)


def tick_texts(ticks: list[float], *, short: bool = False) -> list[str]:
    """Write ticks in few characters. Large ones are written as 20k or 1.5M; if `short`, already 1k."""
    largest = max((abs(tick) for tick in ticks), default=0.0)
    if largest < _LONGEST_PLAIN and not short:
        return [_trimmed(f"{tick:,.6f}") if abs(tick) >= 1e-6 or tick == 0.0 else f"{tick:.0e}" for tick in ticks]
    return [_with_suffix(tick) for tick in ticks]


def number(value: float | str | None, digits: int = 2) -> str:
    """Write a number as the terminal's table does; whole numbers without decimals, nothing as a dash."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return MISSING
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,d}"
    return f"{value:,.{digits}f}"


def significant(value: float | None) -> str:
    """Write a number of any size in about four digits."""
    if value is None or not math.isfinite(value):
        return MISSING
    size = abs(value)
    if size >= _LARGEST:
        return f"{value:.3g}"
    if size >= 1000.0 or value == 0.0:
        return f"{value:,.0f}"
    if size < 1e-4:
        return f"{value:.3g}"
    return _trimmed(f"{value:.{max(0, 3 - math.floor(math.log10(size)))}f}")


def percent(share: float | None, digits: int = 1) -> str:
    """Write a share of 1 as a percentage."""
    return MISSING if share is None or not math.isfinite(share) else f"{100.0 * share:.{digits}f} %"


def duration_text(ms: float) -> str:
    """Write a time in the unit that suits it."""
    if ms < _MS_PER_S:
        return f"{significant(ms)} ms"
    if ms < 2 * _MS_PER_MIN:
        return f"{significant(ms / _MS_PER_S)} s"
    return f"{significant(ms / _MS_PER_MIN)} min"


def time_unit(longest_ms: float) -> tuple[str, float]:
    """Return the unit that suits times up to this one, and its milliseconds."""
    if longest_ms < 5 * _MS_PER_S:
        return "ms", 1.0
    if longest_ms < 10 * _MS_PER_MIN:
        return "s", _MS_PER_S
    return "min", _MS_PER_MIN


def _with_suffix(value: float) -> str:
    for size, suffix in _SUFFIXES:
        if abs(value) >= size:
            return _trimmed(f"{value / size:.6g}") + suffix
    return _trimmed(f"{value:.6g}")


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text and "e" not in text else text
