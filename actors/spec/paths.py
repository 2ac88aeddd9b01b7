"""The files that a document names: where they are, and how to name them from another folder."""

from __future__ import annotations

import copy
import glob
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from engines.timing.calibration import read_calibration
from messages.spec import CalibratedTiming, ExternalTiming, ReplaySpec, TableTiming

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
    """Return the files that a document names. base_dir: folder that its relative paths start from.

    Raises InputError where a calibration among them cannot be read.
    """
    paths = [base_dir / holder[name] for holder, name in _named(msgspec.to_builtins(_without_requests(spec)))]
    paths += _tables_of_calibrations(spec, base_dir)
    return [file for path in paths for file in files_meant(path) or [path]]


def files_meant(path: Path) -> list[Path]:
    """Return the files that a path stands for: itself, the traces in a folder, or what a pattern matches, in order."""
    if os.path.isdir(path):
        return sorted(entry for entry in path.iterdir() if entry.name.endswith((".jsonl", ".jsonl.gz")))
    return [path] if os.path.isfile(path) else sorted(Path(name) for name in glob.glob(str(path)))


def relocated(spec: ReplaySpec, base_dir: Path, folder: Path) -> dict[str, Any]:
    """Return the complete document, defaults included, as it reads in another folder: with its paths from there."""
    return with_paths(msgspec.to_builtins(spec), lambda path: path_from(folder, base_dir, path))


def path_from(folder: Path, base_dir: Path, path: str) -> str:
    """Return a path that starts from `base_dir` as one that starts from `folder`; an absolute one stays as it is."""
    if Path(path).is_absolute():
        return path
    target = os.path.realpath(base_dir / path)
    # Without a way from here to there, as between drives, the path stands for itself.
    try:
        return Path(os.path.relpath(target, os.path.realpath(folder))).as_posix()
    except ValueError:
        return target


def with_real_paths(document: Mapping[str, Any], base_dir: Path) -> dict[str, Any]:
    """Return a copy of a document in which each file has one name, wherever the document lies.

    Files below the working directory are named from there, others by their absolute paths. Links are followed.
    """
    here = Path(os.path.realpath(Path()))

    def real(path: str) -> str:
        target = Path(os.path.realpath(base_dir / path))
        return (target.relative_to(here) if target.is_relative_to(here) else target).as_posix()

    return with_paths(document, real)


def with_paths(document: Mapping[str, Any], renamed: Callable[[str], str]) -> dict[str, Any]:
    """Return a copy of a document with every path in it replaced. It shares the list of requests, which holds none."""
    requests = {key: value for key, value in document.items() if key == "requests"}
    copied = {key: requests.get(key) or copy.deepcopy(value) for key, value in document.items()}
    for holder, name in _named(copied):
        holder[name] = renamed(holder[name])
    return copied


def _tables_of_calibrations(spec: ReplaySpec, base_dir: Path) -> Iterator[Path]:
    """The files that calibrations of the document name in turn."""
    for rank in spec.ranks:
        if isinstance(rank.timing_model, CalibratedTiming):
            calibration = base_dir / rank.timing_model.path
            timing = read_calibration(calibration).timing_model
            if isinstance(timing, TableTiming):
                yield calibration.parent / timing.path
            elif isinstance(timing, ExternalTiming):
                yield calibration.parent / timing.config.path


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
