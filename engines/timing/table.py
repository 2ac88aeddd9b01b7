"""Step times interpolated between a user's own measurements."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from engines.timing.sums import DecodeSums, PrefillSums
from engines.timing.surface import Surface
from engines.timing.table_file import MeasuredPass, is_pure, read_table


class TableModel:
    """Implements `WholePassModel`.

    Prefill times are a `Surface` over the prompt tokens computed and the tokens known before, decode times one over the
    mean context and the number of requests. A pass with both takes `prefill + decode - overlap * min(prefill, decode)`;
    the overlap, from 0 to 1, is fitted to the measured passes of that kind (least squares of relative errors), and 0
    where there are none.

    passes: at least one with a prefill part alone and one with a decode part alone; of repeated ones the mean counts.
    """

    tabulate = False

    def __init__(self, passes: Sequence[MeasuredPass], name: str = "table") -> None:
        self._name = name
        self.prefill = Surface(_means(passes, "prefill"))
        self.decode = Surface(_means(passes, "decode"), proportional=True)
        self.overlap = self._fitted_overlap([measured for measured in passes if _is_mixed(measured)])
        self._seen: dict[str, list[float]] = {}

    @classmethod
    def load(cls, path: Path) -> TableModel:
        """Read and check a file of measured passes. Raises InputError as `read_table` does."""
        return cls(read_table(path), str(path))

    def pass_ms(self, prefill: PrefillSums, decode: DecodeSums, capacity_tokens: int) -> float:
        _, isl, prefix = prefill
        self._note("prefill_tokens", isl - prefix)
        self._note("prefill_kv_tokens", prefix)
        prefill_ms = self._prefill_ms(isl - prefix, prefix)
        if not decode.requests:
            return prefill_ms
        decode_ms = self.decode_ms(*decode, capacity_tokens)
        return prefill_ms + decode_ms - self.overlap * min(prefill_ms, decode_ms)

    def decode_ms(self, count: int, kv_tokens: int, capacity_tokens: int) -> float:
        return self.decode_run_ms(count, np.array([kv_tokens]), capacity_tokens).item(0)

    def decode_run_ms(self, count: int, kv_tokens: NDArray[np.int64], capacity_tokens: int) -> NDArray[np.float64]:
        contexts = kv_tokens / count
        # Of a run only the first pass is sure to take place.
        self._note("decode_requests", count)
        self._note("decode_kv_tokens / decode_requests", contexts.item(0))
        return self.decode.at(count, contexts)

    def predicted_ms(self, measured: MeasuredPass) -> float:
        """What the table gives for a pass."""
        _, tokens, known, requests, held, _ = measured
        decode_ms = self.decode.at(requests, np.array([held / requests])).item(0) if requests else 0.0
        prefill_ms = self._prefill_ms(tokens, known) if tokens else 0.0
        return prefill_ms + decode_ms - self.overlap * min(prefill_ms, decode_ms)

    def warnings(self) -> list[str]:
        """What was asked for outside the measured ranges, as far as it is known, one sentence per column."""
        ranges = {
            "prefill_tokens": self.prefill.x_range,
            "prefill_kv_tokens": self.prefill.y_range,
            "decode_requests": self.decode.y_range,
            "decode_kv_tokens / decode_requests": self.decode.x_range,
        }
        return [
            f"{self._name}: passes with {column} from {least:g} to {most:g} were timed, "
            f"measured are {low:g} to {high:g}; times outside continue the border"
            for column, (low, high) in ranges.items()
            for least, most in [self._seen.get(column, (low, high))]
            if least < low or most > high
        ]

    def _prefill_ms(self, tokens: int, known: int) -> float:
        return self.prefill.at(known, np.array([float(tokens)])).item(0)

    def _note(self, column: str, value: float) -> None:
        seen = self._seen.setdefault(column, [value, value])
        if value < seen[0]:
            seen[0] = value
        elif value > seen[1]:
            seen[1] = value

    def _fitted_overlap(self, mixed: Sequence[MeasuredPass]) -> float:
        above = below = 0.0
        for _, tokens, known, requests, held, ms in mixed:
            prefill_ms = self._prefill_ms(tokens, known)
            decode_ms = self.decode.at(requests, np.array([held / requests])).item(0)
            shorter = min(prefill_ms, decode_ms) / ms
            above += shorter * ((prefill_ms + decode_ms) / ms - 1.0)
            below += shorter * shorter
        return min(max(above / below, 0.0), 1.0) if below else 0.0


class Prediction(NamedTuple):
    """A measured pass, and what the others give for it. outside: they do not enclose it."""

    kind: str
    measured: MeasuredPass
    predicted_ms: float
    outside: bool

    @property
    def error(self) -> float:
        """Relative error."""
        return self.predicted_ms / self.measured.ms - 1.0


def leave_one_out(passes: Sequence[MeasuredPass]) -> list[Prediction]:
    """Predict each pass from all others, where enough of its kind remain; repetitions of it are left out as well."""
    predictions = []
    kinds: dict[str, Callable[[MeasuredPass], bool]] = {
        "prefill": lambda measured: is_pure(measured, "prefill"),
        "decode": lambda measured: is_pure(measured, "decode"),
        "mixed": _is_mixed,
    }
    for kind, belongs in kinds.items():
        for measured in filter(belongs, passes):
            rest = [other for other in passes if other[1:5] != measured[1:5]]
            if not any(map(belongs, rest)):
                continue
            model = TableModel(rest)
            predictions.append(Prediction(kind, measured, model.predicted_ms(measured), _is_outside(model, measured)))
    return predictions


def _is_outside(model: TableModel, measured: MeasuredPass) -> bool:
    _, tokens, known, requests, held, _ = measured
    outside = False
    if tokens:
        outside = not (_within(tokens, model.prefill.x_range) and _within(known, model.prefill.y_range))
    if requests:
        outside |= not (_within(held / requests, model.decode.x_range) and _within(requests, model.decode.y_range))
    return outside


def _within(value: float, bounds: tuple[float, float]) -> bool:
    return bounds[0] <= value <= bounds[1]


def _is_mixed(measured: MeasuredPass) -> bool:
    return measured.prefill_tokens > 0 and measured.decode_requests > 0


def _means(passes: Sequence[MeasuredPass], kind: str) -> dict[tuple[float, float], float]:
    """(y, x) -> mean time of the passes of a kind; see `TableModel` for what y and x are."""
    times: dict[tuple[float, float], list[float]] = {}
    for measured in passes:
        if is_pure(measured, kind):
            point: tuple[float, float] = (measured.prefill_kv_tokens, measured.prefill_tokens)
            if kind == "decode":
                point = (measured.decode_requests, measured.decode_kv_tokens / measured.decode_requests)
            times.setdefault(point, []).append(measured.ms)
    return {point: sum(values) / len(values) for point, values in times.items()}
