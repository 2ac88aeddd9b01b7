"""Whole message lists of small runs on a prefill and a decode pool."""

from __future__ import annotations

import pytest

from messages.errors import ReplayError
from tests.scenario import Line, cluster, messages_of, two_pools

SLOW_DECODE = {"type": "fixed", "prefill_ms": 10.0, "decode_ms": 4.0}

OPENING: list[Line] = [
    (0.0, "worker_ready", "system > prefill-pool: StartPool"),
    (0.0, "worker_ready", "prefill-pool > prefill-router: WorkerReady"),
    (0.0, "worker_ready", "prefill-pool > prefill-router: TopologySettled"),
    (0.0, "worker_ready", "system > decode-pool: StartPool"),
    (0.0, "worker_ready", "decode-pool > decode-router: WorkerReady"),
    (0.0, "worker_ready", "decode-pool > decode-router: TopologySettled"),
    (0.0, "admission", "system > client: ReleaseArrivals"),
]


def test_one_request() -> None:
    """Prefill, reservation, transfer, activation and release, then every token from the decode worker."""
    log, _ = messages_of(two_pools(cluster((0.0, 8, 3))))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > handoff: HandoffRequest a"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest a"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted a"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch a"),
        (0.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (10.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (10.0, "completions", "prefill-0 > collector: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "completions", "prefill-0 > handoff: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "handoff", "handoff > decode-router: PlaceRequest a"),
        (10.0, "handoff", "decode-router > collector: RequestRouted a"),
        (10.0, "handoff", "decode-router > decode-0: ReserveDestination a"),
        (10.0, "handoff", "decode-0 > handoff: DestinationReserved a"),
        (10.0, "handoff", "handoff > handoff: StartTransfer a"),
        (10.0, "handoff", "handoff > decode-0: ActivateDestination a"),
        (10.0, "handoff", "decode-0 > handoff: DestinationActivated a"),
        (10.0, "handoff", "handoff > prefill-0: ReleaseSource a"),
        (10.0, "handoff", "prefill-0 > handoff: SourceReleased a"),
        (10.0, "start", "decode-0 > decode-0: StartPass"),
        (13.0, "completions", "decode-0 > decode-0: PassCompleted x3"),
        (13.0, "completions", "decode-0 > collector: PassOutputs (admitted a, tokens x3 a, completed a)"),
        (13.0, "completions", "decode-0 > handoff: PassOutputs (admitted a, tokens x3 a, completed a)"),
        (13.0, "completions", "handoff > client: RequestEnded completed a"),
        (13.0, "completions", "handoff > collector: MilestonesReached a (held, reserved, activated, released)"),
        (13.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_two_prompts_prefilled_together_beside_an_idle_decode_worker() -> None:
    """Every step of the hand-off is taken for both before the next step of either."""
    log, _ = messages_of(two_pools(cluster((0.0, 8, 2), (0.0, 8, 2)), num_gpu_blocks=5))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > handoff: HandoffRequest a"),
        (0.0, "admission", "client > collector: RequestArrived b"),
        (0.0, "admission", "client > handoff: HandoffRequest b"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest a"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted a"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch a"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest b"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted b"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch b"),
        (0.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (10.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (
            10.0,
            "completions",
            "prefill-0 > collector: PassOutputs (admitted a b, tokens a b, completed a, completed b)",
        ),
        (10.0, "completions", "prefill-0 > handoff: PassOutputs (admitted a b, tokens a b, completed a, completed b)"),
        (10.0, "handoff", "handoff > decode-router: PlaceRequest a"),
        (10.0, "handoff", "decode-router > collector: RequestRouted a"),
        (10.0, "handoff", "decode-router > decode-0: ReserveDestination a"),
        (10.0, "handoff", "decode-0 > handoff: DestinationReserved a"),
        (10.0, "handoff", "handoff > decode-router: PlaceRequest b"),
        (10.0, "handoff", "decode-router > collector: RequestRouted b"),
        (10.0, "handoff", "decode-router > decode-0: ReserveDestination b"),
        (10.0, "handoff", "decode-0 > handoff: DestinationReserved b"),
        (10.0, "handoff", "handoff > handoff: StartTransfer a"),
        (10.0, "handoff", "handoff > handoff: StartTransfer b"),
        (10.0, "handoff", "handoff > decode-0: ActivateDestination a"),
        (10.0, "handoff", "decode-0 > handoff: DestinationActivated a"),
        (10.0, "handoff", "handoff > decode-0: ActivateDestination b"),
        (10.0, "handoff", "decode-0 > handoff: DestinationActivated b"),
        (10.0, "handoff", "handoff > prefill-0: ReleaseSource a"),
        (10.0, "handoff", "prefill-0 > handoff: SourceReleased a"),
        (10.0, "handoff", "handoff > prefill-0: ReleaseSource b"),
        (10.0, "handoff", "prefill-0 > handoff: SourceReleased b"),
        (10.0, "start", "decode-0 > decode-0: StartPass"),
        (11.0, "completions", "decode-0 > decode-0: PassCompleted"),
        (11.0, "completions", "decode-0 > collector: PassOutputs (admitted a b, tokens a b)"),
        (11.0, "start", "decode-0 > decode-0: StartPass"),
        (12.0, "completions", "decode-0 > decode-0: PassCompleted"),
        (12.0, "completions", "decode-0 > collector: PassOutputs (tokens a, preempted 1, completed a)"),
        (12.0, "completions", "decode-0 > handoff: PassOutputs (tokens a, preempted 1, completed a)"),
        (12.0, "completions", "handoff > client: RequestEnded completed a"),
        (12.0, "completions", "handoff > collector: MilestonesReached a (held, reserved, activated, released)"),
        (12.0, "start", "decode-0 > decode-0: StartPass"),
        (13.0, "completions", "decode-0 > decode-0: PassCompleted"),
        (13.0, "completions", "decode-0 > collector: PassOutputs (admitted b, tokens b, completed b)"),
        (13.0, "completions", "decode-0 > handoff: PassOutputs (admitted b, tokens b, completed b)"),
        (13.0, "completions", "handoff > client: RequestEnded completed b"),
        (13.0, "completions", "handoff > collector: MilestonesReached b (held, reserved, activated, released)"),
        (13.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_identical_prompts_prefilled_together_beside_a_busy_decode_worker() -> None:
    """A busy decode worker grants one reservation per end of a pass, so they are reserved at different instants."""
    spec = two_pools(cluster((0.0, 8, 6), (5.0, 8, 1), (5.0, 8, 1)), latency_ms=1.5, timing_model=SLOW_DECODE)
    for request in spec["requests"][1:]:
        request["input_token_ids"] = list(range(8))
    log, _ = messages_of(spec)
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > handoff: HandoffRequest a"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest a"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted a"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch a"),
        (0.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (5.0, "admission", "client > client: ReleaseArrivals"),
        (5.0, "admission", "client > collector: RequestArrived b"),
        (5.0, "admission", "client > handoff: HandoffRequest b"),
        (5.0, "admission", "client > collector: RequestArrived c"),
        (5.0, "admission", "client > handoff: HandoffRequest c"),
        (5.0, "handoff", "handoff > prefill-router: PlaceRequest b"),
        (5.0, "handoff", "prefill-router > collector: RequestRouted b"),
        (5.0, "handoff", "prefill-router > prefill-0: Dispatch b"),
        (5.0, "handoff", "handoff > prefill-router: PlaceRequest c"),
        (5.0, "handoff", "prefill-router > collector: RequestRouted c"),
        (5.0, "handoff", "prefill-router > prefill-0: Dispatch c"),
        (10.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (10.0, "completions", "prefill-0 > collector: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "completions", "prefill-0 > handoff: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "handoff", "handoff > decode-router: PlaceRequest a"),
        (10.0, "handoff", "decode-router > collector: RequestRouted a"),
        (10.0, "handoff", "decode-router > decode-0: ReserveDestination a"),
        (10.0, "handoff", "decode-0 > handoff: DestinationReserved a"),
        (10.0, "handoff", "handoff > handoff: StartTransfer a"),
        (10.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (11.5, "transfers", "handoff > handoff: TransferCompleted a"),
        (11.5, "handoff", "handoff > decode-0: ActivateDestination a"),
        (11.5, "handoff", "decode-0 > handoff: DestinationActivated a"),
        (11.5, "handoff", "handoff > prefill-0: ReleaseSource a"),
        (11.5, "start", "decode-0 > decode-0: StartPass"),
        (20.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (
            20.0,
            "completions",
            "prefill-0 > collector: PassOutputs (admitted b c, tokens b c, completed b, completed c)",
        ),
        (20.0, "completions", "prefill-0 > handoff: PassOutputs (admitted b c, tokens b c, completed b, completed c)"),
        (20.0, "handoff", "prefill-0 > prefill-0: ReleaseSource a"),
        (20.0, "handoff", "prefill-0 > handoff: SourceReleased a"),
        (20.0, "handoff", "handoff > decode-router: PlaceRequest b"),
        (20.0, "handoff", "decode-router > collector: RequestRouted b"),
        (20.0, "handoff", "decode-router > decode-0: ReserveDestination b"),
        (20.0, "handoff", "handoff > decode-router: PlaceRequest c"),
        (20.0, "handoff", "decode-router > collector: RequestRouted c"),
        (20.0, "handoff", "decode-router > decode-0: ReserveDestination c"),
        (23.5, "completions", "decode-0 > decode-0: PassCompleted x3"),
        (23.5, "completions", "decode-0 > collector: PassOutputs (admitted a, tokens x3 a)"),
        (23.5, "completions", "decode-0 > handoff: DestinationReserved b"),
        (23.5, "handoff", "handoff > handoff: StartTransfer b"),
        (23.5, "start", "decode-0 > decode-0: StartPass"),
        (25.0, "transfers", "handoff > handoff: TransferCompleted b"),
        (25.0, "handoff", "handoff > decode-0: ActivateDestination b"),
        (27.5, "completions", "decode-0 > decode-0: PassCompleted"),
        (27.5, "completions", "decode-0 > collector: PassOutputs (tokens a)"),
        (27.5, "completions", "decode-0 > handoff: DestinationReserved c"),
        (27.5, "handoff", "decode-0 > decode-0: ActivateDestination b"),
        (27.5, "handoff", "decode-0 > handoff: DestinationActivated b"),
        (27.5, "handoff", "handoff > handoff: StartTransfer c"),
        (27.5, "handoff", "handoff > prefill-0: ReleaseSource b"),
        (27.5, "handoff", "prefill-0 > handoff: SourceReleased b"),
        (27.5, "start", "decode-0 > decode-0: StartPass"),
        (29.0, "transfers", "handoff > handoff: TransferCompleted c"),
        (29.0, "handoff", "handoff > decode-0: ActivateDestination c"),
        (31.5, "completions", "decode-0 > decode-0: PassCompleted"),
        (31.5, "completions", "decode-0 > collector: PassOutputs (admitted b, tokens a b, completed b)"),
        (31.5, "completions", "decode-0 > handoff: PassOutputs (admitted b, tokens a b, completed b)"),
        (31.5, "completions", "handoff > client: RequestEnded completed b"),
        (31.5, "completions", "handoff > collector: MilestonesReached b (held, reserved, activated, released)"),
        (31.5, "handoff", "decode-0 > decode-0: ActivateDestination c"),
        (31.5, "handoff", "decode-0 > handoff: DestinationActivated c"),
        (31.5, "handoff", "handoff > prefill-0: ReleaseSource c"),
        (31.5, "handoff", "prefill-0 > handoff: SourceReleased c"),
        (31.5, "start", "decode-0 > decode-0: StartPass"),
        (35.5, "completions", "decode-0 > decode-0: PassCompleted"),
        (35.5, "completions", "decode-0 > collector: PassOutputs (admitted c, tokens a c, completed a, completed c)"),
        (35.5, "completions", "decode-0 > handoff: PassOutputs (admitted c, tokens a c, completed a, completed c)"),
        (35.5, "completions", "handoff > client: RequestEnded completed a"),
        (35.5, "completions", "handoff > collector: MilestonesReached a (held, reserved, activated, released)"),
        (35.5, "completions", "handoff > client: RequestEnded completed c"),
        (35.5, "completions", "handoff > collector: MilestonesReached c (held, reserved, activated, released)"),
        (35.5, "completions", "system > collector: ConcludeRun"),
    ]


def test_full_destination() -> None:
    """The second reservation waits in the worker until the first request has left it."""
    log, _ = messages_of(two_pools(cluster((0.0, 8, 3), (0.0, 8, 2)), num_gpu_blocks=3))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > handoff: HandoffRequest a"),
        (0.0, "admission", "client > collector: RequestArrived b"),
        (0.0, "admission", "client > handoff: HandoffRequest b"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest a"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted a"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch a"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest b"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted b"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch b"),
        (0.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (10.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (
            10.0,
            "completions",
            "prefill-0 > collector: PassOutputs (admitted a b, tokens a b, completed a, completed b)",
        ),
        (10.0, "completions", "prefill-0 > handoff: PassOutputs (admitted a b, tokens a b, completed a, completed b)"),
        (10.0, "handoff", "handoff > decode-router: PlaceRequest a"),
        (10.0, "handoff", "decode-router > collector: RequestRouted a"),
        (10.0, "handoff", "decode-router > decode-0: ReserveDestination a"),
        (10.0, "handoff", "decode-0 > handoff: DestinationReserved a"),
        (10.0, "handoff", "handoff > decode-router: PlaceRequest b"),
        (10.0, "handoff", "decode-router > collector: RequestRouted b"),
        (10.0, "handoff", "decode-router > decode-0: ReserveDestination b"),
        (10.0, "handoff", "handoff > handoff: StartTransfer a"),
        (10.0, "handoff", "handoff > decode-0: ActivateDestination a"),
        (10.0, "handoff", "decode-0 > handoff: DestinationActivated a"),
        (10.0, "handoff", "handoff > prefill-0: ReleaseSource a"),
        (10.0, "handoff", "prefill-0 > handoff: SourceReleased a"),
        (10.0, "start", "decode-0 > decode-0: StartPass"),
        (13.0, "completions", "decode-0 > decode-0: PassCompleted x3"),
        (13.0, "completions", "decode-0 > collector: PassOutputs (admitted a, tokens x3 a, completed a)"),
        (13.0, "completions", "decode-0 > handoff: PassOutputs (admitted a, tokens x3 a, completed a)"),
        (13.0, "completions", "decode-0 > handoff: DestinationReserved b"),
        (13.0, "completions", "handoff > client: RequestEnded completed a"),
        (13.0, "completions", "handoff > collector: MilestonesReached a (held, reserved, activated, released)"),
        (13.0, "handoff", "handoff > handoff: StartTransfer b"),
        (13.0, "handoff", "handoff > decode-0: ActivateDestination b"),
        (13.0, "handoff", "decode-0 > handoff: DestinationActivated b"),
        (13.0, "handoff", "handoff > prefill-0: ReleaseSource b"),
        (13.0, "handoff", "prefill-0 > handoff: SourceReleased b"),
        (13.0, "start", "decode-0 > decode-0: StartPass"),
        (14.0, "completions", "decode-0 > decode-0: PassCompleted"),
        (14.0, "completions", "decode-0 > collector: PassOutputs (admitted b, tokens b)"),
        (14.0, "start", "decode-0 > decode-0: StartPass"),
        (15.0, "completions", "decode-0 > decode-0: PassCompleted"),
        (15.0, "completions", "decode-0 > collector: PassOutputs (tokens b, completed b)"),
        (15.0, "completions", "decode-0 > handoff: PassOutputs (tokens b, completed b)"),
        (15.0, "completions", "handoff > client: RequestEnded completed b"),
        (15.0, "completions", "handoff > collector: MilestonesReached b (held, reserved, activated, released)"),
        (15.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_arrival_at_a_prefill_completion() -> None:
    """The completion and its hand-off come first; the arrival joins the pass that starts at that instant."""
    log, _ = messages_of(two_pools(cluster((0.0, 8, 2), (10.0, 8, 1))))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > handoff: HandoffRequest a"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest a"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted a"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch a"),
        (0.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (10.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (10.0, "completions", "prefill-0 > collector: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "completions", "prefill-0 > handoff: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "handoff", "handoff > decode-router: PlaceRequest a"),
        (10.0, "handoff", "decode-router > collector: RequestRouted a"),
        (10.0, "handoff", "decode-router > decode-0: ReserveDestination a"),
        (10.0, "handoff", "decode-0 > handoff: DestinationReserved a"),
        (10.0, "handoff", "handoff > handoff: StartTransfer a"),
        (10.0, "handoff", "handoff > decode-0: ActivateDestination a"),
        (10.0, "handoff", "decode-0 > handoff: DestinationActivated a"),
        (10.0, "handoff", "handoff > prefill-0: ReleaseSource a"),
        (10.0, "handoff", "prefill-0 > handoff: SourceReleased a"),
        (10.0, "admission", "client > client: ReleaseArrivals"),
        (10.0, "admission", "client > collector: RequestArrived b"),
        (10.0, "admission", "client > handoff: HandoffRequest b"),
        (10.0, "start", "decode-0 > decode-0: StartPass"),
        (10.0, "handoff", "handoff > prefill-router: PlaceRequest b"),
        (10.0, "handoff", "prefill-router > collector: RequestRouted b"),
        (10.0, "handoff", "prefill-router > prefill-0: Dispatch b"),
        (10.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (11.0, "completions", "decode-0 > decode-0: PassCompleted"),
        (11.0, "completions", "decode-0 > collector: PassOutputs (admitted a, tokens a)"),
        (11.0, "start", "decode-0 > decode-0: StartPass"),
        (12.0, "completions", "decode-0 > decode-0: PassCompleted"),
        (12.0, "completions", "decode-0 > collector: PassOutputs (tokens a, completed a)"),
        (12.0, "completions", "decode-0 > handoff: PassOutputs (tokens a, completed a)"),
        (12.0, "completions", "handoff > client: RequestEnded completed a"),
        (12.0, "completions", "handoff > collector: MilestonesReached a (held, reserved, activated, released)"),
        (20.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (20.0, "completions", "prefill-0 > collector: PassOutputs (admitted b, tokens b, completed b)"),
        (20.0, "completions", "prefill-0 > handoff: PassOutputs (admitted b, tokens b, completed b)"),
        (20.0, "handoff", "handoff > decode-router: PlaceRequest b"),
        (20.0, "handoff", "decode-router > collector: RequestRouted b"),
        (20.0, "handoff", "decode-router > decode-0: ReserveDestination b"),
        (20.0, "handoff", "decode-0 > handoff: DestinationReserved b"),
        (20.0, "handoff", "handoff > handoff: StartTransfer b"),
        (20.0, "handoff", "handoff > decode-0: ActivateDestination b"),
        (20.0, "handoff", "decode-0 > handoff: DestinationActivated b"),
        (20.0, "handoff", "handoff > prefill-0: ReleaseSource b"),
        (20.0, "handoff", "prefill-0 > handoff: SourceReleased b"),
        (20.0, "start", "decode-0 > decode-0: StartPass"),
        (21.0, "completions", "decode-0 > decode-0: PassCompleted"),
        (21.0, "completions", "decode-0 > collector: PassOutputs (admitted b, tokens b, completed b)"),
        (21.0, "completions", "decode-0 > handoff: PassOutputs (admitted b, tokens b, completed b)"),
        (21.0, "completions", "handoff > client: RequestEnded completed b"),
        (21.0, "completions", "handoff > collector: MilestonesReached b (held, reserved, activated, released)"),
        (21.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_transfer_that_ends_within_a_pass() -> None:
    """Its activation waits for the end of that pass, as the release of a source does on a prefill worker."""
    log, _ = messages_of(two_pools(cluster((0.0, 8, 5), (5.0, 8, 2)), latency_ms=1.5, timing_model=SLOW_DECODE))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > handoff: HandoffRequest a"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest a"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted a"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch a"),
        (0.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (5.0, "admission", "client > client: ReleaseArrivals"),
        (5.0, "admission", "client > collector: RequestArrived b"),
        (5.0, "admission", "client > handoff: HandoffRequest b"),
        (5.0, "handoff", "handoff > prefill-router: PlaceRequest b"),
        (5.0, "handoff", "prefill-router > collector: RequestRouted b"),
        (5.0, "handoff", "prefill-router > prefill-0: Dispatch b"),
        (10.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (10.0, "completions", "prefill-0 > collector: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "completions", "prefill-0 > handoff: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "handoff", "handoff > decode-router: PlaceRequest a"),
        (10.0, "handoff", "decode-router > collector: RequestRouted a"),
        (10.0, "handoff", "decode-router > decode-0: ReserveDestination a"),
        (10.0, "handoff", "decode-0 > handoff: DestinationReserved a"),
        (10.0, "handoff", "handoff > handoff: StartTransfer a"),
        (10.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (11.5, "transfers", "handoff > handoff: TransferCompleted a"),
        (11.5, "handoff", "handoff > decode-0: ActivateDestination a"),
        (11.5, "handoff", "decode-0 > handoff: DestinationActivated a"),
        (11.5, "handoff", "handoff > prefill-0: ReleaseSource a"),
        (11.5, "start", "decode-0 > decode-0: StartPass"),
        (20.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (20.0, "completions", "prefill-0 > collector: PassOutputs (admitted b, tokens b, completed b)"),
        (20.0, "completions", "prefill-0 > handoff: PassOutputs (admitted b, tokens b, completed b)"),
        (20.0, "handoff", "prefill-0 > prefill-0: ReleaseSource a"),
        (20.0, "handoff", "prefill-0 > handoff: SourceReleased a"),
        (20.0, "handoff", "handoff > decode-router: PlaceRequest b"),
        (20.0, "handoff", "decode-router > collector: RequestRouted b"),
        (20.0, "handoff", "decode-router > decode-0: ReserveDestination b"),
        (23.5, "completions", "decode-0 > decode-0: PassCompleted x3"),
        (23.5, "completions", "decode-0 > collector: PassOutputs (admitted a, tokens x3 a)"),
        (23.5, "completions", "decode-0 > handoff: DestinationReserved b"),
        (23.5, "handoff", "handoff > handoff: StartTransfer b"),
        (23.5, "start", "decode-0 > decode-0: StartPass"),
        (25.0, "transfers", "handoff > handoff: TransferCompleted b"),
        (25.0, "handoff", "handoff > decode-0: ActivateDestination b"),
        (27.5, "completions", "decode-0 > decode-0: PassCompleted"),
        (27.5, "completions", "decode-0 > collector: PassOutputs (tokens a)"),
        (27.5, "handoff", "decode-0 > decode-0: ActivateDestination b"),
        (27.5, "handoff", "decode-0 > handoff: DestinationActivated b"),
        (27.5, "handoff", "handoff > prefill-0: ReleaseSource b"),
        (27.5, "handoff", "prefill-0 > handoff: SourceReleased b"),
        (27.5, "start", "decode-0 > decode-0: StartPass"),
        (31.5, "completions", "decode-0 > decode-0: PassCompleted"),
        (31.5, "completions", "decode-0 > collector: PassOutputs (admitted b, tokens a b, completed a)"),
        (31.5, "completions", "decode-0 > handoff: PassOutputs (admitted b, tokens a b, completed a)"),
        (31.5, "completions", "handoff > client: RequestEnded completed a"),
        (31.5, "completions", "handoff > collector: MilestonesReached a (held, reserved, activated, released)"),
        (31.5, "start", "decode-0 > decode-0: StartPass"),
        (35.5, "completions", "decode-0 > decode-0: PassCompleted"),
        (35.5, "completions", "decode-0 > collector: PassOutputs (tokens b, completed b)"),
        (35.5, "completions", "decode-0 > handoff: PassOutputs (tokens b, completed b)"),
        (35.5, "completions", "handoff > client: RequestEnded completed b"),
        (35.5, "completions", "handoff > collector: MilestonesReached b (held, reserved, activated, released)"),
        (35.5, "completions", "system > collector: ConcludeRun"),
    ]


def test_reservation_that_can_never_fit() -> None:
    """The request fails, its source is released and the next one goes on."""
    log, report = messages_of(two_pools(cluster((0.0, 8, 3), (0.0, 3, 1)), num_gpu_blocks=1))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > handoff: HandoffRequest a"),
        (0.0, "admission", "client > collector: RequestArrived b"),
        (0.0, "admission", "client > handoff: HandoffRequest b"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest a"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted a"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch a"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest b"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted b"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch b"),
        (0.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (10.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (
            10.0,
            "completions",
            "prefill-0 > collector: PassOutputs (admitted a b, tokens a b, completed a, completed b)",
        ),
        (10.0, "completions", "prefill-0 > handoff: PassOutputs (admitted a b, tokens a b, completed a, completed b)"),
        (10.0, "handoff", "handoff > decode-router: PlaceRequest a"),
        (10.0, "handoff", "decode-router > collector: RequestRouted a"),
        (10.0, "handoff", "decode-router > decode-0: ReserveDestination a"),
        (10.0, "handoff", "decode-0 > handoff: DestinationFailed a"),
        (10.0, "handoff", "handoff > collector: RequestEnded failed a"),
        (10.0, "handoff", "handoff > collector: MilestonesReached a (held)"),
        (10.0, "handoff", "handoff > decode-router: PlaceRequest b"),
        (10.0, "handoff", "decode-router > collector: RequestRouted b"),
        (10.0, "handoff", "decode-router > decode-0: ReserveDestination b"),
        (10.0, "handoff", "decode-0 > handoff: DestinationReserved b"),
        (10.0, "handoff", "handoff > prefill-0: ReleaseSource a"),
        (10.0, "handoff", "prefill-0 > handoff: SourceReleased a"),
        (10.0, "handoff", "handoff > client: RequestEnded failed a"),
        (10.0, "handoff", "handoff > handoff: StartTransfer b"),
        (10.0, "handoff", "handoff > decode-0: ActivateDestination b"),
        (10.0, "handoff", "decode-0 > handoff: DestinationActivated b"),
        (10.0, "handoff", "handoff > prefill-0: ReleaseSource b"),
        (10.0, "handoff", "prefill-0 > handoff: SourceReleased b"),
        (10.0, "start", "decode-0 > decode-0: StartPass"),
        (11.0, "completions", "decode-0 > decode-0: PassCompleted"),
        (11.0, "completions", "decode-0 > collector: PassOutputs (admitted b, tokens b, completed b)"),
        (11.0, "completions", "decode-0 > handoff: PassOutputs (admitted b, tokens b, completed b)"),
        (11.0, "completions", "handoff > client: RequestEnded completed b"),
        (11.0, "completions", "handoff > collector: MilestonesReached b (held, reserved, activated, released)"),
        (11.0, "completions", "system > collector: ConcludeRun"),
    ]

    assert report.requests is not None
    assert [(record.terminal_status, record.terminal_reason) for record in report.requests] == [
        ("failed", "8 tokens need 2 KV blocks, the cache has 1"),
        ("completed", None),
    ]


def test_a_burst_that_never_fits_a_decode_worker() -> None:
    """Strict, the run ends with an error that counts the requests of both pools; else each ends with a reason."""
    spec = two_pools(cluster((0.0, 8, 30), (0.0, 8, 30), (0.0, 8, 30)), decode=2, num_gpu_blocks=3, aic_nextn=5)
    with pytest.raises(ReplayError, match="effect-free zero-duration pass with 3 in-flight requests remaining"):
        messages_of({**spec, "strict": True})
    _, report = messages_of(spec)
    assert report.requests is not None
    reason = "a burst up to 14 tokens does not fit the cache of 3 KV blocks"
    assert [(record.terminal_status, record.terminal_reason) for record in report.requests] == [
        ("rejected", reason)
    ] * 3


def test_a_source_that_is_released_after_the_end_of_its_request() -> None:
    """The record has every milestone up to the end of the run, late ones too."""
    spec = two_pools(cluster((0.0, 8, 1), (5.0, 8, 2)), latency_ms=0.5)

    def told(**limits: float) -> tuple[list[str], float | None]:
        log, report = messages_of({**spec, **limits})
        assert report.requests is not None
        record = report.requests[0]
        assert (record.destination_activated_ms, record.terminal_time_ms) == (10.5, 11.5)
        return [what for _, _, what in log if "MilestonesReached a" in what], record.source_released_ms

    before = "handoff > collector: MilestonesReached a (held, reserved, activated)"
    assert told() == ([before, "handoff > collector: MilestonesReached a (released)"], 20.0)
    assert told(max_sim_time_ms=15.0) == ([before], None)
