"""The files that a document names: where they are, and how to name them from another folder."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from messages.spec import ReplaySpec

_PATHS = (
    ("workload", "path"),
    *(
        (*role, "rank", "timing_model", *place)
        for role in (("engine",), ("engine", "prefill"), ("engine", "decode"))
        for place in (("path",), ("config", "path"))
    ),
    ("adapters", "placement", "config", "router_policy_config"),
    ("adapters", "scaling", "config", "load_predictor_warmup_trace"),
)
"""Where a document may hold a path; an object in such a place is none."""


def input_files(spec: ReplaySpec, base_dir: Path) -> list[Path]:
    """Return the files that a document names. base_dir: folder that its relative paths start from."""
    return [base_dir / holder[name] for holder, name in _named(msgspec.to_builtins(_without_requests(spec)))]


def relocated(spec: ReplaySpec, base_dir: Path, folder: Path) -> dict[str, Any]:
    """Return the complete document, defaults included, as it reads in another folder: with its paths from there."""
    document: dict[str, Any] = msgspec.to_builtins(spec)
    for holder, name in _named(document):
        if not Path(holder[name]).is_absolute():
            target = os.path.realpath(base_dir / holder[name])
            # Without a way from here to there, as between drives, the path stands for itself.
            try:
                holder[name] = Path(os.path.relpath(target, os.path.realpath(folder))).as_posix()
            except ValueError:
                holder[name] = target
    return document


def _without_requests(spec: ReplaySpec) -> ReplaySpec:
    return msgspec.structs.replace(spec, requests=msgspec.UNSET)


def _named(document: dict[str, Any]) -> Iterator[tuple[dict[str, Any], str]]:
    """The places of a document that hold a path."""
    for *parents, name in _PATHS:
        holder: Any = document
        for parent in parents:
            holder = holder.get(parent) if isinstance(holder, dict) else None
        if isinstance(holder, dict) and isinstance(holder.get(name), str):
            yield holder, name
