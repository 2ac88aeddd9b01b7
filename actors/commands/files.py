"""What commands have to know about the files they are given."""

from __future__ import annotations

import os
from pathlib import Path


def same_file(path: Path, other: Path) -> bool:
    """Whether two paths mean one file, be it there or not."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    try:
        return os.path.realpath(path) == os.path.realpath(other)
    except ValueError:  # a path that no file system can hold
        return False
