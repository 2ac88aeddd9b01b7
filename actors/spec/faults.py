"""Finds everything that is wrong with a document, where a decoder stops at the first fault."""

from __future__ import annotations

import difflib
import json
import math
from typing import Any

import msgspec
from msgspec import inspect

from actors.spec.numerals import Oversized
from actors.spec.scope import LATER_NAMES, only_supported

# Where one of these is wrong, the other keys beside it belong to something else and are not judged.
_SELECTORS = frozenset({"backend", "provider"})


def impossible_values(value: Any, path: str = "") -> list[str]:
    """Findings for values that no field can hold: NaN, infinities, and text that cannot be encoded."""
    if isinstance(value, float):
        if math.isfinite(value):
            return []
        found = value.numeral if isinstance(value, Oversized) else _shown(value)
        return [_at(path, f"expected a finite number, got {_cut(found)}")]
    if isinstance(value, str):
        return [] if _encodable(value) else [_at(path, "the text holds half of a surrogate pair")]
    findings: list[str] = []
    if isinstance(value, dict):
        for key, entry in value.items():
            if not isinstance(key, str) or not _encodable(key):
                findings.append(_at(path, f"expected text as key, got {key!r}"))
            else:
                findings += impossible_values(entry, _join(path, key))
    elif isinstance(value, list | tuple):
        for index, entry in enumerate(value):
            if type(entry) is not int:
                findings += impossible_values(entry, f"{path}[{index}]")
    return findings


def find_faults(value: Any, expected: inspect.Type, path: str = "") -> list[str]:
    """Findings, each `path: what was expected, what was found`, for a value that should be of type `expected`."""
    if isinstance(expected, inspect.UnionType):
        return _union_faults(value, expected, path)
    if isinstance(expected, inspect.StructType):
        return _struct_faults(value, expected, path)
    if isinstance(expected, inspect.ListType) and isinstance(value, list | tuple):
        return [
            fault
            for index, entry in enumerate(value)
            for fault in find_faults(entry, expected.item_type, f"{path}[{index}]")
        ]
    if isinstance(expected, inspect.DictType) and isinstance(value, dict):
        return [
            fault for key, entry in value.items() for fault in find_faults(entry, expected.value_type, _join(path, key))
        ]
    if _fits(value, expected):
        return []
    if isinstance(expected, inspect.LiteralType):
        return [_at(path, _unknown_name(value, [str(name) for name in expected.values], _json(expected), path))]
    return [_at(path, f"expected {_words(expected, value)}, got {_shown(value)}")]


def _union_faults(value: Any, expected: inspect.UnionType, path: str) -> list[str]:
    members = [member for member in expected.types if not isinstance(member, inspect.NoneType)]
    if value is None and len(members) < len(expected.types):
        return []
    structs = [member for member in members if isinstance(member, inspect.StructType)]
    if len(structs) > 1 and isinstance(value, dict):
        tag_field = structs[0].tag_field or ""
        chosen = [member for member in structs if member.tag == value.get(tag_field)]
        if chosen:
            return _struct_faults(value, chosen[0], path)
        return [_tag_fault(value, structs, path)]
    nested = [
        member for member in members if isinstance(member, inspect.StructType | inspect.ListType | inspect.DictType)
    ]
    if isinstance(value, dict | list) and (len(members) == 1 or nested):
        return find_faults(value, (nested or members)[0], path)
    if any(_fits(value, member) for member in members):
        return []
    return [_at(path, f"expected {_words(expected, value)}, got {_shown(value)}")]


def _struct_faults(value: Any, expected: inspect.StructType, path: str) -> list[str]:
    if not isinstance(value, dict):
        return [_at(path, f"expected an object, got {_shown(value)}")]
    if expected.tag_field is not None and value.get(expected.tag_field) != expected.tag:
        return [_tag_fault(value, [expected], path)]
    fields = {field.encode_name: field for field in expected.fields}
    names = [*([expected.tag_field] if expected.tag_field else []), *fields]
    findings: list[str] = []
    for name, entry in value.items():
        if name in fields:
            faults = find_faults(entry, fields[name].type, _join(path, name))
            if faults and name in _SELECTORS:
                return faults
            findings += faults
        elif name not in names:
            findings.append(_unknown_key(name, entry, names, path))
    findings += [
        _at(_join(path, name), "missing; it is required")
        for name, field in fields.items()
        if field.required and name not in value
    ]
    if not findings:
        try:
            msgspec.convert(value, expected.cls)
        except msgspec.ValidationError as error:
            findings.append(_at(path, str(error.__cause__ or error)))
    return findings


def _tag_fault(value: dict[str, Any], structs: list[inspect.StructType], path: str) -> str:
    tag_field = structs[0].tag_field or ""
    allowed = " or ".join(json.dumps(member.tag) for member in structs)
    where = _join(path, tag_field)
    if tag_field not in value:
        return _at(where, f"missing; expected {allowed}")
    return _at(where, _unknown_name(value[tag_field], [str(member.tag) for member in structs], allowed, where))


def _unknown_name(value: Any, names: list[str], allowed: str, path: str) -> str:
    noun = path.rpartition(".")[2]
    if isinstance(value, str) and value in LATER_NAMES.get(path, ()):
        return f"this version does not support {noun} {_shown(value)}; expected {allowed}"
    close = difflib.get_close_matches(value, names, n=1) if isinstance(value, str) and len(names) > 1 else []
    hint = f'; did you mean "{close[0]}"?' if close else ""
    return f"unknown {noun} {_shown(value)}; expected {allowed}{hint}"


def _unknown_key(name: str, entry: Any, names: list[str], path: str) -> str:
    where = _join(path, name)
    support = only_supported(where)
    if support is not None:
        return _at(where, f"{support}, got {_shown(entry)}" if "only" in support else support)
    close = difflib.get_close_matches(name, names, n=1)
    hint = f'did you mean "{close[0]}"?' if close else f"allowed here: {', '.join(names)}"
    return _at(where, f"unknown key; {hint}")


def _fits(value: Any, expected: inspect.Type) -> bool:
    """Whether a plain value has the type and keeps the limits of `expected`, which is no struct, list or union."""
    match expected:
        case inspect.IntType():
            return type(value) is int and _in_limits(value, expected)
        case inspect.FloatType():
            return type(value) in (int, float) and abs(value) <= _LARGEST_FLOAT and _in_limits(value, expected)
        case inspect.StrType(min_length=shortest):
            return isinstance(value, str) and len(value) >= (shortest or 0)
        case inspect.BoolType():
            return isinstance(value, bool)
        case inspect.LiteralType(values=values):
            return any(type(value) is type(allowed) and value == allowed for allowed in values)
        case inspect.NoneType():
            return value is None
        case _:
            return isinstance(expected, inspect.AnyType)


_LARGEST_FLOAT = 1.7976931348623157e308
_LARGEST_INT = 2**63 - 1


def _in_limits(value: float, expected: inspect.IntType | inspect.FloatType) -> bool:
    return (
        (expected.ge is None or value >= expected.ge)
        and (expected.gt is None or value > expected.gt)
        and (expected.le is None or value <= expected.le)
    )


def _words(expected: inspect.Type, found: Any) -> str:
    """A type in words, with the limits that matter to a value found in its place."""
    match expected:
        case inspect.UnionType(types=types):
            return " or ".join(_words(member, found) for member in types if not isinstance(member, inspect.NoneType))
        case inspect.IntType():
            return f"an integer{_limits(expected, found)}"
        case inspect.FloatType():
            return f"a number{_limits(expected, found)}"
        case inspect.StrType(min_length=shortest):
            return "a non-empty string" if shortest else "a string"
        case inspect.BoolType():
            return "true or false"
        case inspect.LiteralType():
            return _json(expected)
        case inspect.NoneType():
            return "null"
        case inspect.ListType():
            return "a list"
        case _:
            return "an object"


def _limits(expected: inspect.IntType | inspect.FloatType, found: Any) -> str:
    low, high = expected.ge, expected.le
    if isinstance(expected, inspect.FloatType) and type(found) is int and abs(found) > _LARGEST_FLOAT:
        low, high = -_LARGEST_FLOAT if low is None else low, _LARGEST_FLOAT
    # The upper bound of 64-bit integers only protects the arithmetic; it would distract from the real limit.
    if high is not None and high >= _LARGEST_INT and not (type(found) is int and found > high):
        high = None
    if expected.gt is not None:
        return f" > {expected.gt:g}" + ("" if high is None else f" and <= {high}")
    if low is None:
        return ""
    return f" >= {low:g}" if high is None else f" in {low}..{high}"


def _json(expected: inspect.LiteralType) -> str:
    return " or ".join(json.dumps(value) for value in expected.values)


def _shown(value: Any) -> str:
    """A found value as JSON, cut short; objects and lists by their kind."""
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list | tuple):
        return "a list"
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):
        text = type(value).__name__
    return _cut(text)


def _cut(text: str) -> str:
    return text if len(text) <= 60 else f"{text[:57]}..."


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _join(path: str, name: str) -> str:
    shown = name if name.isprintable() and "." not in name and name else json.dumps(name)
    return f"{path}.{shown}" if path else shown


def _at(path: str, text: str) -> str:
    return f"{path}: {text}" if path else text
