"""aisim-actors: replay a trace of requests through a simulated LLM-serving cluster, built of message-passing actors."""

from __future__ import annotations

TYPE_CHECKING = False  # as in typing, whose import would only delay the command
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path
    from typing import Any

    from actors.planner.bootstrap import BootstrapSession
    from actors.routing.placement import PlacementPolicy
    from actors.runtime import Runtime
    from actors.scaler import ScalingPolicy
    from actors.system import Progress
    from messages.envelope import Envelope
    from messages.report import ReplayReport
    from messages.spec import ReplaySpec

__all__ = ["replay"]


def replay(
    spec: str | Path | Mapping[str, Any] | ReplaySpec,
    *,
    runtime: Runtime = "cooperative",
    step: bool = False,
    placement: PlacementPolicy | None = None,
    scaling_policy: ScalingPolicy | None = None,
    planner_bootstrap: BootstrapSession | None = None,
    observe: Callable[[Envelope], None] | None = None,
    timeline: str | Path | None = None,
    timeline_from_ms: float | None = None,
    timeline_to_ms: float | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> ReplayReport:
    """Replay a spec and return its report.

    spec: the path of a spec.json, its content as a mapping, or a ReplaySpec. Relative paths inside start from the
        folder of the file, or else from the working directory. Values of a mapping may be those of numpy.
    runtime: one thread for all actors ("cooperative") or one each ("threads"); results are the same.
    step: run every pass by itself instead of merging runs of identical decode passes; results are the same.
    placement: a policy of the caller's own instead of the one that the spec names; for aggregated clusters.
    scaling_policy: an object of the caller's own that decides how many workers there are, instead of what the spec
        names, see `actors.scaler`. What it raises reaches the caller unchanged.
    planner_bootstrap: tells the planner of the spec, with target sla, how long passes take: an object with
        `prefill(batch, isl, prefix)` and `decode(batch, ctx, osl)`, both in ms.
    observe: called with every delivered message, in order.
    timeline: file to write a timeline to, `.json` or `.json.gz`; of all that happens, or from `timeline_from_ms` to
        `timeline_to_ms` in simulated ms.
    progress: called now and then with how far the run has come.

    Raises:
        messages.errors.InputError: the spec, or a file that it names, cannot be used; one finding per line.
        messages.errors.ReplayError: the run failed.
        ValueError: there is no such runtime.
    """
    # Imported here, so that the command can print its help without loading numpy.
    import contextlib
    from pathlib import Path
    from typing import get_args

    from actors.runtime import Runtime
    from actors.spec.loading import load_spec
    from actors.system import run
    from actors.timeline.files import check_timeline, timeline_file

    if runtime not in get_args(Runtime):
        raise ValueError(f"runtime: expected {' or '.join(map(repr, get_args(Runtime)))}, got {runtime!r}")
    path = Path(timeline) if timeline is not None else None
    check_timeline(path, timeline_from_ms, timeline_to_ms)
    document, base_dir = load_spec(spec)
    with contextlib.ExitStack() as stack:
        drawn = None
        if path is not None:
            drawn = stack.enter_context(timeline_file(path, document, from_ms=timeline_from_ms, to_ms=timeline_to_ms))
        return run(
            document,
            base_dir,
            runtime=runtime,
            step=step,
            placement=placement,
            scaling_policy=scaling_policy,
            planner_bootstrap=planner_bootstrap,
            observe=observe,
            timeline=drawn,
            progress=progress,
        )
