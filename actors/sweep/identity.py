"""What makes two runs the same run: the program, the spec and the content of the files it names."""

from __future__ import annotations

import hashlib
import os
from functools import cache
from importlib import metadata
from pathlib import Path

import msgspec

from actors.spec.paths import input_files, with_paths
from messages.spec import ReplaySpec

_Stamp = tuple[int, int, int, int]
_known: dict[tuple[str, _Stamp], str] = {}


def run_digest(spec: ReplaySpec, base_dir: Path) -> str:
    """Return a digest of all that the summary of a run depends on. Raises OSError where a file cannot be read."""
    # Of the names of files, the ending can tell how the content is to be read.
    document = with_paths(msgspec.to_builtins(spec), lambda path: Path(path).suffix)
    document.pop("$schema", None)
    files = [file_digest(file) + file.suffix for file in input_files(spec, base_dir)]
    content = msgspec.json.encode([program_digest(), document, files], order="deterministic")
    return hashlib.sha256(content).hexdigest()


def file_digest(path: Path) -> str:
    """Return the digest of a file's content, which is read again only where the file has been written to since."""
    stamp = _stamp(path)
    key = (os.fspath(path), stamp)
    if key not in _known:
        with path.open("rb") as file:
            _known[key] = hashlib.file_digest(file, "sha256").hexdigest()
    return _known[key]


@cache
def program_digest() -> str:
    """Return a digest of the version of this program and of its modules, so that a change of either shows."""
    home = Path(__file__).resolve().parents[2]
    content = hashlib.sha256(_version().encode())
    for module in sorted(path for name in ("actors", "engines", "messages") for path in (home / name).rglob("*.py")):
        content.update(module.relative_to(home).as_posix().encode())
        content.update(module.read_bytes())
    return content.hexdigest()


def _version() -> str:
    try:
        return metadata.version("aisim-actors")
    except metadata.PackageNotFoundError:
        return ""


def _stamp(path: Path) -> _Stamp:
    status = path.stat()
    return status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns
