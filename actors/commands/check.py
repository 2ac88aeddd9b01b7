"""`validate` and `schema`: what a spec may hold, and whether one does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from actors.cli import SUCCESS, say
from actors.commands.options import Overrides


def validate_spec(
    spec: Annotated[Path, typer.Argument(metavar="SPEC", help="JSON file that describes the replay.")],
    overrides: Overrides = None,
) -> int:
    """Check SPEC and the files it names."""
    from actors.validation import validate

    for warning in validate(spec, overrides or ()):
        say("warning", warning)
    print(f"{spec}: valid")
    return SUCCESS


def print_schema() -> int:
    """Print the JSON Schema of SPEC."""
    from actors.spec.loading import document_schema

    print(json.dumps(document_schema(), indent=2))
    return SUCCESS
