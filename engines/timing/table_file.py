"""Files of measured passes, CSV or JSON: reading and checking them."""

from __future__ import annotations

import csv
import difflib
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from messages.errors import InputError

COLUMNS = ("prefill_tokens", "prefill_kv_tokens", "decode_requests", "decode_kv_tokens", "ms")
_MOST_FAULTS = 20


class MeasuredPass(NamedTuple):
    """A pass of a real engine.

    where: its place in the file. prefill_tokens: prompt tokens computed. prefill_kv_tokens: tokens of the same requests
    known before. decode_requests: requests that computed one token each. decode_kv_tokens: their tokens known before.
    ms: how long it took.
    """

    where: str
    prefill_tokens: int
    prefill_kv_tokens: int
    decode_requests: int
    decode_kv_tokens: int
    ms: float


def read_table(path: Path) -> list[MeasuredPass]:
    """Read the passes of a file: CSV with a header, or where its name ends with .json `{"passes": [{...}]}`.

    Columns are those of `COLUMNS`, in any order; what is left out or empty is 0, but for `ms`. CSV lines that are empty
    or begin with # are passed over.

    Raises:
        InputError: it cannot be read, or has a bad value; each finding names its place.
    """
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; give the path of a table relative to the spec file") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError:
        raise InputError(f"{path}: is not UTF-8 text") from None
    rows = _json_rows(path, text) if path.suffix.lower() == ".json" else _csv_rows(path, text)
    passes: list[MeasuredPass] = []
    faults: list[str] = []
    for where, row in rows:
        found = _faults(row)
        faults += [f"{where}: {fault}" for fault in found]
        if not found:
            counts = [int(row.get(name) or 0) for name in COLUMNS[:-1]]
            passes.append(MeasuredPass(where, counts[0], counts[1], counts[2], counts[3], float(row["ms"])))
        if len(faults) > _MOST_FAULTS:
            break
    if faults:
        raise InputError(*faults)
    kinds = {"prefill": "decode_requests is 0", "decode": "prefill_tokens is 0"}
    for kind, what in kinds.items():
        if not any(is_pure(measured, kind) for measured in passes):
            raise InputError(f"{path}: has no {kind} pass, a row in which {what}; it needs at least one")
    return passes


def is_pure(measured: MeasuredPass, kind: str) -> bool:
    """Whether a pass is of "prefill" or "decode" alone."""
    if kind == "prefill":
        return measured.prefill_tokens > 0 and not measured.decode_requests
    return measured.decode_requests > 0 and not measured.prefill_tokens


def _csv_rows(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    header: list[str] | None = None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        cells = [cell.strip() for cell in next(csv.reader([line]))]
        if header is None:
            header = cells
            _check_names(f"{path}:{number}", header)
            continue
        if len(cells) != len(header):
            raise InputError(f"{path}:{number}: has {len(cells)} cells; the header has {len(header)}")
        yield f"{path}:{number}", {name: _number(cell) for name, cell in zip(header, cells, strict=True)}
    if header is None:
        raise InputError(f"{path}: is empty; expected a header with {', '.join(COLUMNS)}")


def _json_rows(path: Path, text: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    try:
        document = json.loads(text)
    except ValueError as error:
        raise InputError(f"{path}: JSON is malformed: {error}") from None
    except RecursionError:
        raise InputError(f"{path}: JSON is nested too deeply") from None
    rows = document.get("passes") if isinstance(document, dict) else None
    if not isinstance(rows, list):
        raise InputError(f'{path}: expected {{"passes": [...]}} with an object per pass')
    for index, row in enumerate(rows):
        where = f"{path}: passes[{index}]"
        if not isinstance(row, dict):
            raise InputError(f"{where}: expected an object, got {json.dumps(row)[:60]}")
        _check_names(where, [*row, *(["ms"] if "ms" not in row else [])])
        yield where, row


def _check_names(where: str, names: list[str]) -> None:
    findings = []
    for name in names:
        if name not in COLUMNS:
            close = difflib.get_close_matches(name, COLUMNS, n=1)
            hint = f'did you mean "{close[0]}"?' if close else f"allowed: {', '.join(COLUMNS)}"
            findings.append(f"{where}: unknown column {json.dumps(name)}; {hint}")
        elif names.count(name) > 1 and name not in str(findings):
            findings.append(f"{where}: column {name} occurs twice")
    if "ms" not in names:
        findings.append(f"{where}: column ms is missing; it holds how long each pass took")
    if findings:
        raise InputError(*findings)


def _number(cell: str) -> int | float | str | None:
    """What a cell holds, the text itself where that is no number."""
    if not cell:
        return None
    # Python would also take 1_000 and digits of other scripts, which are more likely to be slips.
    if "_" in cell or not cell.isascii():
        return cell
    for convert in (int, float):
        try:
            return convert(cell)
        except ValueError:
            continue
    return cell


def _faults(row: Mapping[str, Any]) -> list[str]:
    """What is wrong with a row, each as `column NAME: what was expected, what was found`."""
    faults = []
    for name in COLUMNS[:-1]:
        value = row.get(name)
        if value is not None and not (type(value) is int and 0 <= value < 2**53):
            faults.append(f"column {name}: expected an integer >= 0, got {_shown(value)}")
    time_ms = row.get("ms")
    if isinstance(time_ms, bool) or not (isinstance(time_ms, int | float) and 0.0 < time_ms <= sys.float_info.max):
        faults.append(f"column ms: expected a number > 0, got {_shown(time_ms)}")
    if faults:
        return faults
    prefill, known, requests, held = (row.get(name) or 0 for name in COLUMNS[:-1])
    if not (prefill or requests):
        faults.append("column prefill_tokens: a pass without decode_requests computes prompt tokens, got 0")
    if known and not prefill:
        faults.append(f"column prefill_kv_tokens: without prefill_tokens there are none, got {known}")
    if held < requests:
        faults.append(f"column decode_kv_tokens: {requests} requests hold at least {requests} tokens, got {held}")
    if held and not requests:
        faults.append(f"column decode_kv_tokens: without decode_requests there are none, got {held}")
    return faults


def _shown(value: object) -> str:
    return "nothing" if value is None else json.dumps(value)[:60]
