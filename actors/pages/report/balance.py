"""How the requests were spread over the workers of each pool."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from actors.pages.charts import Axis, Bars, Mark, Part, columns
from actors.pages.report.columns import Columns
from actors.pages.scales import number, percent, significant
from actors.pages.sections import Section, folded, heading, note, paragraph, side_by_side
from actors.pages.tables import Table, data_table
from actors.reporting.results import Results
from messages.spec import AggregatedTopology, ReplaySpec

MOST_COLUMNS = 256  # of a chart
MOST_ROWS = 500  # of a table
POOLS = {"agg": "Workers", "prefill": "Prefill workers", "decode": "Decode workers"}

Rank = tuple[int, int]
"""Worker and attention-DP rank."""


@dataclass(slots=True)
class Load:
    """What was placed on one rank: requests, and their tokens."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


def loads(columns: Columns, spec: ReplaySpec | None) -> dict[str, dict[Rank, Load]]:
    """Return by pool what each rank was given, ranks ascending; those that the run began with even if nothing."""
    pools: dict[str, dict[Rank, Load]] = {}
    for pool, ranks in initial_ranks(spec).items():
        pools[pool] = {rank: Load() for rank in ranks}
    for record in columns.records:
        for placed in record.routing_history:
            ranks_of_pool = pools.setdefault(placed.pool, {})
            rank = (placed.logical_worker_id, placed.dp_rank)
            load = ranks_of_pool.get(rank)
            if load is None:
                load = ranks_of_pool[rank] = Load()
            load.requests += 1
            load.input_tokens += record.input_length
            load.output_tokens += record.output_length
    return {pool: dict(sorted(ranks.items())) for pool, ranks in pools.items()}


def initial_ranks(spec: ReplaySpec | None) -> dict[str, list[Rank]]:
    """Return by pool the ranks that the run began with."""
    if spec is None:
        return {}
    topology, engine = spec.topology, spec.engine
    if isinstance(topology, AggregatedTopology):
        sizes = {"agg": (topology.workers.initial_workers, engine.dp_size)}
    else:
        sizes = {
            "prefill": (topology.prefill.initial_workers, engine.role(engine.prefill).dp_size),
            "decode": (topology.decode.initial_workers, engine.role(engine.decode).dp_size),
        }
    return {
        pool: [(worker, rank) for worker in range(workers) for rank in range(ranks)]
        for pool, (workers, ranks) in sizes.items()
    }


def balance_section(results: Results, columns: Columns | None, spec: ReplaySpec | None) -> Section:
    """Return charts and a table per pool: requests and tokens of each worker, or of each rank where it has several."""
    if columns is None:
        return Section("workers", "Balance of workers", [note("This needs the records of requests.")])
    blocks: list[Markup] = []
    pools = loads(columns, spec)
    for pool, ranks in pools.items():
        if len(pools) > 1:
            blocks.append(heading(POOLS.get(pool, pool)))
        blocks += _pool(pool, ranks)
    if not any(pools.values()):
        blocks.append(paragraph("No request was placed on a worker."))
    return Section("workers", "Balance of workers", blocks)


def _pool(pool: str, ranks: Mapping[Rank, Load]) -> list[Markup]:
    if not ranks:
        return []
    several = any(rank for _, rank in ranks)
    what = f"{POOLS.get(pool, pool).removesuffix('s')}{' and rank' if several else ''}"
    names = [f"{worker}.{rank}" if several else f"{worker}" for worker, rank in ranks]
    figures = {
        "Requests": [load.requests for load in ranks.values()],
        "Input tokens": [load.input_tokens for load in ranks.values()],
    }
    if pool != "prefill":
        figures["Output tokens"] = [load.output_tokens for load in ranks.values()]
    totals = {name: sum(values) for name, values in figures.items()}
    rows = [
        [name, *(cell for kind, values in figures.items() for cell in _with_share(values[index], totals[kind]))]
        for index, name in enumerate(names[:MOST_ROWS])
    ]
    table = Table(
        f"{POOLS.get(pool, pool)}: what each was given",
        [what, *(column for name in figures for column in (name, "share"))],
        rows,
    )
    blocks = []
    if len(names) > 1:
        charts = [
            _chart(f"{pool}-{name.lower().replace(' ', '-')}", name, what, names, values)
            for name, values in figures.items()
        ]
        blocks.append(side_by_side(charts))
        spread = [f"{name.lower()} {_imbalance(values)}" for name, values in figures.items() if sum(values)]
        if spread:
            blocks.append(note(f"The busiest has, of the mean of all: {'; '.join(spread)}."))
    if len(names) > MOST_COLUMNS:
        blocks.append(note(f"The charts show the first {MOST_COLUMNS} of {len(names)}, the table {len(rows)}."))
    shown = data_table(table)
    blocks.append(shown if len(names) <= 16 else folded(f"Table of {len(rows)}", shown))
    return blocks


def _chart(key: str, name: str, what: str, names: Sequence[str], values: Sequence[int]) -> Markup:
    mean = sum(values) / len(values)
    return columns(
        Bars(
            key=f"balance-{key}",
            title=f"{name} per {what[0].lower()}{what[1:]}",
            category=what,
            categories=names[:MOST_COLUMNS],
            value=Axis(name),
            parts=[Part(name, values[:MOST_COLUMNS])],
            marks=[Mark(mean, f"mean {significant(mean)}", "y")],
        )
    )


def _with_share(value: int, total: int) -> tuple[str, str]:
    return number(value), percent(value / total if total else None)


def _imbalance(values: Sequence[int]) -> str:
    return f"{max(values) * len(values) / sum(values):.2f} times"
