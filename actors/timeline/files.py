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


_IN_PYTHON = ("timeline", "timeline_from_ms", "timeline_to_ms")


def check_timeline(
    path: Path | None, from_ms: float | None, to_ms: float | None, names: tuple[str, str, str] = _IN_PYTHON
) -> None:
    """Check the options of a timeline, called by these names.

    Raises InputError, with a finding for each that cannot be.
    """
    findings = []
    for option, bound_ms in zip(names[1:], (from_ms, to_ms), strict=True):
        if bound_ms is None:
            continue
        if path is None:
            findings.append(f"{option}: is about a timeline; give {names[0]} FILE too")
        if not (math.isfinite(bound_ms) and bound_ms >= 0.0):
            findings.append(f"{option}: expected simulated ms, finite and >= 0, got {bound_ms}")
    if not findings and from_ms is not None and to_ms is not None and not from_ms < to_ms:
        findings.append(f"{names[1]}: expected less than {names[2]} {to_ms}, got {from_ms}")
    if path is not None and not path.name.endswith((".json", _COMPRESSED)):
        findings.append(f"{path}: {names[0]} writes .json and .json.gz; end the name with one of them")
    if findings:
        raise InputError(*findings)


@contextlib.contextmanager
def timeline_file(
    path: Path, spec: ReplaySpec, *, from_ms: float | None = None, to_ms: float | None = None
) -> Iterator[Timeline]:
    """A timeline for the run of the body, in a file that appears when the body ends, and not at all where it raises.

    path: ends with .json, or .json.gz for a compressed file. from_ms, to_ms: the stretch of simulated time to show.
    All three are taken as `check_timeline` accepts them. Raises InputError where the file cannot be created.
    """
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(partial_file(path))
        if path.name.endswith(_COMPRESSED):
            # Without a name and a date inside, the same run gives the same bytes.
            packed = gzip.GzipFile("", "wb", _COMPRESSION_LEVEL, file.buffer, mtime=0.0)
            file = stack.enter_context(io.TextIOWrapper(packed, encoding="utf-8"))
        timeline = Timeline(spec, file, from_ms=from_ms, to_ms=to_ms)
        yield timeline
        timeline.finish()
