"""From a template to a self-contained page."""

from __future__ import annotations

from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from actors.pages import scales
from actors.pages.svg import STYLES
from actors.pages.tables import Table, data_table

STYLE_SHEET = "style.css"


def render(title: str, template: str, **context: Any) -> str:
    """Return the HTML page that a template of `actors/pages/templates` makes of the context.

    A template extends `layout.html` and fills the block `content`; the block `lead` is what stands beneath the title.
    Texts are escaped, unless they are Markup. Templates have `table(Table)` and the filters `number`, `significant`,
    `percent` and `duration` (of ms). The page needs nothing but itself.
    """
    environment = _environment()
    return environment.get_template(template).render(title=title, **context)


@cache
def _environment() -> Environment:
    loader = PackageLoader("actors.pages")
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    # The style sheet is part of the program, not of its input.
    style = Markup(loader.get_source(environment, STYLE_SHEET)[0])
    environment.globals.update(style=style, styles=STYLES, table=_table)
    environment.filters.update(
        number=scales.number,
        significant=scales.significant,
        percent=scales.percent,
        duration=scales.duration_text,
    )
    return environment


def _table(table: Table) -> Markup:
    return data_table(table)
