"""What the policies did: KV routers and the scaling policy."""

from __future__ import annotations

from markupsafe import Markup

from actors.pages.report.balance import MOST_ROWS, POOLS
from actors.pages.scales import MISSING, duration_text, number, percent
from actors.pages.sections import Section, folded, note, paragraph
from actors.pages.tables import Table, data_table
from messages.report import PoolRouting, ScalingDecision, ScalingReport
from messages.spec import AggregatedTopology, ReplaySpec

MOST_DECISIONS = 100


def routing_section(routing: dict[str, PoolRouting] | None) -> Section | None:
    """Return the figures of the KV routers; None under another placement."""
    if not routing:
        return None
    rows = [
        ["Requests placed", *(number(pool.placements) for pool in routing.values())],
        ["of these after a wait in the router", *(number(pool.queued_placements) for pool in routing.values())],
        ["Mean wait (ms)", *(number(pool.mean_queue_wait_ms) for pool in routing.values())],
        ["99th percentile of the waits (ms)", *(number(pool.p99_queue_wait_ms) for pool in routing.values())],
        ["Longest wait (ms)", *(number(pool.max_queue_wait_ms) for pool in routing.values())],
        ["Prompt tokens taken for cached", *(number(pool.overlap_tokens) for pool in routing.values())],
        ["Share of prompt blocks taken for cached, mean", *(percent(pool.kv_hit_rate) for pool in routing.values())],
        ["Blocks that another rank had beyond", *(number(pool.regret_blocks) for pool in routing.values())],
        ["of one placement at most", *(number(pool.max_regret_blocks) for pool in routing.values())],
        ["Placements with such blocks", *(number(pool.regretted_placements) for pool in routing.values())],
    ]
    blocks = [data_table(Table("What the KV router did", ["", *(POOLS.get(pool, pool) for pool in routing)], rows))]
    for pool, figures in routing.items():
        ranks = [
            [
                f"{rank.worker_id}.{rank.dp_rank}",
                number(rank.requests),
                number(rank.input_tokens),
                number(rank.overlap_tokens),
                percent(rank.overlap_tokens / rank.input_tokens if rank.input_tokens else None),
            ]
            for rank in figures.ranks[:MOST_ROWS]
        ]
        columns = ["Worker and rank", "Requests", "Prompt tokens", "taken for cached", "share"]
        title = f"{POOLS.get(pool, pool)}: what the router sent to each"
        blocks.append(folded(title, data_table(Table(title, columns, ranks))))
        if len(ranks) < len(figures.ranks):
            blocks.append(note(f"The first {len(ranks)} of {len(figures.ranks)}; report.json has all."))
    return Section("router", "KV-aware routing", blocks)


def scaling_section(planner: ScalingReport | None, spec: ReplaySpec | None) -> Section | None:
    """Return the decisions of the scaling policy; None without one."""
    if planner is None:
        return None
    decisions = planner.decisions
    one_pool = spec is not None and isinstance(spec.topology, AggregatedTopology)
    blocks = [
        paragraph(
            f"Ticks: {number(planner.total_ticks)}. Decisions that name a target: {number(len(decisions))}. "
            f"Changes to workers: {number(len(planner.lifecycle_operations))}."
        )
    ]
    if decisions:
        blocks.append(_decisions(decisions[:MOST_DECISIONS], one_pool=one_pool))
    if len(decisions) > MOST_DECISIONS:
        blocks.append(note(f"The first {MOST_DECISIONS} of {len(decisions)} decisions; report.json has all."))
    return Section("planner", "Scaling decisions", blocks)


def _decisions(decisions: list[ScalingDecision], *, one_pool: bool) -> Markup:
    targets = {"Workers": "target_decode"}
    if not one_pool:
        targets = {"Prefill workers": "target_prefill", "Decode workers": "target_decode"}
    rows = [
        [
            str(decision.tick_ordinal),
            duration_text(decision.at_ms),
            *(number(getattr(decision, target)) for target in targets.values()),
            decision.load_decision_reason or MISSING,
            decision.throughput_decision_reason or MISSING,
        ]
        for decision in decisions
    ]
    columns = ["Tick", "At", *targets, "Reason, by load", "Reason, by throughput"]
    reasons = (len(columns) - 2, len(columns) - 1)
    return data_table(Table("Targets that the scaling policy set", columns, rows, reasons))
