"""Scaling by the present load: opinions per pool, brought together and into the budget."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from actors.planner import decisions
from actors.planner.budget import RECONCILE, clamp_pair, fit_pair, guard_pair, guard_single
from actors.planner.decisions import SubDecision, joint_reason, reason_of
from actors.planner.fleet import Fleet, LowerBounds, Observed, Proposal, Role
from actors.planner.latencies import Outlook, Situation, combine, prompt_outlook, token_outlook
from actors.planner.metrics import covers
from actors.planner.role_model import RoleModel
from actors.planner.thresholds import decide, pressures, thresholds
from messages.planner import PlannerConfig
from messages.planner_report import Diagnostics, PassMetrics, WorkerCounts

Passes = Mapping[Role, Sequence[PassMetrics]]


class LoadScaling:
    """One step per load tick and pool, up or down by one worker, while no pool is on its way to another size."""

    def __init__(
        self,
        config: PlannerConfig,
        fleet: Fleet,
        models: Mapping[Role, RoleModel],
        lower_bounds: LowerBounds,
        observed: Observed,
    ) -> None:
        self._config = config
        self._fleet = fleet
        self._models = models
        self._lower_bounds = lower_bounds
        self._observed = observed
        self._uses_bounds = config.enable_throughput_scaling

    def propose(self, counts: WorkerCounts, passes: Passes, diagnostics: Diagnostics) -> Proposal | None:
        """Pool sizes to ask for, None to leave them; tells why in the diagnostics."""
        if not self._config.enable_load_scaling:
            diagnostics.load_decision_reason = decisions.DISABLED
            return None
        if self._fleet.prefill is None:
            return self._propose_single(counts, passes["decode"], diagnostics)
        return self._propose_pair(counts, passes, diagnostics)

    def _propose_single(
        self, counts: WorkerCounts, passes: Sequence[PassMetrics], diagnostics: Diagnostics
    ) -> Proposal | None:
        ready, floor = counts.ready_num_decode, self._fleet.decode_floor
        obstacle = None
        if not passes:
            obstacle = decisions.NO_FPM_DATA
        elif counts.are_busy:
            obstacle = decisions.SCALING_IN_PROGRESS
        elif not covers(passes, ready):
            obstacle = decisions.WORKER_COUNT_MISMATCH
        if obstacle:
            diagnostics.load_decision_reason = obstacle
            return None
        sub = self._single_opinion(passes, ready, diagnostics)
        if sub.desired is None:
            diagnostics.load_decision_reason = sub.reason
            return None
        lifted = max(sub.desired, floor, self._lower_bounds.decode if self._uses_bounds else 0)
        final, budget = guard_single(ready, lifted, self._fleet.decode.gpus, self._fleet.bounds, floor)
        diagnostics.load_decision_reason = budget or reason_of(final, ready, sub, lifted)
        return None if final == ready else Proposal(None, final)

    def _single_opinion(self, passes: Sequence[PassMetrics], ready: int, diagnostics: Diagnostics) -> SubDecision:
        if self._config.optimization_target != "sla":
            return self._threshold_opinion("decode", passes, ready)
        situation = self._situation("decode", passes, ready)
        if not situation.model.is_ready:
            return SubDecision(None, decisions.INSUFFICIENT_DATA)
        prompts, tokens = prompt_outlook(situation, aggregated=True), token_outlook(situation, aggregated=True)
        diagnostics.estimated_ttft_ms, diagnostics.estimated_itl_ms = prompts.worst_ms, tokens.worst_ms
        return combine(prompts, tokens, ready)

    def _propose_pair(self, counts: WorkerCounts, passes: Passes, diagnostics: Diagnostics) -> Proposal | None:
        ready = self._fleet.ready(counts)
        if self._has_obstacle(counts, passes, diagnostics):
            return None
        subs = (
            self._pair_opinion("prefill", passes["prefill"], ready[0], diagnostics),
            self._pair_opinion("decode", passes["decode"], ready[1], diagnostics),
        )
        wanted = (_or_stay(subs[0], ready[0]), _or_stay(subs[1], ready[1]))
        final, lifted, budget = self._within_limits(ready, wanted)
        reasons = [reason_of(*each) for each in zip(final, ready, subs, lifted, strict=True)]
        diagnostics.load_decision_reason_prefill, diagnostics.load_decision_reason_decode = reasons
        diagnostics.load_decision_reason = budget or joint_reason(*reasons)
        return None if final == ready else Proposal(*final)

    def _has_obstacle(self, counts: WorkerCounts, passes: Passes, diagnostics: Diagnostics) -> bool:
        """Whether nothing can be decided now, which the diagnostics tell."""
        prefill, decode = passes["prefill"], passes["decode"]
        reasons: tuple[str | None, str | None] = (None, None)
        if not prefill and not decode:
            reasons = (decisions.NO_FPM_DATA, decisions.NO_FPM_DATA)
        elif counts.are_busy:
            reasons = (decisions.SCALING_IN_PROGRESS, decisions.SCALING_IN_PROGRESS)
        else:
            ready = self._fleet.ready(counts)
            reasons = (_mismatch(prefill, ready[0]), _mismatch(decode, ready[1]))
        if reasons == (None, None):
            return False
        diagnostics.load_decision_reason_prefill, diagnostics.load_decision_reason_decode = reasons
        diagnostics.load_decision_reason = reasons[0] or reasons[1]
        return True

    def _pair_opinion(
        self, role: Role, passes: Sequence[PassMetrics], ready: int, diagnostics: Diagnostics
    ) -> SubDecision:
        if self._config.optimization_target != "sla":
            return self._threshold_opinion(role, passes, ready)
        situation = self._situation(role, passes, ready)
        if not situation.model.is_ready:
            return SubDecision(None, decisions.INSUFFICIENT_DATA)
        outlook: Outlook
        if role == "prefill":
            outlook = prompt_outlook(situation)
            diagnostics.estimated_ttft_ms = outlook.worst_ms
        else:
            outlook = token_outlook(situation)
            diagnostics.estimated_itl_ms = outlook.worst_ms
        return outlook.sub

    def _within_limits(
        self, ready: tuple[int, int], wanted: tuple[int, int]
    ) -> tuple[tuple[int, int], tuple[int, int], str | None]:
        """Raise wanted sizes to lower bounds and floors and bring them into the budget.

        Returns the result, the sizes before the budget, and the reason of the budget if it had a say.
        """
        costs, bounds = self._fleet.costs, self._fleet.bounds
        bounded = wanted
        if self._uses_bounds:
            bounded = max(wanted[0], self._lower_bounds.prefill), max(wanted[1], self._lower_bounds.decode)
        lifted = proposed = costs.lift(bounded)
        is_sla = self._config.optimization_target == "sla"
        is_below = is_sla and self._fleet.is_below_floor(*ready)
        if bounded != wanted:
            ceiling = bounds.ceiling_only
            proposed = clamp_pair(lifted, costs, ceiling) if is_below else fit_pair(ready, lifted, costs, ceiling)
        if is_below:
            return clamp_pair(proposed, costs, bounds), lifted, RECONCILE
        final, budget = guard_pair(ready, proposed, costs, bounds)
        return final, lifted, budget

    def _threshold_opinion(self, role: Role, passes: Sequence[PassMetrics], ready: int) -> SubDecision:
        fleet = self._fleet
        engine = fleet.prefill if role == "prefill" and fleet.prefill else fleet.decode
        floor = fleet.prefill_floor if role == "prefill" else fleet.decode_floor
        values = pressures(self._config, role, engine, passes, aggregated=fleet.prefill is None)
        return decide(values, thresholds(self._config, role), ready, floor)

    def _situation(self, role: Role, passes: Sequence[PassMetrics], ready: int) -> Situation:
        fleet = self._fleet
        return Situation(
            config=self._config,
            model=self._models[role],
            passes=passes,
            ready=ready,
            floor=fleet.prefill_floor if role == "prefill" else fleet.decode_floor,
            hit_rate=self._observed.hit_rate,
            accept_length=self._observed.accept_length(fleet.decode),
            max_kv_tokens=fleet.decode.max_kv_tokens,
        )


def _or_stay(sub: SubDecision, ready: int) -> int:
    return ready if sub.desired is None else sub.desired


def _mismatch(passes: Sequence[PassMetrics], ready: int) -> str | None:
    return decisions.WORKER_COUNT_MISMATCH if passes and not covers(passes, ready) else None
