"""Requests that did not complete, and why."""

from __future__ import annotations

from actors.pages.report.columns import COMPLETED, Columns
from actors.pages.scales import number
from actors.pages.sections import Section, note
from actors.pages.svg import shortened
from actors.pages.tables import Table, data_table
from actors.reporting.results import Results

_MOST_ROWS, _MOST_IDS = 50, 3
_LONGEST_ID, _LONGEST_REASON = 40, 300


def endings_section(results: Results, columns: Columns | None) -> Section | None:
    """Return how many requests ended otherwise, by status and reason, with some of their ids; None if all completed."""
    total, completed = results.figure("num_requests") or 0, results.figure("completed_requests") or 0
    if columns is None:
        rows = [
            [shortfall.status, number(shortfall.count), "; ".join(shortfall.reasons)[:_LONGEST_REASON]]
            for shortfall in results.shortfalls
        ]
        if not rows and total == completed:
            return None
        table = Table("Requests that did not complete", ["Status", "Requests", "Reasons"], rows, (0, 2))
        return Section("endings", "Not completed", [data_table(table)])
    groups: dict[tuple[str, str], list[str]] = {}
    for record in columns.records:
        if record.terminal_status != COMPLETED:
            groups.setdefault((record.terminal_status, record.terminal_reason or ""), []).append(record.request_id)
    rows = [
        [
            status,
            number(len(ids)),
            shortened(reason, _LONGEST_REASON) or "none given",
            ", ".join(shortened(one, _LONGEST_ID) for one in ids[:_MOST_IDS]) + (", …" if len(ids) > _MOST_IDS else ""),
        ]
        for (status, reason), ids in groups.items()
    ]
    unfinished = [shortfall.count for shortfall in results.shortfalls if shortfall.status == "unfinished"]
    rows += [["unfinished", number(count), "the run ended before them", ""] for count in unfinished]
    if not rows:
        return None
    head = ["Status", "Requests", "Reason", "Such as"]
    blocks = [data_table(Table("Requests that did not complete", head, rows[:_MOST_ROWS], (0, 2, 3)))]
    if len(rows) > _MOST_ROWS:
        blocks.append(note(f"The first {_MOST_ROWS} of {len(rows)} reasons."))
    return Section("endings", "Not completed", blocks)
