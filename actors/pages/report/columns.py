"""The records of requests as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from messages.report import RequestRecord

Floats = NDArray[np.float64]
COMPLETED = "completed"


@dataclass(frozen=True, slots=True)
class Columns:
    """An element per record. Times and latencies in simulated ms, NaN where a record has null; lengths in tokens.

    gap_ms: mean gap between tokens. counted: whether the request takes part in the statistics of the report: completed,
    and admitted at least once.
    """

    records: Sequence[RequestRecord]
    arrival_ms: Floats
    first_ms: Floats
    last_ms: Floats
    terminal_ms: Floats
    ttft_ms: Floats
    gap_ms: Floats
    e2e_ms: Floats
    outputs: NDArray[np.int64]
    counted: NDArray[np.bool_]

    def sample(self, latency: Floats) -> Floats:
        """The values of a latency that the statistics of the report go over."""
        chosen = latency[self.counted]
        return chosen[~np.isnan(chosen)]


def columns_of(records: Sequence[RequestRecord]) -> Columns:
    """Take the columns out of records."""
    count = len(records)
    return Columns(
        records=records,
        arrival_ms=_floats(record.arrival_time_ms for record in records),
        first_ms=_floats(record.first_token_ms for record in records),
        last_ms=_floats(record.last_token_ms for record in records),
        terminal_ms=_floats(record.terminal_time_ms for record in records),
        ttft_ms=_floats(record.ttft_ms for record in records),
        gap_ms=_floats(record.itl_ms for record in records),
        e2e_ms=_floats(record.e2e_latency_ms for record in records),
        outputs=np.fromiter((record.output_length for record in records), np.int64, count),
        counted=np.fromiter(
            (record.terminal_status == COMPLETED and record.admission_count > 0 for record in records), np.bool_, count
        ),
    )


def _floats(values: Iterable[float | None]) -> Floats:
    return np.array([np.nan if value is None else value for value in values], np.float64)
