"""From a spec to the scaling policy that it names."""

from __future__ import annotations

from pathlib import Path

from actors.planner.bootstrap import BootstrapSession
from actors.planner.configuration import at_path
from actors.planner.fleet import capabilities
from actors.planner.policy import Planner
from actors.planner.schedule import SchedulePolicy
from messages.errors import InputError
from messages.planner import PlannerConfig, PlannerScaling, ScheduleScaling
from messages.spec import AggregatedTopology, ReplaySpec


def build_scaling_policy(
    spec: ReplaySpec, base_dir: Path, session: BootstrapSession | None = None
) -> Planner | SchedulePolicy | None:
    """A new scaling policy for one run of a checked spec; None where the pools keep their sizes.

    session: what bootstraps the performance model of a planner with target sla, which else learns from the run alone.
    Relative paths start from `base_dir`.

    Raises InputError, with the path of the field, where a warm-up trace cannot be used or a library is missing.
    """
    scaling = spec.adapters.scaling
    if isinstance(scaling, ScheduleScaling):
        return SchedulePolicy(scaling.config)
    if not isinstance(scaling, PlannerScaling):
        return None
    try:
        return _build_planner(scaling.config, spec, base_dir, session)
    except InputError as error:
        raise InputError(*map(at_path, error.findings)) from None


def _build_planner(
    config: PlannerConfig, spec: ReplaySpec, base_dir: Path, session: BootstrapSession | None
) -> Planner:
    engine = spec.engine
    if isinstance(spec.topology, AggregatedTopology):
        return Planner(config, decode=capabilities(engine.role()), session=session, base_dir=base_dir)
    return Planner(
        config,
        decode=capabilities(engine.role(engine.decode)),
        prefill=capabilities(engine.role(engine.prefill)),
        session=session,
        base_dir=base_dir,
    )
