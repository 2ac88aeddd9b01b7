"""Arguments and options that several commands have."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Replace a value of SPEC, e.g. engine.rank.block_size=16."),
]


def same_file(path: Path, other: Path) -> bool:
    """Whether two paths mean one file, be it there or not."""
    if os.path.exists(path) and os.path.exists(other):
        return os.path.samefile(path, other)
    try:
        return os.path.realpath(path) == os.path.realpath(other)
    except ValueError:  # a path that no file system can hold
        return False
