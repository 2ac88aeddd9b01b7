"""How many requests kept the bounds of the SLA."""

from __future__ import annotations

import numpy as np

from actors.pages.report.columns import Columns
from actors.pages.scales import number, percent, significant
from actors.pages.sections import Section, note, paragraph
from actors.pages.tables import Table, data_table
from actors.reporting.results import Results
from messages.spec import Sla


def attainment_section(results: Results, columns: Columns | None, sla: Sla) -> Section | None:
    """Return the shares of requests that kept each bound and all of them; None without any bound."""
    if sla == Sla():
        return None
    total, good = results.figure("num_requests") or 0, results.figure("goodput_completed_requests")
    blocks = []
    if good is not None:
        completed = results.figure("completed_requests") or 0
        blocks.append(
            paragraph(
                f"Good requests, which completed and kept every bound: {number(good)} of {number(total)} "
                f"({percent(good / total if total else None)}); of the {number(completed)} completed ones "
                f"{percent(good / completed if completed else None)}. Goodput: "
                f"{significant(results.figure('goodput_request_throughput_rps'))} requests and "
                f"{significant(results.figure('goodput_output_throughput_tok_s'))} output tokens per second."
            )
        )
    if columns is None:
        blocks.append(note("The share of requests within each single bound needs the records of requests."))
        return Section("sla", "Service level", blocks)
    rows = []
    for name, bound, kept in bounds_kept(columns, sla):
        applicable, within = len(kept), int(np.count_nonzero(kept))
        rows.append(
            [
                name,
                f"{significant(bound)} ms",
                number(within),
                number(applicable),
                percent(within / applicable if applicable else None),
            ]
        )
    columns_of_table = ["Bound", "At most", "Requests within", "Requests judged", "Share"]
    blocks.append(data_table(Table("Completed requests within each bound", columns_of_table, rows)))
    blocks.append(
        note("A request is judged by its own TTFT, mean gap between tokens and end-to-end latency, if it has them.")
    )
    return Section("sla", "Service level", blocks)


def bounds_kept(columns: Columns, sla: Sla) -> list[tuple[str, float, np.ndarray[tuple[int], np.dtype[np.bool_]]]]:
    """Return by bound its name, its ms, and for every request with such a latency whether it is within."""
    kept = []
    for name, bound, latency in (
        ("TTFT", sla.ttft_ms, columns.ttft_ms),
        ("ITL, mean of the request", sla.itl_ms, columns.gap_ms),
        ("E2E", sla.e2e_ms, columns.e2e_ms),
    ):
        if bound is not None:
            kept.append((name, bound, columns.sample(latency) <= bound))
    return kept
