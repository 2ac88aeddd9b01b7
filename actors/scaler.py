"""The scaler actor: asks a scaling policy at its ticks, and has the pools apply what it decides."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from typing import Any, Protocol

import msgspec

from actors.names import COLLECTOR, PREFILL, SCALER, PoolNames
from actors.runtime import SimActor, handles
from messages.envelope import NOTHING, Envelope, Outgoing, Phase, Reply
from messages.errors import PolicyError
from messages.scaling import (
    DecisionMade,
    PoolReport,
    ReportPool,
    RunUntil,
    ScaleTo,
    ScalingTick,
    StartScaling,
    TakeTraffic,
    Traffic,
)


class ScalingPolicy(Protocol):
    """What decides how many workers there are. Times are simulated ms."""

    def initial_tick_ms(self) -> float:
        """The time of the first tick; none ever if it is not finite."""
        ...

    def on_tick(self, snapshot: dict[str, Any]) -> Mapping[str, Any]:
        """Decide on the state of the cluster.

        Returns `target_prefill`, `target_decode` (workers that are to be active or starting; None leaves the pool
        alone) and `next_tick_ms` (None for no further tick).
        """
        ...


class Scaler(SimActor):
    """`pools`: prefill and decode, or the only one, which is reported as decode."""

    def __init__(self, policy: ScalingPolicy, pools: tuple[PoolNames, ...]) -> None:
        super().__init__()
        self._policy = policy
        self._pools = pools
        self._reports: dict[str, PoolReport] = {}
        self._ticks = 0

    @handles(StartScaling)
    def begin(self, message: StartScaling, envelope: Envelope) -> Reply:
        try:
            first_ms = self._policy.initial_tick_ms()
            ever = math.isfinite(first_ms)
        except Exception as error:
            raise PolicyError(error) from error
        if not ever:
            return Reply(outbox=self._limit(None))
        return Reply(outbox=self._arm(max(float(first_ms), envelope.at_ms)))

    @handles(ScalingTick)
    def tick(self, message: ScalingTick, envelope: Envelope) -> Reply:
        self._reports.clear()
        return Reply(outbox=[Outgoing(names.pool, ReportPool()) for names in self._pools])

    @handles(PoolReport)
    def collect(self, message: PoolReport, envelope: Envelope) -> Reply:
        self._reports[message.pool] = message
        if len(self._reports) < len(self._pools):
            return NOTHING
        return Reply(outbox=(Outgoing(COLLECTOR, TakeTraffic()),))

    @handles(Traffic)
    def decide(self, message: Traffic, envelope: Envelope) -> Reply:
        try:
            answer = self._policy.on_tick(self._snapshot(message, envelope.at_ms))
            targets = [_target(answer[key]) for key in ("target_prefill", "target_decode")]
            next_ms = _next_tick(answer["next_tick_ms"])
        except Exception as error:
            raise PolicyError(error) from error
        decision = DecisionMade(self._ticks, envelope.at_ms, targets[0], targets[1], next_ms)
        outbox = [Outgoing(COLLECTOR, decision)]
        if len(self._pools) > 1 and (targets[0] is None) != (targets[1] is None):
            # Whoever names one pool keeps the other as large as it is, drains aside.
            targets = [
                len(report.active) + len(report.starting) if target is None else target
                for target, report in zip(targets, (self._reports[names.label] for names in self._pools), strict=True)
            ]
        for names, target in zip(self._pools, targets[-len(self._pools) :], strict=True):
            if target is not None:
                outbox.append(Outgoing(names.pool, ScaleTo(target, self._ticks)))
        self._ticks += 1
        if next_ms is not None and next_ms > envelope.at_ms:
            outbox += self._arm(next_ms)
        else:
            outbox += self._limit(None)
        return Reply(outbox=outbox)

    def _arm(self, at_ms: float) -> list[Outgoing]:
        return [*self._limit(at_ms), Outgoing(SCALER, ScalingTick(), at_ms, Phase.SCALING)]

    def _limit(self, at_ms: float | None) -> list[Outgoing]:
        return [Outgoing(names.pool, RunUntil(at_ms)) for names in self._pools]

    def _snapshot(self, traffic: Traffic, now_ms: float) -> dict[str, Any]:
        snapshot: dict[str, Any] = {"tick_ordinal": self._ticks, "now_ms": now_ms}
        for role, label in (("prefill", PREFILL.label), ("decode", self._pools[-1].label)):
            report = self._reports.get(label) if len(self._pools) > 1 or role == "decode" else None
            report = report or PoolReport(label, (), (), (), ())
            snapshot[f"{role}_fpm_snapshots"] = [_row(row) for row in report.rows]
            for state in ("active", "starting", "draining"):
                ids = getattr(report, state)
                snapshot[f"{state}_{role}_count"] = len(ids)
                snapshot[f"{state}_{role}_ids"] = list(ids)
            non_draining = len(report.active) + len(report.starting)
            snapshot[f"non_draining_{role}_count"] = non_draining
            snapshot[f"total_{role}_count"] = non_draining + len(report.draining)
        snapshot["traffic"] = msgspec.to_builtins(traffic)
        return snapshot


def _row(row: Any) -> dict[str, Any]:
    fields = msgspec.to_builtins(row.metrics)
    return {"worker_id": row.worker_id, "dp_rank": row.dp_rank, "wall_time": fields.pop("wall_time_s"), **fields}


def _target(value: Any) -> int | None:
    """A target of a decision. Raises what the reference raises, in the same words."""
    if value is None:
        return None
    target = operator.index(value)
    if target < 0:
        raise OverflowError("can't convert negative int to unsigned")
    return target


def _next_tick(value: Any) -> float | None:
    """The time of the next tick; None where there is none."""
    return float(value) if value is not None and math.isfinite(value) else None
