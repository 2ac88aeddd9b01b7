"""Tables of a page: with a caption and headers, in a region of their own that scrolls sideways and takes the focus."""

from __future__ import annotations

from collections.abc import Sequence

from markupsafe import Markup, escape
from msgspec import Struct


class Table(Struct, frozen=True):
    """Cells are texts, as they shall be shown, or markup. The first cell of a row is its header.

    text_columns: indices of columns that hold text and are set to the left; the others hold numbers.
    """

    caption: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    text_columns: Sequence[int] = (0,)
    hide_caption: bool = False


def data_table(table: Table) -> Markup:
    """Return the table as HTML."""
    head = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(_alignment(table, index), column)
        for index, column in enumerate(table.columns)
    )
    body = Markup("\n").join(_row(table, row) for row in table.rows)
    hidden = Markup(' class="hidden"') if table.hide_caption else Markup("")
    return Markup(
        '<div class="scroll" role="region" tabindex="0" aria-label="{label}">'
        "<table><caption{hidden}>{caption}</caption>\n"
        "<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table></div>"
    ).format(label=f"Table: {table.caption}", hidden=hidden, caption=table.caption, head=head, body=body)


def _row(table: Table, row: Sequence[str]) -> Markup:
    first, *others = row
    cells = [Markup('<th scope="row"{}>{}</th>').format(_alignment(table, 0), first)]
    cells += [
        Markup("<td{}>{}</td>").format(_alignment(table, index), escape(cell))
        for index, cell in enumerate(others, start=1)
    ]
    return Markup("<tr>{}</tr>").format(Markup("").join(cells))


def _alignment(table: Table, index: int) -> Markup:
    return Markup(' class="text"') if index in table.text_columns else Markup("")
