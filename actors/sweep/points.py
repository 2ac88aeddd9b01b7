"""From a sweep file to its points, each with a checked spec."""

from __future__ import annotations

import copy
import itertools
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from actors.spec.faults import find_faults, impossible_values
from actors.spec.loading import examine_spec, read_document
from actors.spec.overrides import set_value
from actors.spec.paths import input_files
from actors.sweep.identity import file_digest, run_digest
from actors.sweep.keys import find_key_faults, find_missing_figures
from messages.errors import InputError
from messages.spec import ReplaySpec, TraceWorkload
from messages.sweep import SweepSpec

_AXES_SHOWN = 100  # characters


class Point(msgspec.Struct, frozen=True):
    """One combination of values, and the spec that they make of the base.

    inputs: every file that the spec names, absolute -> the digest of its content.
    digest: of all that its results depend on; equal for points whose runs are the same.
    """

    index: int
    axes: dict[str, Any]
    spec: ReplaySpec
    inputs: dict[str, str] = {}
    digest: str = ""


class Sweep(msgspec.Struct, frozen=True):
    """A checked sweep.

    base_dir: the folder that paths in the specs start from.
    documents: the files that the sweep itself is written in.
    """

    spec: SweepSpec
    points: list[Point]
    base_dir: Path
    documents: list[Path]


def load_sweep(path: Path) -> Sweep:
    """Read a sweep, make its points and check their specs; the content of the files that these name is not checked.

    Raises InputError with every finding; one about a spec tells the first point that it is true of.
    """
    document = read_document(path, str(path))
    sweep = _convert(document, str(path))
    if isinstance(sweep.base, str):
        base_file = path.parent / sweep.base
        base, base_dir, documents = read_document(base_file, str(base_file)), base_file.parent, [path, base_file]
    else:
        base, base_dir, documents = sweep.base, path.parent, [path]
    points = _points(sweep, base, base_dir, str(path))
    try:
        return Sweep(sweep, [_identified(point, base_dir) for point in points], base_dir, documents)
    except OSError as error:
        raise InputError(f"{error.filename}: cannot be read: {error.strerror or error}") from None


def check_files(sweep: Sweep, points: list[Point]) -> None:
    """Check the files that these points name, each as the first point that names it uses it.

    Raises InputError with every finding.
    """
    # Imported here: a sweep whose points are all finished needs none of it.
    from actors.validation import check_parts
    from actors.workload.loading import check_workload

    findings: dict[str, None] = {}
    checked: set[bytes] = set()
    for point in points:
        spec, parts = point.spec, (point.spec.adapters, [rank.timing_model for rank in point.spec.ranks])
        if isinstance(spec.workload, TraceWorkload):
            key = msgspec.json.encode((spec.workload.path, spec.workload.format, spec.workload.block_size))
            if key not in checked:
                checked.add(key)
                found, _ = check_workload(spec, sweep.base_dir)
                findings |= dict.fromkeys(found)
        key = msgspec.json.encode(parts)
        if key not in checked:
            checked.add(key)
            findings |= dict.fromkeys(check_parts(spec, sweep.base_dir))
    if findings:
        raise InputError(*findings)


def axes_text(axes: dict[str, Any]) -> str:
    """Return the values of a point for a line of text: `engine.rank.num_gpu_blocks=280, max_in_flight=8`."""
    text = ", ".join(f"{path}={value_text(value)}" for path, value in axes.items())
    return text if len(text) <= _AXES_SHOWN else f"{text[: _AXES_SHOWN - 3]}..."


def value_text(value: Any) -> str:
    """Return a value of an axis as text: itself, or its JSON."""
    return value if isinstance(value, str) else json.dumps(value)


def _convert(document: dict[str, Any], label: str) -> SweepSpec:
    findings = impossible_values(document)
    if not findings:
        try:
            sweep = msgspec.convert(document, SweepSpec)
        except msgspec.ValidationError as error:
            findings = find_faults(document, msgspec.inspect.type_info(SweepSpec)) or [str(error)]
        else:
            findings = find_key_faults(sweep)
    if findings:
        raise InputError(*(f"{label}: {finding}" for finding in findings))
    return sweep


def _points(sweep: SweepSpec, base: dict[str, Any], base_dir: Path, label: str) -> list[Point]:
    points: list[Point] = []
    findings: dict[str, list[str]] = {}
    for index, axes in enumerate(_combinations(sweep)):
        document = copy.deepcopy(base)
        found = [
            f"axes: {path}: {problem}"
            for path, value in axes.items()
            if (problem := set_value(document, path, copy.deepcopy(value))) is not None
        ]
        if not found:
            examined = examine_spec(document, base_dir=base_dir)
            found = [finding.removeprefix("spec: ") for finding in examined.findings]
            if examined.spec is not None and not found:
                found = find_missing_figures(sweep, examined.spec)
                points.append(Point(index, axes, _lean(examined.spec)))
        for finding in found:
            findings.setdefault(finding, []).append(f"point {index} ({axes_text(axes)})")
    if findings:
        raise InputError(
            *(f"{label}: {places[0]}: {finding}{_and_others(len(places) - 1)}" for finding, places in findings.items())
        )
    return points


def _identified(point: Point, base_dir: Path) -> Point:
    inputs = {os.path.abspath(file): file_digest(file) for file in input_files(point.spec, base_dir)}
    return msgspec.structs.replace(point, inputs=inputs, digest=run_digest(point.spec, base_dir))


def _and_others(count: int) -> str:
    return "" if not count else f" (and {count} other point{'s' if count > 1 else ''})"


def _combinations(sweep: SweepSpec) -> Iterator[dict[str, Any]]:
    """The values of each point, in order."""
    values = sweep.axes.values()
    rows = itertools.product(*values) if sweep.mode == "grid" else zip(*values, strict=True)
    return (dict(zip(sweep.axes, row, strict=True)) for row in rows)


def _lean(spec: ReplaySpec) -> ReplaySpec:
    """The spec without what is recorded beside the summary, which depends on none of it."""
    return msgspec.structs.replace(spec, record_per_request=False, telemetry=None)
