"""From a spec to its planner."""

from __future__ import annotations

from pathlib import Path

from actors.planner.bootstrap import BootstrapSession
from actors.planner.fleet import capabilities
from actors.planner.policy import Planner
from messages.planner import Mode, PlannerConfig
from messages.spec import AggregatedTopology, ReplaySpec


def topology_mode(spec: ReplaySpec) -> Mode:
    """The mode that a planner of this cluster has."""
    return "agg" if isinstance(spec.topology, AggregatedTopology) else "disagg"


def build_planner(
    config: PlannerConfig, spec: ReplaySpec, base_dir: Path, session: BootstrapSession | None = None
) -> Planner:
    """A planner for one run of a spec; relative paths of its configuration start from `base_dir`.

    session: what bootstraps the performance model of target sla; without one it learns from the run alone.
    Raises InputError as `Planner` does.
    """
    engine = spec.engine
    if topology_mode(spec) == "agg":
        return Planner(config, decode=capabilities(engine.role()), session=session, base_dir=base_dir)
    return Planner(
        config,
        decode=capabilities(engine.role(engine.decode)),
        prefill=capabilities(engine.role(engine.prefill)),
        session=session,
        base_dir=base_dir,
    )
