"""From a template to a self-contained page."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from actors.pages import scales
from actors.pages.svg import STYLES
from actors.pages.tables import data_table
from messages.errors import InputError

STYLE_SHEET = "style.css"

_GENERATOR = b'<meta name="generator" content="aisim-actors">'
"""By which a page is known, at its beginning."""

_LONGEST_HEAD = 1000  # bytes


def render(title: str, template: str, **context: Any) -> str:
    """Return the HTML page that a template of `actors/pages/templates` makes of the context.

    A template extends `layout.html` and fills the block `content`; the block `lead` is what stands beneath the title.
    Texts are escaped, unless they are Markup. Templates have `table(Table)` and the filters `number`, `significant`,
    `percent` and `duration` (of ms). The page needs nothing but itself.
    """
    environment = _environment()
    return environment.get_template(template).render(title=title, **context)


def check_target(path: Path) -> None:
    """Refuse to write a page over a file that is not one. Raises InputError."""
    if not path.is_file():
        return
    try:
        with path.open("rb") as file:
            begin = file.read(_LONGEST_HEAD)
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None
    if begin and _GENERATOR not in begin:
        raise InputError(f"{path}: exists and is not a page of aisim-actors; choose another file")


@cache
def _environment() -> Environment:
    loader = PackageLoader("actors.pages")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # The style sheet is part of the program, not of its input.
    style = Markup(loader.get_source(environment, STYLE_SHEET)[0])
    environment.globals.update(style=style, styles=STYLES, table=data_table)
    environment.filters.update(
        number=scales.number,
        significant=scales.significant,
        percent=scales.percent,
        duration=scales.duration_text,
    )
    return environment
