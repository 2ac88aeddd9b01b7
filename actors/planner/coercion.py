"""Numbers and flags written as text or in a wider type, as configurations of live systems have them."""

from __future__ import annotations

from typing import Any

from msgspec import inspect

_FLAGS = {
    "true": True, "t": True, "yes": True, "y": True, "on": True, "1": True,
    "false": False, "f": False, "no": False, "n": False, "off": False, "0": False,
}  # fmt: skip


def coerce(value: Any, expected: inspect.Type) -> Any:
    """Turn a value into the type that a field has, where that loses nothing; anything else is returned as it is.

    "6" and 6.0 become 6 in a field of integers, "0.5" becomes 0.5 in one of floats, "true" and 1 become true in one of
    flags. The elements of objects are coerced by their own fields.
    """
    match expected:
        case inspect.StructType(fields=fields) if isinstance(value, dict):
            types = {field.encode_name: field.type for field in fields}
            return {name: coerce(entry, types[name]) if name in types else entry for name, entry in value.items()}
        case inspect.UnionType(types=types):
            members = [member for member in types if not isinstance(member, inspect.NoneType)]
            return value if value is None or len(members) != 1 else coerce(value, members[0])
        case inspect.IntType():
            return _to_int(value)
        case inspect.FloatType():
            return _to_float(value)
        case inspect.BoolType():
            return _to_bool(value)
        case _:
            return value


def _to_int(value: Any) -> Any:
    if isinstance(value, bool):
        return int(value)
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, str):
        try:
            return int(value.strip())
        except ValueError:
            return value
    return value


def _to_float(value: Any) -> Any:
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, str):
        try:
            return float(value.strip())
        except ValueError:
            return value
    return value


def _to_bool(value: Any) -> Any:
    if isinstance(value, str):
        return _FLAGS.get(value.strip().lower(), value)
    if isinstance(value, int | float) and not isinstance(value, bool) and value in (0, 1):
        return bool(value)
    return value
