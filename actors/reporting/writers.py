"""Files of a run: each is written under a temporary name and then renamed, so that none is ever half-written."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import msgspec

from actors.reporting.summary import Summary
from messages.errors import InputError
from messages.report import ReplayReport

REPORT_FILE = "report.json"
REQUESTS_FILE = "requests.jsonl"
KNOWN_FILES = (REPORT_FILE, REQUESTS_FILE)


def report_bytes(summary: Summary) -> bytes:
    """Return the content of `report.json`: one indented JSON object with a final newline."""
    return msgspec.json.format(msgspec.json.encode(summary), indent=2) + b"\n"


class OutputDirectory:
    """The folder of `--output-dir`, checked and created before the run and filled after it.

    Raises InputError where the folder cannot be used, or holds anything and `overwrite` is false.
    """

    def __init__(self, path: Path, *, overwrite: bool) -> None:
        self.path = path
        try:
            entries = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
            if entries and not overwrite:
                raise InputError(
                    f"{path}: the output directory is not empty (it holds {entries[0]}); "
                    f"choose another or pass --overwrite to replace {' and '.join(KNOWN_FILES)}"
                )
            for name in KNOWN_FILES:
                if (path / name).is_dir():
                    raise InputError(f"{path / name}: is a directory; remove it or choose another output directory")
            self._created = _create(path)
        except OSError as error:
            raise InputError(f"{path}: cannot be used as output directory: {error.strerror or error}") from None
        except ValueError as error:  # a path that no file system can hold
            raise InputError(f"{str(path)!r}: cannot be used as output directory: {error}") from None
        if not os.access(path, os.W_OK | os.X_OK):
            self.abandon()
            raise InputError(f"{path}: cannot be used as output directory: permission denied")

    def write(self, report: ReplayReport) -> list[Path]:
        """Write the files of a report in place of earlier ones; return their paths. On an error nothing new is left."""
        contents = {REPORT_FILE: [report_bytes(report.summary)]}
        if report.requests is not None:
            encoder = msgspec.json.Encoder()
            contents[REQUESTS_FILE] = [encoder.encode_lines(report.requests)]
        temporary: list[Path] = []
        try:
            for name, chunks in contents.items():
                partial = self.path / f".{name}.partial"
                temporary.append(partial)
                with partial.open("wb") as file:
                    file.writelines(chunks)
            for name in KNOWN_FILES:
                (self.path / name).unlink(missing_ok=True)
            for partial, name in zip(temporary, contents, strict=True):
                partial.replace(self.path / name)
        finally:
            for partial in temporary:
                partial.unlink(missing_ok=True)
        return [self.path / name for name in contents]

    def abandon(self) -> None:
        """Remove the folders that were created for this run, as far as they are empty."""
        for folder in self._created:
            with contextlib.suppress(OSError):
                folder.rmdir()


def _create(path: Path) -> list[Path]:
    """Create a folder with its parents; return the new ones, innermost first."""
    missing = [path] if not path.is_dir() else []
    missing += [parent for parent in path.parents if missing and not parent.exists()]
    path.mkdir(parents=True, exist_ok=True)
    return missing


@contextlib.contextmanager
def partial_file(path: Path) -> Iterator[TextIO]:
    """Open a text file under a temporary name beside `path`, renamed to it at the end, removed where the body raises.

    A device or pipe is opened as it is. Raises InputError where the file cannot be created.
    """
    is_special = path.exists() and not path.is_file()
    partial = path if is_special else path.with_name(f".{path.name}.partial")
    try:
        file = partial.open("w", encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be created: {error.strerror or error}") from None
    try:
        with file:
            yield file
        if not is_special:
            partial.replace(path)
    finally:
        if not is_special:
            partial.unlink(missing_ok=True)
