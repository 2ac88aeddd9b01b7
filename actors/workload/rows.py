"""Reading of JSON Lines traces: rows with their physical line numbers, and findings about bad ones."""

from __future__ import annotations

import codecs
import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, inspect

from actors.spec.numerals import Oversized, read_float
from messages.errors import InputError

U64_MAX = 2**64 - 1

_TOO_DEEP = "JSON is nested too deeply"

# msgspec bounds only what fits in 64 signed bits; the loaders check the rest and `extra` tells the diagnosis of it.
U64 = Annotated[int, Meta(ge=0, extra={"le": U64_MAX})]
U32 = Annotated[int, Meta(ge=0, le=2**32 - 1)]
I32 = Annotated[int, Meta(ge=-(2**31), le=2**31 - 1)]

Row = TypeVar("Row", bound=msgspec.Struct)


class RowError(Exception):
    """What is wrong with one row: `field: found, allowed`."""


class TraceFile:
    """A trace and what was found wrong with it.

    path: as messages name it. Without `collected` the first finding raises InputError; otherwise findings are
    appended to it and reading goes on.
    """

    def __init__(self, path: Path, collected: list[str] | None = None) -> None:
        self.path = path
        self._collected = collected
        self._found = 0

    def rows(self, row_type: type[Row]) -> Iterator[tuple[int, Row | None]]:
        """Yield (line number from 1, row) for every line that is not blank; None for a line already found bad."""
        decode = msgspec.json.Decoder(row_type).decode
        for number, line in self._lines():
            if not line.isascii() and (problem := _not_utf8(line)):
                self.reject(number, problem)
                yield number, None
                continue
            try:
                row = decode(line)
            except (msgspec.DecodeError, RecursionError) as error:
                if not line.decode().strip():
                    continue
                self.reject(number, _diagnose(line, error, row_type))
                yield number, None
                continue
            # A name that occurs twice is a text between quotes that does, unless it is written with escapes.
            quoted = line.split(b'"')[1::2]
            if (len(quoted) != len(set(quoted)) or b"\\" in line) and (problem := _repeated_field(line, row_type)):
                self.reject(number, problem)
                yield number, None
                continue
            yield number, row

    def reject(self, line_number: int, text: str) -> None:
        """Record that the row at this line is bad."""
        self.fail(f"{self.path}:{line_number}: {text}")

    def fail(self, finding: str) -> None:
        """Record a finding that is a complete sentence of its own."""
        self._found += 1
        if self._collected is None:
            raise InputError(finding)
        self._collected.append(finding)

    @property
    def is_sound(self) -> bool:
        """Whether nothing has been found wrong yet."""
        return self._found == 0

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        try:
            with self.path.open("rb") as handle:
                for number, line in enumerate(handle, start=1):
                    if not line.isspace():
                        yield number, line
        except OSError as error:
            self.fail(f"{self.path}: cannot read the trace: {error.strerror or error}")


def show(value: Any) -> str:
    """Return a JSON value as a message quotes it, cut to a readable length."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    text = value.numeral if isinstance(value, Oversized) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 40 else text[:37] + "..."


def counted(count: int, noun: str) -> str:
    """Return e.g. `1 id` or `2 ids`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _diagnose(line: bytes, error: Exception, row_type: type[msgspec.Struct]) -> str:
    """Say what is wrong with a line that the decoder refused."""
    try:
        return _find_fault(line, row_type) or str(error)
    except RecursionError:
        return _TOO_DEEP
    except ValueError:
        # Integers of thousands of digits, which Python does not read.
        return str(error)


def _find_fault(line: bytes, row_type: type[msgspec.Struct]) -> str | None:
    try:
        msgspec.json.decode(line)
    except msgspec.ValidationError:
        pass  # a number out of range, which json reads as infinity
    except msgspec.DecodeError as malformed:
        return _malformed(line, str(malformed))
    value = json.loads(line, parse_float=read_float)
    if not isinstance(value, dict):
        return f"expected a JSON object with the fields of one row, got {show(value)}"
    for field in _fields(row_type):
        if field.encode_name in value:
            problem = _mismatch(field.encode_name, value[field.encode_name], field.type)
            if problem:
                return problem
        elif field.required:
            return f"{field.encode_name}: missing"
    return None


def _repeated_field(line: bytes, row_type: type[msgspec.Struct]) -> str | None:
    """Say which field a decoded row gives more than once; unknown keys may repeat."""
    names: list[str] = []

    def note(pairs: list[tuple[str, Any]]) -> None:
        # The row itself is the last object to end.
        names[:] = [name for name, _ in pairs]

    try:
        # Integers as floats: those of thousands of digits in keys that are ignored must not matter.
        json.loads(line, object_pairs_hook=note, parse_int=float)
    except RecursionError:
        return _TOO_DEEP
    repeated = (field.encode_name for field in _fields(row_type) if names.count(field.encode_name) > 1)
    return next((f"{name}: given more than once; keep one" for name in repeated), None)


def out_of_bounds(name: str, value: Any, row_type: type[msgspec.Struct]) -> str | None:
    """Return how a decoded value breaks a bound of its field that the decoder cannot check; None where it fits."""
    return next(_mismatch(name, value, field.type) for field in _fields(row_type) if field.encode_name == name)


@cache
def _fields(row_type: type[msgspec.Struct]) -> tuple[inspect.Field, ...]:
    info = inspect.type_info(row_type)
    assert isinstance(info, inspect.StructType)
    return info.fields


def _not_utf8(line: bytes) -> str | None:
    try:
        line.decode()
    except UnicodeDecodeError as error:
        return f"column {_column(line, error.start)}: not UTF-8 text: byte 0x{line[error.start]:02x}"
    return None


def _malformed(line: bytes, reason: str) -> str:
    """Say where JSON breaks off: json counts characters, msgspec knows what json tolerates."""
    if line.startswith(codecs.BOM_UTF8):
        return "column 1: the file starts with a byte order mark; save it as UTF-8 without one"
    text = line.decode().rstrip()
    try:
        json.loads(text, parse_constant=_refuse_constant)
    except json.JSONDecodeError as error:
        if error.pos == len(text) or error.msg.startswith("Unterminated string"):
            return f"column {len(text) + 1}: JSON is malformed: the line ends inside a value (a row must be one line)"
        found = _word_at(text, error.pos)
        return f"column {error.pos + 1}: JSON is malformed: {error.msg.removesuffix(' at')}, got {found}"
    except ValueError:
        match = re.search(r"byte (\d+)", reason)
        column = _column(line, int(match[1]) if match else 0)
        return f"column {column}: JSON is malformed: Expecting value, got {_word_at(text, column - 1)}"
    return "JSON is malformed: a string holds half of a surrogate pair (\\ud800 to \\udfff)"


def _word_at(text: str, position: int) -> str:
    found = re.compile(r"\w{1,20}|").match(text, position)
    return repr((found and found[0]) or text[position : position + 1])


def _refuse_constant(name: str) -> None:
    raise ValueError(name)


def _column(line: bytes, offset: int) -> int:
    return len(line[:offset].decode(errors="replace")) + 1


def _mismatch(path: str, value: Any, expected: inspect.Type, extra: dict[str, Any] | None = None) -> str | None:
    """Return how `value` differs from the expected type, naming the innermost path; None where it fits."""
    if isinstance(expected, inspect.Metadata):
        return _mismatch(path, value, expected.type, expected.extra)
    if isinstance(expected, inspect.UnionType):
        # Optional fields: the decoder has one type for a value beside null and absence.
        return None if value is None else _mismatch(path, value, expected.types[0])
    if isinstance(expected, inspect.ListType):
        if not isinstance(value, list):
            return f"{path}: expected a list, got {show(value)}"
        found = (_mismatch(f"{path}[{index}]", item, expected.item_type) for index, item in enumerate(value))
        return next((problem for problem in found if problem), None)
    wanted = _unmet(value, expected, extra or {})
    return f"{path}: expected {wanted}, got {show(value)}" if wanted else None


def _unmet(value: Any, expected: inspect.Type, extra: dict[str, Any]) -> str | None:
    """Return what a scalar should have been; None where it is."""
    if isinstance(expected, inspect.StrType):
        return None if isinstance(value, str) else "a string"
    if isinstance(expected, inspect.FloatType):
        return None if type(value) in (int, float) and abs(value) <= sys.float_info.max else "a finite number"
    assert isinstance(expected, inspect.IntType)
    if type(value) is not int:
        return "an integer"
    low, high = expected.ge, extra.get("le", expected.le)
    if low is not None and value < low:
        return f"an integer >= {low}"
    return f"an integer <= {high}" if high is not None and value > high else None
