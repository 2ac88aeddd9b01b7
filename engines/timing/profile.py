"""Step times interpolated linearly on the grids of a measured profile (npz)."""

from __future__ import annotations

import zipfile
import zlib
from bisect import bisect_right
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib.npyio import NpzFile
from numpy.typing import NDArray

from messages.errors import InputError

_DIMENSIONS = {
    "prefill_isl": 1,
    "prefill_ttft_ms": 1,
    "decode_active_kv_tokens": 1,
    "decode_context_length": 1,
    "decode_itl": 2,
}

# What numpy and its zip reader raise for a file that is damaged or no archive; their texts tell of their own options.
_UNREADABLE = (ValueError, EOFError, MemoryError, RuntimeError, zipfile.BadZipFile, zlib.error)


def _line(x1: float, y1: float, x2: float, y2: float, x: float) -> float:
    return ((y2 - y1) / (x2 - x1)) * (x - x1) + y1


class ProfileModel:
    """Linear (prefill) and bilinear (decode) interpolation; the border segments continue outside the grids.

    prefill_isl: n >= 2 ascending numbers of new tokens; prefill_ttft_ms: n times.
    decode_active_kv_tokens: k >= 2 ascending (rows); decode_context_length: m >= 2 ascending (columns);
    decode_itl: k x m times in ms. Prefill results are at least 0 ms, decode results at least 1 ms.
    """

    tabulate = False

    def __init__(self, arrays: dict[str, NDArray[np.float64]]) -> None:
        self._isl: list[float] = arrays["prefill_isl"].tolist()
        self._ttft: list[float] = arrays["prefill_ttft_ms"].tolist()
        self._rows = arrays["decode_active_kv_tokens"]
        self._columns = arrays["decode_context_length"]
        self._itl = arrays["decode_itl"]

    @classmethod
    def load(cls, path: Path) -> ProfileModel:
        """Read and check a profile file.

        Raises:
            InputError: not readable, an array missing, not float64, of a wrong shape, or an axis not ascending.
        """
        arrays: dict[str, NDArray[np.float64]] = {}
        try:
            with path.open("rb") as file, _archive(path, file) as archive:
                missing = [name for name in _DIMENSIONS if name not in archive.files]
                if missing:
                    needed = ", ".join(_DIMENSIONS)
                    raise InputError(f"{path}: array {missing[0]} is missing; the profile needs {needed}")
                for name in _DIMENSIONS:
                    arrays[name] = _read(path, archive, name)
        except FileNotFoundError:
            raise InputError(f"{path}: no such file; give the path of a profile relative to the spec file") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
        _check(path, arrays)
        return cls(arrays)

    def prefill_ms(self, count: int, mean_isl: int, mean_prefix: int) -> float:
        tokens = float(count * (mean_isl - mean_prefix))
        i = min(max(bisect_right(self._isl, tokens) - 1, 0), len(self._isl) - 2)
        return max(_line(self._isl[i], self._ttft[i], self._isl[i + 1], self._ttft[i + 1], tokens), 0.0)

    def decode_ms(self, count: int, kv_tokens: int, capacity_tokens: int) -> float:
        return float(self.decode_run_ms(count, np.array([kv_tokens]), capacity_tokens)[0])

    def decode_run_ms(self, count: int, kv_tokens: NDArray[np.int64], capacity_tokens: int) -> NDArray[np.float64]:
        x = kv_tokens.astype(np.float64)
        y = (kv_tokens // count).astype(np.float64)
        i = np.clip(np.searchsorted(self._rows, x, side="right") - 1, 0, len(self._rows) - 2)
        j = np.clip(np.searchsorted(self._columns, y, side="right") - 1, 0, len(self._columns) - 2)
        x1, x2 = self._rows[i], self._rows[i + 1]
        left = ((self._itl[i + 1, j] - self._itl[i, j]) / (x2 - x1)) * (x - x1) + self._itl[i, j]
        right = ((self._itl[i + 1, j + 1] - self._itl[i, j + 1]) / (x2 - x1)) * (x - x1) + self._itl[i, j + 1]
        y1, y2 = self._columns[j], self._columns[j + 1]
        return np.maximum(((right - left) / (y2 - y1)) * (y - y1) + left, 1.0)


def _archive(path: Path, file: BinaryIO) -> NpzFile:
    try:
        archive = np.load(file, allow_pickle=False)
    except _UNREADABLE:
        raise InputError(f"{path}: is not an npz archive, the file that numpy.savez writes") from None
    if isinstance(archive, NpzFile):
        return archive
    raise InputError(f"{path}: expected an npz archive of five arrays, found a single array")


def _read(path: Path, archive: NpzFile, name: str) -> NDArray[np.float64]:
    try:
        array = archive[name]
    except _UNREADABLE:
        array = None
    if isinstance(array, np.ndarray):
        return array
    raise InputError(f"{path}: {name} cannot be read as an array of float64; write the profile anew")


def _check(path: Path, arrays: dict[str, NDArray[np.float64]]) -> None:
    for name, array in arrays.items():
        if array.dtype != np.float64:
            raise InputError(f"{path}: {name} has type {array.dtype}; expected float64")
        if array.ndim != _DIMENSIONS[name]:
            raise InputError(f"{path}: {name} has {array.ndim} dimensions; expected {_DIMENSIONS[name]}")
        if not np.isfinite(array).all():
            raise InputError(f"{path}: {name} contains a value that is not finite")
    for name in ("prefill_isl", "decode_active_kv_tokens", "decode_context_length"):
        axis = arrays[name]
        if len(axis) < 2:
            raise InputError(f"{path}: {name} has {len(axis)} points; interpolation needs at least 2")
        if not (np.diff(axis) > 0).all():
            raise InputError(f"{path}: {name} must be strictly ascending")
    if len(arrays["prefill_ttft_ms"]) != len(arrays["prefill_isl"]):
        values, points = len(arrays["prefill_ttft_ms"]), len(arrays["prefill_isl"])
        raise InputError(f"{path}: prefill_ttft_ms has {values} values for {points} of prefill_isl")
    expected = (len(arrays["decode_active_kv_tokens"]), len(arrays["decode_context_length"]))
    if arrays["decode_itl"].shape != expected:
        raise InputError(f"{path}: decode_itl has shape {arrays['decode_itl'].shape}; its axes give {expected}")
