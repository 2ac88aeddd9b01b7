"""Fewer points for the same picture."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

MOST_POINTS = 400


def thin(xs: Floats, ys: Floats, most: int = MOST_POINTS) -> tuple[Floats, Floats]:
    """Keep about `most` points of a curve with ascending xs: of each stretch the first, lowest, highest and last."""
    if len(xs) <= most:
        return xs, ys
    edges = np.searchsorted(xs, np.linspace(xs[0], xs[-1], max(most // 4, 1) + 1)[1:-1])
    kept = {0, len(xs) - 1}
    for begin, end in zip([0, *edges.tolist()], [*edges.tolist(), len(xs)], strict=True):
        if begin < end:
            part = ys[begin:end]
            kept |= {begin, begin + int(part.argmin()), begin + int(part.argmax()), end - 1}
    chosen = np.array(sorted(kept))
    return xs[chosen], ys[chosen]


def cdf_points(sample: Floats, most: int = MOST_POINTS) -> tuple[Floats, Floats]:
    """Return the distribution of a sample as steps: values ascending, and the share of the sample up to each.

    A large sample is thinned evenly by share, and less and less towards its largest values, which few requests have.
    """
    ordered = np.sort(sample)
    count = len(ordered)
    if count == 0:
        return ordered, ordered
    if count > most:
        even = np.linspace(0, count - 1, most * 3 // 4).round().astype(np.int64)
        tail = count - 1 - np.geomspace(1, count, most // 4).astype(np.int64) + 1
        chosen = np.unique(np.concatenate([even, tail]))
    else:
        chosen = np.arange(count)
    return (
        np.concatenate([ordered[:1], ordered[chosen]]),
        np.concatenate([[0.0], (chosen + 1) / count]),
    )
