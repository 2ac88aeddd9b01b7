"""`examples`: the built-in examples, and how to get at one."""

from __future__ import annotations

import difflib
from pathlib import Path
from typing import Annotated

import typer

from actors.cli import SUCCESS

EXAMPLES_DIR = Path(__file__).parent.parent / "examples"
ABOUT_FILE = "about.txt"
"""One line about an example, beside its spec."""


def example_names() -> list[str]:
    """Return the names of the built-in examples, in order."""
    return sorted(path.parent.name for path in EXAMPLES_DIR.glob("*/spec.json"))


def example_path(name: str) -> Path:
    """Return the spec of an example. Raises InputError where there is none of that name."""
    from messages.errors import InputError

    names = example_names()
    if name in names:
        return EXAMPLES_DIR / name / "spec.json"
    close = difflib.get_close_matches(name, names, n=1)
    hint = f'did you mean "{close[0]}"?' if close else f"available: {', '.join(names)}"
    raise InputError(f'unknown example "{name}"; {hint}')


def show_examples(
    name: Annotated[
        str | None, typer.Argument(metavar="NAME", help="Copy this example instead of listing all.")
    ] = None,
    output_dir: Annotated[Path | None, typer.Option(metavar="DIR", help="Where to, instead of ./NAME.")] = None,
) -> int:
    """List the built-in examples, or copy one to work on."""
    from messages.errors import InputError

    if name is None:
        if output_dir is not None:
            raise InputError("--output-dir is where a copy goes: give NAME too")
        for example in example_names():
            print(f"{example:<14} {(EXAMPLES_DIR / example / ABOUT_FILE).read_text().strip()}")
        return SUCCESS
    source, target = example_path(name).parent, output_dir or Path(name)
    try:
        target.mkdir(parents=True)
        for file in sorted(source.iterdir()):
            if file.name != ABOUT_FILE:
                (target / file.name).write_bytes(file.read_bytes())
                print(f"Saved: {target / file.name}")
    except FileExistsError:
        raise InputError(f"{target}: exists already; choose another place with --output-dir DIR") from None
    except OSError as error:
        raise InputError(f"{target}: cannot be created: {error.strerror or error}") from None
    return SUCCESS
