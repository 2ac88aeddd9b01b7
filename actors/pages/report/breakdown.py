"""The slowest requests, and where their time went."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from markupsafe import Markup

from actors.pages.charts import Axis, Bars, Part, bars
from actors.pages.report.columns import Columns, Floats
from actors.pages.scales import MISSING, number
from actors.pages.sections import Section, note, side_by_side
from actors.pages.svg import shortened
from actors.pages.tables import Table
from messages.report import RequestRecord

MOST_REQUESTS = 10
_LONGEST_ID = 60

_DEFINITION = (
    "Queue: from arrival to the first admission by a scheduler. Prefill: from there to the first token. "
    "Decode: from the first token to the end of the request."
)
_DEFINITION_OF_TWO_POOLS = (
    "Queue: from arrival to the admission by the prefill worker. Prefill: until its KV is held there for the transfer. "
    "Transfer: until the decode worker activates the request, the wait for room there included. "
    "Decode: from there to the end of the request. Where the decode worker reserves room first, as with SGLang, "
    "that wait is in the queue."
)


class Phases(NamedTuple):
    """Where the time of a request went, in ms."""

    queue: float
    prefill: float
    transfer: float
    decode: float


def phases(record: RequestRecord, until_ms: float) -> Phases:
    """Cut the time from the arrival of a request to `until_ms` into phases; what it did not reach is 0."""
    if record.prefill_worker_idx is None:
        cuts = [record.first_admit_ms, record.first_token_ms, record.first_token_ms]
    else:
        cuts = [record.prefill_admit_ms, record.source_held_ms, record.destination_activated_ms]
    times = [record.arrival_time_ms]
    for cut in cuts:
        # A step that was never reached would have come after the end.
        times.append(until_ms if cut is None else min(max(cut, times[-1]), until_ms))
    times.append(until_ms)
    return Phases(*(end - begin for begin, end in itertools.pairwise(times)))


def slowest_section(columns: Columns | None) -> Section:
    """Return the requests with the longest end-to-end latency and with the longest time to the first token."""
    title = "Slowest requests"
    if columns is None:
        return Section("slowest", title, [note("This needs the records of requests.")])
    two_pools = any(record.prefill_worker_idx is not None for record in columns.records)
    blocks = [note(_DEFINITION_OF_TWO_POOLS if two_pools else _DEFINITION)]
    charts = _ranking(
        columns,
        columns.e2e_ms,
        "e2e",
        "By end-to-end latency",
        [record.terminal_time_ms for record in columns.records],
        two_pools,
    )
    charts += _ranking(
        columns,
        columns.ttft_ms,
        "ttft",
        "By time to first token",
        [record.first_token_ms or 0.0 for record in columns.records],
        two_pools,
    )
    return Section("slowest", title, [*blocks, side_by_side(charts)])


def slowest(columns: Columns, latency: Floats, most: int = MOST_REQUESTS) -> list[int]:
    """Return the indices of the counted requests with the largest latencies, largest first, ties by their order."""
    candidates = np.nonzero(columns.counted & ~np.isnan(latency))[0]
    order = np.argsort(-latency[candidates], kind="stable")[:most]
    chosen: list[int] = candidates[order].tolist()
    return chosen


def _ranking(
    columns: Columns, latency: Floats, key: str, title: str, ends_ms: Sequence[float], two_pools: bool
) -> list[Markup]:
    chosen = slowest(columns, latency)
    if not chosen:
        return [note(f"{title}: no completed request has one.")]
    records = [columns.records[index] for index in chosen]
    split = [phases(columns.records[index], ends_ms[index]) for index in chosen]
    names = {"queue": "Queue", "prefill": "Prefill", "transfer": "Transfer", "decode": "Decode"}
    if key == "ttft":
        names["decode"] = "Decode, to the first token"
    if not two_pools:
        del names["transfer"]
        if key == "ttft":
            del names["decode"]
    chart = bars(
        Bars(
            key=f"slowest-{key}",
            title=title,
            category="Request",
            categories=[shortened(record.request_id, _LONGEST_ID) for record in records],
            value=Axis("ms"),
            parts=[Part(label, [getattr(one, name) for one in split]) for name, label in names.items()],
            table=_table(title, records, latency[chosen].tolist(), split, names),
        )
    )
    return [chart]


def _table(
    title: str,
    records: Sequence[RequestRecord],
    latencies: Sequence[float],
    split: Sequence[Phases],
    names: dict[str, str],
) -> Table:
    several_pools = "transfer" in names
    worker = ["Prefill rank", "Decode rank"] if several_pools else ["Rank"]
    head = ["Request", "Arrival (ms)", "Latency (ms)", *(f"{label} (ms)" for label in names.values())]
    rows = []
    for record, latency, one in zip(records, latencies, split, strict=True):
        ranks = [record.prefill_worker_idx, record.decode_worker_idx] if several_pools else [record.decode_worker_idx]
        rows.append(
            [
                shortened(record.request_id, _LONGEST_ID),
                number(record.arrival_time_ms),
                number(latency),
                *(number(getattr(one, name)) for name in names),
                number(record.input_length),
                number(record.reused_input_tokens),
                number(record.output_length),
                number(record.readmission_count),
                *(MISSING if rank is None else str(rank) for rank in ranks),
            ]
        )
    head += ["Input tokens", "from cache", "Output tokens", "Readmissions", *worker]
    return Table(f"Slowest requests {title[0].lower()}{title[1:]}", head, rows)
