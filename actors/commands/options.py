"""Arguments and options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Overrides = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="PATH=VALUE", help="Replace a value of SPEC, e.g. engine.rank.block_size=16."),
]
