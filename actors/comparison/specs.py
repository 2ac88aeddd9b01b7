"""Which fields of specs differ."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from msgspec import UNSET

from actors.spec.paths import with_real_paths
from messages.comparison import SpecDifference

WORKLOAD_FIELDS = frozenset(("workload", "requests", "max_in_flight", "max_sim_time_ms"))
"""Top-level fields that decide what traffic a cluster gets, and until when."""

_REQUESTS = "requests"
_WITHOUT_EFFECT = "$schema"


def comparable(document: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return a document as it is compared: with the real paths of its files, and without what has no effect.

    folder: where its relative paths start from.
    """
    document = with_real_paths(document, folder)
    document.pop(_WITHOUT_EFFECT, None)
    return document


def spec_differences(documents: Sequence[Mapping[str, Any] | None], labels: Sequence[str]) -> list[SpecDifference]:
    """Compare documents from `comparable`; None stands for a run that has none, which counts as missing."""
    there = [index for index, document in enumerate(documents) if document is not None]
    found = []
    for path, values in _differing("", [documents[index] for index in there]):
        entries: list[Any] = [UNSET] * len(documents)
        for index, value in zip(there, _counts(values) if path == _REQUESTS else values, strict=True):
            entries[index] = value
        found.append(
            SpecDifference(
                path=path,
                values=[None if value is UNSET else value for value in entries],
                missing=[label for label, value in zip(labels, entries, strict=True) if value is UNSET],
            )
        )
    return found


def top_field(difference: SpecDifference) -> str:
    """The field of the document that a difference lies in."""
    return difference.path.split(".")[0]


def _differing(path: str, values: list[Any]) -> list[tuple[str, list[Any]]]:
    """The places where values differ, with the values there, UNSET for none. Lists are taken as a whole."""
    if all(value == values[0] for value in values):
        return []
    if not all(isinstance(value, Mapping) or value is UNSET for value in values):
        return [(path, values)]
    objects = [value if isinstance(value, Mapping) else {} for value in values]
    return [
        place
        for key in dict.fromkeys(key for entry in objects for key in entry)
        for place in _differing(f"{path}.{key}" if path else key, [entry.get(key, UNSET) for entry in objects])
    ]


def _counts(values: list[Any]) -> list[Any]:
    """What there is to say of lists of requests, instead of the lists."""
    first = next(value for value in values if value is not UNSET)
    return [
        value
        if value is UNSET
        else {
            "count": len(value),
            "input_tokens": sum(row["input_tokens"] for row in value),
            "output_tokens": sum(row["output_tokens"] for row in value),
            "unlike_first": max(len(value), len(first)) - sum(map(dict.__eq__, value, first)),
        }
        for value in values
    ]
