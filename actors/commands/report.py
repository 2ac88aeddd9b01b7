"""`report`: an HTML page about the run that an output directory holds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from actors.cli import SUCCESS


def report_directory(
    directory: Annotated[Path, typer.Argument(metavar="DIR", help="Output directory of `replay`.")],
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Where to write the page, instead of DIR/report.html.")
    ] = None,
) -> int:
    """Write an HTML page about the run in DIR."""
    from actors.pages.page import check_target
    from actors.pages.report.page import report_page
    from actors.reporting.results import load_results
    from actors.reporting.writers import HTML_FILE, KNOWN_FILES, partial_file
    from messages.errors import InputError

    target = output if output is not None else directory / HTML_FILE
    for name in KNOWN_FILES:
        if name != HTML_FILE and _is_same(target, directory / name):
            raise InputError(f"{target}: --output would replace {name} of the run; choose another file")
    check_target(target)
    page = report_page(load_results(directory))
    with partial_file(target) as file:
        file.write(page)
    print(f"Saved: {target}")
    return SUCCESS


def _is_same(path: Path, other: Path) -> bool:
    """Whether two paths mean one file, be it there or not."""
    if path.exists() and other.exists():
        return path.samefile(other)
    return os.path.realpath(path) == os.path.realpath(other)
