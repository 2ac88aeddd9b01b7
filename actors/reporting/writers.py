"""Files of a run: each is written under a temporary name and then renamed, so that none is ever half-written."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import msgspec

from actors.spec.loading import LoadedSpec
from actors.spec.paths import relocated
from messages.errors import InputError
from messages.report import ReplayReport

SPEC_FILE = "resolved_spec.json"
REPORT_FILE = "report.json"
REQUESTS_FILE = "requests.jsonl"
PARQUET_FILE = "requests.parquet"
PLANNER_FILE = "planner.jsonl"
TELEMETRY_FILE = "telemetry.jsonl"
HTML_FILE = "report.html"
KNOWN_FILES = (REPORT_FILE, REQUESTS_FILE, PARQUET_FILE, PLANNER_FILE, TELEMETRY_FILE, SPEC_FILE, HTML_FILE)

_MOST_LINKS = 40


def report_bytes(report: ReplayReport) -> bytes:
    """Return the content of `report.json`: one indented JSON object with a final newline."""
    content: dict[str, Any] = dict(report.summary)
    if report.routing is not None:
        content["routing"] = report.routing
    if report.planner is not None:
        content["planner"] = report.planner
    if report.shortfalls:
        content["shortfalls"] = report.shortfalls
    if report.warnings:
        content["warnings"] = report.warnings
    return msgspec.json.format(msgspec.json.encode(content), indent=2) + b"\n"


def spec_bytes(replayed: LoadedSpec, folder: Path) -> bytes:
    """The content of `resolved_spec.json`: the complete document, which replays the run from that folder.

    Raises InputError where a file of the replay has no name that JSON can hold.
    """
    document = relocated(replayed.spec, replayed.base_dir, folder)
    try:
        return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"
    except UnicodeEncodeError as error:
        raise InputError(
            f"{error.object!a}: is not UTF-8, so that {SPEC_FILE} cannot name it; rename it to use --output-dir"
        ) from None


class OutputDirectory:
    """The folder of `--output-dir`: made ready, with its files open, before the run and filled after it.

    known_files: names of all files that may be written; `overwrite` lets them, and no others, be replaced.
    Raises InputError where the folder cannot be used, or holds anything and `overwrite` is false.
    """

    def __init__(self, path: Path, *, overwrite: bool, known_files: Sequence[str] = KNOWN_FILES) -> None:
        self.path = path
        self._known_files = known_files
        self._created: list[Path] = []
        self._partials: dict[str, _Partial] = {}
        with contextlib.ExitStack() as undo:
            undo.callback(self.abandon)
            try:
                self._prepare(overwrite)
            except OSError as error:
                raise InputError(f"{path}: cannot be used as output directory: {error.strerror or error}") from None
            except ValueError as error:  # a path that no file system can hold
                raise InputError(f"{str(path)!r}: cannot be used as output directory: {error}") from None
            undo.pop_all()

    def write(
        self, report: ReplayReport, replayed: LoadedSpec, *, parquet: bool = False, page: str | None = None
    ) -> list[Path]:
        """Write the files of a run, see `fill`.

        parquet: write the records as columns too, for which pyarrow is needed.
        page: the content of report.html, if there shall be one.
        """
        try:
            contents = {REPORT_FILE: report_bytes(report)}
            if report.requests is not None:
                contents[REQUESTS_FILE] = msgspec.json.Encoder().encode_lines(report.requests)
            if report.requests is not None and parquet:
                from actors.reporting.parquet import parquet_bytes

                contents[PARQUET_FILE] = parquet_bytes(report.requests)
            if report.planner_ticks is not None:
                contents[PLANNER_FILE] = msgspec.json.Encoder().encode_lines(report.planner_ticks)
            if report.telemetry is not None:
                contents[TELEMETRY_FILE] = msgspec.json.Encoder().encode_lines(report.telemetry)
            contents[SPEC_FILE] = spec_bytes(replayed, self.path)
            if page is not None:
                contents[HTML_FILE] = page.encode()
            return self.fill(contents)
        finally:
            self._discard()

    def fill(self, contents: Mapping[str, bytes]) -> list[Path]:
        """Write files by name in place of all earlier ones; return their paths. On an error nothing new is left."""
        try:
            for name, content in contents.items():
                self._partials[name].file.write(content)
                self._partials[name].file.close()
            for name in contents:
                self._partials[name].keep()
            # Only now, so that whatever stops the run leaves the results of an earlier one.
            for name in self._known_files:
                if name not in contents:
                    (self.path / name).unlink(missing_ok=True)
        finally:
            self._discard()
        return [self.path / name for name in contents]

    def abandon(self) -> None:
        """Remove what was created for this run: temporary files, and folders as far as they are empty."""
        self._discard()
        for folder in self._created:
            with contextlib.suppress(OSError):
                folder.rmdir()

    def _prepare(self, overwrite: bool) -> None:
        entries = sorted(entry.name for entry in self.path.iterdir()) if self.path.is_dir() else []
        if entries and not overwrite:
            raise InputError(
                f"{self.path}: the output directory is not empty (it holds {entries[0]}); "
                f"choose another or pass --overwrite to replace {', '.join(self._known_files)}"
            )
        for path in (self.path / name for name in self._known_files):
            if os.path.lexists(path) and _is_special(path):
                raise InputError(f"{path}: is not a regular file; remove it or choose another output directory")
        self._created = [] if self.path.is_dir() else [self.path]
        self._created += [parent for parent in self.path.parents if self._created and not parent.exists()]
        self.path.mkdir(parents=True, exist_ok=True)
        for name in self._known_files:
            self._partials[name] = _Partial(self.path / name)

    def _discard(self) -> None:
        for partial in self._partials.values():
            partial.discard()


@contextlib.contextmanager
def partial_file(path: Path) -> Iterator[TextIO]:
    """Open a text file under a temporary name, renamed to `path` at the end, removed where the body raises.

    A link leads to the file to replace. Devices, pipes and what lies under /dev and /proc are opened as they are.
    Raises InputError where the file cannot be created.
    """
    partial: _Partial | None = None
    try:
        if _is_special(path):
            file = _open_special(path)
        else:
            partial = _Partial(path)
            file = partial.file
    except OSError as error:
        raise InputError(f"{path}: cannot be created: {error.strerror or error}") from None
    except ValueError as error:  # a path that no file system can hold
        raise InputError(f"{str(path)!r}: cannot be created: {error}") from None
    try:
        with io.TextIOWrapper(file, encoding="utf-8") as text:
            yield text
        if partial is not None:
            partial.keep()
    finally:
        if partial is not None:
            partial.discard()


class _Partial:
    """A file under a temporary name of its own beside the one that `path` means, links followed.

    Raises OSError or ValueError where it cannot be created.
    """

    def __init__(self, path: Path) -> None:
        self._target = Path(os.path.realpath(path))
        if self._target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        self._path = self._target.with_name(f".aisim-actors-{secrets.token_hex(8)}.partial")
        self.file: BinaryIO = self._path.open("xb")

    def keep(self) -> None:
        """Put the closed file in its place."""
        self._path.replace(self._target)

    def discard(self) -> None:
        """Remove the file, unless it was kept."""
        # Closing writes what is buffered, which fails again where writing did.
        with contextlib.suppress(OSError):
            self.file.close()
        self._path.unlink(missing_ok=True)


def _is_special(path: Path) -> bool:
    """Whether a path, or any link on the way from it, means something that a new file must not take the place of.

    The names of open files under /dev and /proc lead on to regular files, such as the one that standard output is
    redirected to, yet stand for what is open.
    """
    if path.exists() and not path.is_file():
        return True
    for _ in range(_MOST_LINKS):
        folder = Path(os.path.realpath(path.parent))
        path = folder / path.name
        if folder.is_relative_to("/proc") or (folder.is_relative_to("/dev") and not folder.is_relative_to("/dev/shm")):
            return True
        if not path.is_symlink():
            return False
        path = folder / path.readlink()
    return False


def _open_special(path: Path) -> BinaryIO:
    """Open as it is; standard output and error by their own descriptors, so that what is printed goes on behind it."""
    for descriptor in (1, 2):
        with contextlib.suppress(OSError):
            if path.exists() and os.path.samestat(path.stat(), os.fstat(descriptor)):
                return os.fdopen(os.dup(descriptor), "wb")
    return path.open("wb")
