"""What a scaling policy decided and what became of it, for the report."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from messages.planner_report import PlannerDetails
from messages.report import (
    LifecycleEntry,
    ReplayReport,
    ScalingDecision,
    ScalingReport,
    WorkerCount,
    WorkerTransition,
)
from messages.scaling import DecisionMade, LifecycleOperation, Transition


def scaling_report(decisions: Sequence[DecisionMade], operations: Sequence[LifecycleOperation]) -> ScalingReport:
    """Derive the report; the ordinals in the operations are those of the run."""
    return ScalingReport(
        total_ticks=len(decisions),
        decisions=[
            ScalingDecision(
                decision.tick_ordinal,
                decision.at_ms,
                decision.target_prefill,
                decision.target_decode,
                decision.next_tick_ms,
            )
            for decision in decisions
            if decision.target_prefill is not None or decision.target_decode is not None
        ],
        lifecycle_operations=[_entry(ordinal, operation) for ordinal, operation in enumerate(operations)],
        worker_counts=[_count(operation) for operation in operations],
    )


def with_planner(report: ReplayReport, details: PlannerDetails) -> ReplayReport:
    """The report together with what the planner tells of itself."""
    assert report.planner is not None
    decisions = [
        msgspec.structs.replace(
            decision,
            load_decision_reason=diagnostics.load_decision_reason,
            throughput_decision_reason=diagnostics.throughput_decision_reason,
        )
        for decision in report.planner.decisions
        for diagnostics in (details.ticks[decision.tick_ordinal].effects.diagnostics,)
    ]
    planner = msgspec.structs.replace(
        report.planner, decisions=decisions, scaling_events=details.scaling_events, metadata=details.metadata
    )
    return msgspec.structs.replace(report, planner=planner, planner_ticks=details.ticks)


def _entry(ordinal: int, operation: LifecycleOperation) -> LifecycleEntry:
    state = operation.state_after_batch
    return LifecycleEntry(
        operation_ordinal=ordinal,
        at_ms=operation.at_ms,
        pool=operation.pool,
        cause=operation.cause,
        planner_tick_ordinal=operation.planner_tick_ordinal,
        origin_operation_ordinal=operation.origin_operation_ordinal,
        transitions=[_transition(transition) for transition in operation.transitions],
        state_after_batch={
            "active": list(state.active),
            "starting": list(state.starting),
            "draining": list(state.draining),
        },
    )


def _transition(transition: Transition) -> WorkerTransition:
    return WorkerTransition(
        transition.worker_id,
        transition.transition,
        transition.prior_state,
        transition.state,
        transition.origin_operation_ordinal,
        transition.reason,
    )


def _count(operation: LifecycleOperation) -> WorkerCount:
    state = operation.state_after_batch
    return WorkerCount(operation.at_ms, operation.pool, len(state.active), len(state.starting), len(state.draining))
