"""`--set PATH=VALUE`: values that replace or add parts of a document."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from actors.spec.numerals import read_float
from messages.errors import InputError


def apply_overrides(document: dict[str, Any], overrides: Sequence[str]) -> None:
    """Apply `PATH=VALUE` texts to `document`, in place and in order.

    PATH is dotted; list elements are given by index. VALUE is JSON, or else taken as a string. Objects that are missing
    on the way (or null) are created. Raises InputError with one finding per override that cannot be applied.
    """
    findings = []
    for text in overrides:
        path, separator, value = text.partition("=")
        if not separator or not all(path.split(".")):
            findings.append(f"--set {text}: expected PATH=VALUE, for example engine.rank.block_size=16")
            continue
        problem = set_value(document, path, _parse(value))
        if problem is not None:
            findings.append(f"--set {text}: {problem}")
    if findings:
        raise InputError(*findings)


def set_value(document: dict[str, Any], path: str, value: Any) -> str | None:
    """Set the value at a dotted path, in place; return what is wrong with the path, or None."""
    keys = path.split(".")
    holder: Any = document
    for depth, key in enumerate(keys):
        last = depth == len(keys) - 1
        where = ".".join(keys[:depth]) or "the document"
        if isinstance(holder, list):
            if not (key.isdecimal() and int(key) < len(holder)):
                return f"{where} is a list of {len(holder)}; expected an index below that, got {key}"
            index = int(key)
            if last:
                holder[index] = value
            elif holder[index] is None:
                holder[index] = {}
            holder = holder[index]
        elif isinstance(holder, dict):
            if last:
                holder[key] = value
            elif holder.get(key) is None:
                holder[key] = {}
            holder = holder[key]
        else:
            return f"{where} holds {json.dumps(holder)[:60]}, which has no parts"
    return None


def _parse(value: str) -> Any:
    try:
        return json.loads(value, parse_float=read_float)
    except (ValueError, RecursionError):
        return value
