"""Whole message lists of small runs on two pools of SGLang workers, where a destination is reserved first."""

from __future__ import annotations

from typing import Any

from tests.actors.test_handoff_sequences import OPENING
from tests.scenario import cluster, messages_of, two_pools


def test_one_request() -> None:
    """The prompt is built once a decode worker has room for it; what follows is as with source first."""
    log, _ = messages_of(two_pools(cluster((0.0, 8, 3), backend="sglang")))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > handoff: HandoffRequest a"),
        (0.0, "handoff", "handoff > decode-router: PlaceRequest a"),
        (0.0, "handoff", "decode-router > collector: RequestRouted a"),
        (0.0, "handoff", "decode-router > decode-0: ReserveDestination a"),
        (0.0, "handoff", "decode-0 > handoff: DestinationReserved a"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest a"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted a"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch a"),
        (0.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (10.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (10.0, "completions", "prefill-0 > collector: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "completions", "prefill-0 > handoff: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "handoff", "handoff > handoff: StartTransfer a"),
        (10.0, "handoff", "handoff > decode-0: ActivateDestination a"),
        (10.0, "handoff", "decode-0 > handoff: DestinationActivated a"),
        (10.0, "handoff", "handoff > prefill-0: ReleaseSource a"),
        (10.0, "handoff", "prefill-0 > handoff: SourceReleased a"),
        (10.0, "start", "decode-0 > decode-0: StartPass"),
        (11.0, "completions", "decode-0 > decode-0: PassCompleted"),
        (11.0, "completions", "decode-0 > collector: PassOutputs (admitted a, tokens a)"),
        (11.0, "start", "decode-0 > decode-0: StartPass"),
        (13.0, "completions", "decode-0 > decode-0: PassCompleted x2"),
        (13.0, "completions", "decode-0 > collector: PassOutputs (tokens x2 a, completed a)"),
        (13.0, "completions", "decode-0 > handoff: PassOutputs (tokens x2 a, completed a)"),
        (13.0, "completions", "handoff > client: RequestEnded completed a"),
        (13.0, "completions", "handoff > collector: MilestonesReached a (reserved, held, activated, released)"),
        (13.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_full_destination() -> None:
    """The second prompt is not built before the first request has left the decode worker."""
    log, _ = messages_of(two_pools(cluster((0.0, 8, 3), (0.0, 8, 2), backend="sglang"), num_gpu_blocks=3))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > handoff: HandoffRequest a"),
        (0.0, "admission", "client > collector: RequestArrived b"),
        (0.0, "admission", "client > handoff: HandoffRequest b"),
        (0.0, "handoff", "handoff > decode-router: PlaceRequest a"),
        (0.0, "handoff", "decode-router > collector: RequestRouted a"),
        (0.0, "handoff", "decode-router > decode-0: ReserveDestination a"),
        (0.0, "handoff", "decode-0 > handoff: DestinationReserved a"),
        (0.0, "handoff", "handoff > decode-router: PlaceRequest b"),
        (0.0, "handoff", "decode-router > collector: RequestRouted b"),
        (0.0, "handoff", "decode-router > decode-0: ReserveDestination b"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest a"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted a"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch a"),
        (0.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (10.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (10.0, "completions", "prefill-0 > collector: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "completions", "prefill-0 > handoff: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "handoff", "handoff > handoff: StartTransfer a"),
        (10.0, "handoff", "handoff > decode-0: ActivateDestination a"),
        (10.0, "handoff", "decode-0 > handoff: DestinationActivated a"),
        (10.0, "handoff", "handoff > prefill-0: ReleaseSource a"),
        (10.0, "handoff", "prefill-0 > handoff: SourceReleased a"),
        (10.0, "start", "decode-0 > decode-0: StartPass"),
        (11.0, "completions", "decode-0 > decode-0: PassCompleted"),
        (11.0, "completions", "decode-0 > collector: PassOutputs (admitted a, tokens a)"),
        (11.0, "start", "decode-0 > decode-0: StartPass"),
        (13.0, "completions", "decode-0 > decode-0: PassCompleted x2"),
        (13.0, "completions", "decode-0 > collector: PassOutputs (tokens x2 a, completed a)"),
        (13.0, "completions", "decode-0 > handoff: PassOutputs (tokens x2 a, completed a)"),
        (13.0, "completions", "decode-0 > handoff: DestinationReserved b"),
        (13.0, "completions", "handoff > client: RequestEnded completed a"),
        (13.0, "completions", "handoff > collector: MilestonesReached a (reserved, held, activated, released)"),
        (13.0, "handoff", "handoff > prefill-router: PlaceRequest b"),
        (13.0, "handoff", "prefill-router > collector: RequestRouted b"),
        (13.0, "handoff", "prefill-router > prefill-0: Dispatch b"),
        (13.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (23.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (23.0, "completions", "prefill-0 > collector: PassOutputs (admitted b, tokens b, completed b)"),
        (23.0, "completions", "prefill-0 > handoff: PassOutputs (admitted b, tokens b, completed b)"),
        (23.0, "handoff", "handoff > handoff: StartTransfer b"),
        (23.0, "handoff", "handoff > decode-0: ActivateDestination b"),
        (23.0, "handoff", "decode-0 > handoff: DestinationActivated b"),
        (23.0, "handoff", "handoff > prefill-0: ReleaseSource b"),
        (23.0, "handoff", "prefill-0 > handoff: SourceReleased b"),
        (23.0, "start", "decode-0 > decode-0: StartPass"),
        (24.0, "completions", "decode-0 > decode-0: PassCompleted"),
        (24.0, "completions", "decode-0 > collector: PassOutputs (admitted b, tokens b)"),
        (24.0, "start", "decode-0 > decode-0: StartPass"),
        (25.0, "completions", "decode-0 > decode-0: PassCompleted"),
        (25.0, "completions", "decode-0 > collector: PassOutputs (tokens b, completed b)"),
        (25.0, "completions", "decode-0 > handoff: PassOutputs (tokens b, completed b)"),
        (25.0, "completions", "handoff > client: RequestEnded completed b"),
        (25.0, "completions", "handoff > collector: MilestonesReached b (reserved, held, activated, released)"),
        (25.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_failed_reservation() -> None:
    """A prompt that the decode worker can never hold ends at once: nothing has been built."""
    spec = two_pools(cluster((0.0, 40, 2), (0.0, 8, 1), backend="sglang"), num_gpu_blocks=6)
    log, report = messages_of(spec)
    assert report.requests is not None
    assert report.requests[0].terminal_reason == "a prompt of 40 tokens needs 10 KV pages, the cache has 6"
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > handoff: HandoffRequest a"),
        (0.0, "admission", "client > collector: RequestArrived b"),
        (0.0, "admission", "client > handoff: HandoffRequest b"),
        (0.0, "handoff", "handoff > decode-router: PlaceRequest a"),
        (0.0, "handoff", "decode-router > collector: RequestRouted a"),
        (0.0, "handoff", "decode-router > decode-0: ReserveDestination a"),
        (0.0, "handoff", "decode-0 > handoff: DestinationFailed a"),
        (0.0, "handoff", "handoff > collector: RequestEnded failed a"),
        (0.0, "handoff", "handoff > client: RequestEnded failed a"),
        (0.0, "handoff", "handoff > decode-router: PlaceRequest b"),
        (0.0, "handoff", "decode-router > collector: RequestRouted b"),
        (0.0, "handoff", "decode-router > decode-0: ReserveDestination b"),
        (0.0, "handoff", "decode-0 > handoff: DestinationReserved b"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest b"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted b"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch b"),
        (0.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (10.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (10.0, "completions", "prefill-0 > collector: PassOutputs (admitted b, tokens b, completed b)"),
        (10.0, "completions", "prefill-0 > handoff: PassOutputs (admitted b, tokens b, completed b)"),
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
        (11.0, "completions", "handoff > collector: MilestonesReached b (reserved, held, activated, released)"),
        (11.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_prompt_that_the_prefill_worker_rejects() -> None:
    """The room that was reserved for it goes to the next."""
    spec: dict[str, Any] = two_pools(cluster((0.0, 12, 3), (0.0, 8, 1), backend="sglang"), num_gpu_blocks=4)
    prefill = spec["engine"]["prefill"]
    prefill["rank"] = {**prefill["rank"], "max_model_len": 10}
    log, report = messages_of(spec)
    assert report.requests is not None
    assert report.requests[0].terminal_reason == "a prompt of 12 tokens is not below max_model_len 10"
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > handoff: HandoffRequest a"),
        (0.0, "admission", "client > collector: RequestArrived b"),
        (0.0, "admission", "client > handoff: HandoffRequest b"),
        (0.0, "handoff", "handoff > decode-router: PlaceRequest a"),
        (0.0, "handoff", "decode-router > collector: RequestRouted a"),
        (0.0, "handoff", "decode-router > decode-0: ReserveDestination a"),
        (0.0, "handoff", "decode-0 > handoff: DestinationReserved a"),
        (0.0, "handoff", "handoff > decode-router: PlaceRequest b"),
        (0.0, "handoff", "decode-router > collector: RequestRouted b"),
        (0.0, "handoff", "decode-router > decode-0: ReserveDestination b"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest a"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted a"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch a"),
        (0.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (0.0, "start_prefill", "prefill-0 > collector: PassOutputs (rejected a)"),
        (0.0, "start_prefill", "prefill-0 > handoff: PassOutputs (rejected a)"),
        (0.0, "start_prefill", "handoff > collector: RequestEnded rejected a"),
        (0.0, "start_prefill", "handoff > collector: MilestonesReached a (reserved)"),
        (0.0, "start_prefill", "handoff > client: RequestEnded rejected a"),
        (0.0, "handoff", "handoff > prefill-0: ReleaseSource a"),
        (0.0, "handoff", "prefill-0 > handoff: SourceReleased a"),
        (0.0, "handoff", "handoff > decode-0: CancelDestination a"),
        (0.0, "handoff", "decode-0 > handoff: DestinationCancelled a"),
        (0.0, "handoff", "decode-0 > handoff: DestinationReserved b"),
        (0.0, "handoff", "handoff > prefill-router: PlaceRequest b"),
        (0.0, "handoff", "prefill-router > collector: RequestRouted b"),
        (0.0, "handoff", "prefill-router > prefill-0: Dispatch b"),
        (0.0, "start_prefill", "prefill-0 > prefill-0: StartPass"),
        (10.0, "completions", "prefill-0 > prefill-0: PassCompleted"),
        (10.0, "completions", "prefill-0 > collector: PassOutputs (admitted b, tokens b, completed b)"),
        (10.0, "completions", "prefill-0 > handoff: PassOutputs (admitted b, tokens b, completed b)"),
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
        (11.0, "completions", "handoff > collector: MilestonesReached b (reserved, held, activated, released)"),
        (11.0, "completions", "system > collector: ConcludeRun"),
    ]
