"""Files of timelines: their names, and how they are written."""

from __future__ import annotations

import contextlib
import gzip
import io
import math
from collections.abc import Iterator
from pathlib import Path

from actors.reporting.writers import partial_file
from actors.timeline.observer import Timeline
from messages.errors import InputError
from messages.spec import ReplaySpec

_COMPRESSED = ".json.gz"
_COMPRESSION_LEVEL = 1
"""Events are so much alike that more effort gains little."""


def check_timeline(path: Path | None, from_ms: float | None, to_ms: float | None) -> None:
    """Check the options of a timeline. Raises InputError, with a finding for each that cannot be."""
    findings = []
    bounds = {"--timeline-from": from_ms, "--timeline-to": to_ms}
    for option, bound_ms in bounds.items():
        if bound_ms is None:
            continue
        if path is None:
            findings.append(f"{option}: is about --timeline FILE; give that too")
        if not (math.isfinite(bound_ms) and bound_ms >= 0.0):
            findings.append(f"{option}: expected simulated ms, finite and >= 0, got {bound_ms}")
    if not findings and from_ms is not None and to_ms is not None and not from_ms < to_ms:
        findings.append(f"--timeline-from: expected less than --timeline-to {to_ms}, got {from_ms}")
    if path is not None and not path.name.endswith((".json", _COMPRESSED)):
        findings.append(f"{path}: --timeline writes .json and .json.gz; end the name with one of them")
    if findings:
        raise InputError(*findings)


@contextlib.contextmanager
def timeline_file(
    path: Path, spec: ReplaySpec, *, from_ms: float | None = None, to_ms: float | None = None
) -> Iterator[Timeline]:
    """A timeline for the run of the body, in a file that appears when the body ends, and not at all where it raises.

    path: ends with .json, or .json.gz for a compressed file. from_ms, to_ms: the stretch of simulated time to show.
    Raises InputError where the file cannot be created, or the arguments make no sense.
    """
    check_timeline(path, from_ms, to_ms)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(partial_file(path))
        if path.name.endswith(_COMPRESSED):
            # Without a name and a date inside, the same run gives the same bytes.
            packed = gzip.GzipFile("", "wb", _COMPRESSION_LEVEL, file.buffer, mtime=0.0)
            file = stack.enter_context(io.TextIOWrapper(packed, encoding="utf-8"))
        timeline = Timeline(spec, file, from_ms=from_ms, to_ms=to_ms)
        yield timeline
        timeline.finish()
