"""From a file, a mapping or a ReplaySpec to a checked ReplaySpec."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from actors.spec.faults import find_faults, impossible_values
from actors.spec.numerals import read_float
from actors.spec.overrides import apply_overrides
from actors.spec.scope import drop_neutral, fill_providers
from messages.errors import InputError
from messages.planner import PlannerScaling
from messages.spec import DEPLOYED, InlineRequest, ReplaySpec, SyntheticWorkload, TraceWorkload
from messages.spec_checks import check_requests, check_source, check_spec, check_workload_values

Part = TypeVar("Part")

SpecSource = str | Path | Mapping[str, Any] | ReplaySpec


class LoadedSpec(NamedTuple):
    """A checked document and the folder that its relative paths start from."""

    spec: ReplaySpec
    base_dir: Path


class ExaminedSpec(NamedTuple):
    """What could be made of a document, and every finding about it. Without findings there is a spec."""

    spec: ReplaySpec | None
    base_dir: Path
    findings: list[str]


def load_spec(source: SpecSource, overrides: Sequence[str] = ()) -> LoadedSpec:
    """Load, override and check a document.

    source: the path of a JSON file, its content as a mapping, or a ReplaySpec. Relative paths inside start from the
        folder of the file, or else from the working directory.
    overrides: `PATH=VALUE` texts, see `apply_overrides`.
    Raises InputError with every finding, each a line that begins with the file name and the path of the field.
    """
    spec, base_dir, findings = examine_spec(source, overrides)
    if spec is None or findings:
        raise InputError(*findings)
    return LoadedSpec(spec, base_dir)


def examine_spec(source: SpecSource, overrides: Sequence[str] = (), base_dir: Path | None = None) -> ExaminedSpec:
    """Do the work of `load_spec`, but return the findings, and the spec also where parts of it contradict each other.

    base_dir: the folder that relative paths start from, where it is not that of the file.

    Raises InputError where there is no document at all.
    """
    if isinstance(source, str | Path):
        label, own_dir = str(source), Path(source).parent
        document = read_document(Path(source), label)
    else:
        label, own_dir = "spec", Path()
        document = _plain(source)
    base_dir = own_dir if base_dir is None else base_dir
    apply_overrides(document, overrides)
    spec, findings = None, impossible_values(document)
    if not findings:
        spec, findings = _convert(document, base_dir)
    return ExaminedSpec(spec, base_dir, [f"{label}: {finding}" for finding in findings])


def document_schema() -> dict[str, Any]:
    """Return the JSON Schema of the document."""
    schema = msgspec.json.schema(ReplaySpec)
    schema["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    schema["$defs"]["ReplaySpec"]["oneOf"] = [{"required": ["requests"]}, {"required": ["workload"]}]
    return schema


def _convert(document: dict[str, Any], base_dir: Path) -> tuple[ReplaySpec | None, list[str]]:
    drop_neutral(document)
    fill_providers(document)
    about_planner = _complete_planner(document)
    if about_planner:
        # The rest is judged as if there were no planner.
        del document["adapters"]["scaling"]
    try:
        spec = msgspec.convert(document, ReplaySpec)
    except msgspec.ValidationError as error:
        findings = find_faults(document, msgspec.inspect.type_info(ReplaySpec)) or [str(error)]
        return None, about_planner + findings + _joint_findings(document)
    findings = about_planner + check_spec(spec)
    if any(isinstance(engine.rank.timing_model, DEPLOYED) for engine in spec.engine.given):
        from actors.spec.deployments import complete

        spec, about_timing = complete(spec, base_dir)
        findings += about_timing
    if isinstance(spec.adapters.scaling, PlannerScaling):
        # Imported where it is needed: most specs have no planner.
        from actors.planner.configuration import check, topology_mode

        findings += check(spec.adapters.scaling.config, topology_mode(spec.topology))
    return (None if about_planner else spec), findings


def _complete_planner(document: dict[str, Any]) -> list[str]:
    """Complete, in place, the configuration of a planner, if the document has one; return findings."""
    adapters = document.get("adapters")
    scaling = adapters.get("scaling") if isinstance(adapters, dict) else None
    if not isinstance(scaling, dict) or scaling.get("provider") != "planner":
        return []
    from actors.planner.configuration import prepare

    return prepare(document)


def _joint_findings(document: dict[str, Any]) -> list[str]:
    """Check what involves several parts of a document of which some part cannot be converted."""
    findings = check_source("requests" in document, "workload" in document)
    given = document.get("workload")
    workload = _converted(given, SyntheticWorkload) or _converted(given, TraceWorkload)
    max_in_flight = document.get("max_in_flight")
    if workload is not None and (max_in_flight is None or isinstance(max_in_flight, int)):
        findings += check_workload_values(workload, max_in_flight)
    rows = document.get("requests")
    if isinstance(rows, list):
        findings += check_requests([_converted(row, InlineRequest) for row in rows], dp_size=None)
    return findings


def _converted(value: object, part: type[Part]) -> Part | None:
    try:
        return msgspec.convert(value, part)
    except msgspec.ValidationError:
        return None


def _plain(source: Mapping[str, Any] | ReplaySpec) -> dict[str, Any]:
    """Copy a document given from Python into what its JSON would hold."""

    def encode(value: object) -> object:
        if isinstance(value, os.PathLike):
            return os.fspath(value)
        # Imported here, so that documents without such values do not need it.
        import numpy as np

        if isinstance(value, np.generic | np.ndarray):
            return value.tolist()
        raise TypeError(f"a value of type {type(value).__name__} has no JSON form")

    try:
        document = msgspec.to_builtins(source, str_keys=True, enc_hook=encode)
    except (TypeError, RecursionError) as error:
        raise InputError(f"spec: {error}") from None
    if not isinstance(document, dict):
        raise InputError(f"spec: expected a path, a mapping or a ReplaySpec, got {type(source).__name__}")
    return document


def read_document(path: Path, label: str) -> dict[str, Any]:
    """Read a JSON file that holds an object. Raises InputError that begins with the label."""
    try:
        text = path.read_bytes().decode("utf-8-sig")
    except FileNotFoundError:
        raise InputError(f"{label}: no such file") from None
    except IsADirectoryError:
        raise InputError(f"{label}: is a directory; expected a JSON file") from None
    except OSError as error:
        raise InputError(f"{label}: cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(
            f"{label}: is not UTF-8 text (byte {error.object[error.start]:#04x} at {error.start})"
        ) from None
    except ValueError as error:  # a path that no file system can hold, such as one with a zero byte
        raise InputError(f"{label!r}: is not a path: {error}") from None
    if not text.strip():
        raise InputError(f"{label}: is empty; expected a JSON object")
    return _parse(text, label)


def _parse(text: str, label: str) -> dict[str, Any]:
    repeated: list[str] = []

    def to_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) < len(pairs):
            names = [name for name, _ in pairs]
            repeated.extend(name for name in entries if names.count(name) > 1)
        return entries

    try:
        document = json.loads(text, object_pairs_hook=to_object, parse_float=read_float)
    except json.JSONDecodeError as error:
        what = error.msg[:1].lower() + error.msg[1:]
        raise InputError(f"{label}:{error.lineno}: column {error.colno}: JSON is malformed: {what}") from None
    except RecursionError:
        raise InputError(f"{label}: JSON is nested too deeply") from None
    except ValueError as error:  # integers of thousands of digits
        raise InputError(f"{label}: JSON cannot be read: {error}") from None
    if repeated:
        raise InputError(*(f"{label}: the key {json.dumps(name)} occurs twice in one object" for name in repeated))
    if not isinstance(document, dict):
        kind = "a list" if isinstance(document, list) else json.dumps(document)[:60]
        raise InputError(f"{label}: expected a JSON object, got {kind}")
    return document
