"""The journal of a sweep: a line per finished point, on disk before the next one is looked at."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import TracebackType
from typing import BinaryIO

import msgspec

from messages.errors import InputError
from messages.sweep import PointOutcome

JOURNAL_FILE = "journal.jsonl"


class JournalEntry(msgspec.Struct, frozen=True):
    """A line: how the run with this digest ended."""

    digest: str
    outcome: PointOutcome


class Journal:
    """The file, for one sweep at a time. What a crash left half-written at its end is dropped.

    Attributes:
        outcomes: digest -> how that run ended, from all lines.
    """

    def __init__(self, folder: Path, *, fresh: bool) -> None:
        """Open, or create, the journal in a folder that is there. fresh: forget what it holds.

        Raises InputError where it cannot be used, or another sweep is at work on it.
        """
        self.path = folder / JOURNAL_FILE
        self.outcomes: dict[str, PointOutcome] = {}
        try:
            self._file: BinaryIO = self.path.open("a+b", buffering=0)
        except OSError as error:
            raise InputError(f"{self.path}: cannot be used: {error.strerror or error}") from None
        try:
            self._lock()
            if fresh:
                self._file.truncate(0)
            self._read()
        except BaseException:
            self._file.close()
            raise

    def append(self, digest: str, outcome: PointOutcome) -> None:
        """Add a finished run; it is on disk when this returns. Raises OSError."""
        line = memoryview(msgspec.json.encode(JournalEntry(digest, outcome)) + b"\n")
        while line:
            line = line[self._file.write(line) :]
        os.fsync(self._file.fileno())
        self.outcomes[digest] = outcome

    def __enter__(self) -> Journal:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()

    def _read(self) -> None:
        self._file.seek(0)
        content = self._file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            self._file.truncate(whole)
        decoder = msgspec.json.Decoder(JournalEntry)
        for line in content[:whole].splitlines():
            try:
                entry = decoder.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # torn by a crash of the whole machine
            self.outcomes[entry.digest] = entry.outcome

    def _lock(self) -> None:
        if sys.platform == "win32":
            return
        import fcntl

        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise InputError(f"{self.path.parent}: another sweep is at work here; wait for it") from None
        except OSError:
            return  # a file system without locks
