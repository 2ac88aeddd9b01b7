"""Whole message lists of small runs: who says what to whom, in which order, at which virtual time."""

from __future__ import annotations

from tests.scenario import Line, cluster, messages_of

OPENING: list[Line] = [
    (0.0, "worker_ready", "system > pool: StartPool"),
    (0.0, "worker_ready", "pool > router: WorkerReady"),
    (0.0, "worker_ready", "pool > router: TopologySettled"),
    (0.0, "admission", "system > client: ReleaseArrivals"),
]


def test_one_request_on_one_worker() -> None:
    """A prefill pass, then its three decode passes as one run."""
    log, _ = messages_of(cluster((0.0, 8, 4)))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > router: PlaceRequest a"),
        (0.0, "admission", "router > collector: RequestRouted a"),
        (0.0, "admission", "router > worker-0: Dispatch a"),
        (0.0, "start", "worker-0 > worker-0: StartPass"),
        (13.0, "completions", "worker-0 > worker-0: PassCompleted x4"),
        (13.0, "completions", "worker-0 > collector: PassOutputs (admitted a, tokens x4 a, completed a)"),
        (13.0, "completions", "worker-0 > client: PassOutputs (admitted a, tokens x4 a, completed a)"),
        (13.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_simultaneous_arrivals_on_two_workers() -> None:
    """Both arrivals are placed before any pass starts; completions follow the worker ids."""
    log, _ = messages_of(cluster((0.0, 8, 2), (0.0, 12, 2), workers=2))
    assert log == [
        (0.0, "worker_ready", "system > pool: StartPool"),
        (0.0, "worker_ready", "pool > router: WorkerReady"),
        (0.0, "worker_ready", "pool > router: WorkerReady"),
        (0.0, "worker_ready", "pool > router: TopologySettled"),
        (0.0, "admission", "system > client: ReleaseArrivals"),
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > router: PlaceRequest a"),
        (0.0, "admission", "client > collector: RequestArrived b"),
        (0.0, "admission", "client > router: PlaceRequest b"),
        (0.0, "admission", "router > collector: RequestRouted a"),
        (0.0, "admission", "router > worker-0: Dispatch a"),
        (0.0, "admission", "router > collector: RequestRouted b"),
        (0.0, "admission", "router > worker-1: Dispatch b"),
        (0.0, "start", "worker-0 > worker-0: StartPass"),
        (0.0, "start", "worker-1 > worker-1: StartPass"),
        (10.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (10.0, "completions", "worker-0 > collector: PassOutputs (admitted a, tokens a)"),
        (10.0, "completions", "worker-1 > worker-1: PassCompleted"),
        (10.0, "completions", "worker-1 > collector: PassOutputs (admitted b, tokens b)"),
        (10.0, "start", "worker-0 > worker-0: StartPass"),
        (10.0, "start", "worker-1 > worker-1: StartPass"),
        (11.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (11.0, "completions", "worker-0 > collector: PassOutputs (tokens a, completed a)"),
        (11.0, "completions", "worker-0 > client: PassOutputs (tokens a, completed a)"),
        (11.0, "completions", "worker-1 > worker-1: PassCompleted"),
        (11.0, "completions", "worker-1 > collector: PassOutputs (tokens b, completed b)"),
        (11.0, "completions", "worker-1 > client: PassOutputs (tokens b, completed b)"),
        (11.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_arrival_exactly_at_a_completion() -> None:
    """The completion comes first, then the arrival, which joins the pass that starts at that instant."""
    log, _ = messages_of(cluster((0.0, 8, 3), (10.0, 12, 1)))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > router: PlaceRequest a"),
        (0.0, "admission", "router > collector: RequestRouted a"),
        (0.0, "admission", "router > worker-0: Dispatch a"),
        (0.0, "start", "worker-0 > worker-0: StartPass"),
        (10.0, "admission", "client > client: ReleaseArrivals"),
        (10.0, "admission", "client > collector: RequestArrived b"),
        (10.0, "admission", "client > router: PlaceRequest b"),
        (10.0, "admission", "router > collector: RequestRouted b"),
        (10.0, "admission", "router > worker-0: Dispatch b"),
        (10.0, "admission", "worker-0 > collector: PassOutputs (admitted a, tokens a)"),
        (10.0, "start", "worker-0 > worker-0: StartPass"),
        (21.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (21.0, "completions", "worker-0 > collector: PassOutputs (admitted b, tokens a b, completed b)"),
        (21.0, "completions", "worker-0 > client: PassOutputs (admitted b, tokens a b, completed b)"),
        (21.0, "start", "worker-0 > worker-0: StartPass"),
        (22.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (22.0, "completions", "worker-0 > collector: PassOutputs (tokens a, completed a)"),
        (22.0, "completions", "worker-0 > client: PassOutputs (tokens a, completed a)"),
        (22.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_arrival_exactly_at_a_boundary_of_a_run() -> None:
    """A run of decode passes ends at the boundary that an arrival meets, and the arrival joins the next pass."""
    log, _ = messages_of(cluster((0.0, 8, 9), (12.0, 12, 1)))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > router: PlaceRequest a"),
        (0.0, "admission", "router > collector: RequestRouted a"),
        (0.0, "admission", "router > worker-0: Dispatch a"),
        (0.0, "start", "worker-0 > worker-0: StartPass"),
        (12.0, "admission", "client > client: ReleaseArrivals"),
        (12.0, "admission", "client > collector: RequestArrived b"),
        (12.0, "admission", "client > router: PlaceRequest b"),
        (12.0, "admission", "router > collector: RequestRouted b"),
        (12.0, "admission", "router > worker-0: Dispatch b"),
        (12.0, "admission", "worker-0 > collector: PassOutputs (admitted a, tokens x3 a)"),
        (12.0, "start", "worker-0 > worker-0: StartPass"),
        (23.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (23.0, "completions", "worker-0 > collector: PassOutputs (admitted b, tokens a b, completed b)"),
        (23.0, "completions", "worker-0 > client: PassOutputs (admitted b, tokens a b, completed b)"),
        (23.0, "start", "worker-0 > worker-0: StartPass"),
        (28.0, "completions", "worker-0 > worker-0: PassCompleted x5"),
        (28.0, "completions", "worker-0 > collector: PassOutputs (tokens x5 a, completed a)"),
        (28.0, "completions", "worker-0 > client: PassOutputs (tokens x5 a, completed a)"),
        (28.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_arrival_within_a_run() -> None:
    """A run of decode passes is cut at the first boundary after an arrival."""
    log, _ = messages_of(cluster((0.0, 8, 9), (12.5, 12, 1)))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > router: PlaceRequest a"),
        (0.0, "admission", "router > collector: RequestRouted a"),
        (0.0, "admission", "router > worker-0: Dispatch a"),
        (0.0, "start", "worker-0 > worker-0: StartPass"),
        (12.5, "admission", "client > client: ReleaseArrivals"),
        (12.5, "admission", "client > collector: RequestArrived b"),
        (12.5, "admission", "client > router: PlaceRequest b"),
        (12.5, "admission", "router > collector: RequestRouted b"),
        (12.5, "admission", "router > worker-0: Dispatch b"),
        (13.0, "completions", "worker-0 > worker-0: PassCompleted x4"),
        (13.0, "completions", "worker-0 > collector: PassOutputs (admitted a, tokens x4 a)"),
        (13.0, "start", "worker-0 > worker-0: StartPass"),
        (24.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (24.0, "completions", "worker-0 > collector: PassOutputs (admitted b, tokens a b, completed b)"),
        (24.0, "completions", "worker-0 > client: PassOutputs (admitted b, tokens a b, completed b)"),
        (24.0, "start", "worker-0 > worker-0: StartPass"),
        (28.0, "completions", "worker-0 > worker-0: PassCompleted x4"),
        (28.0, "completions", "worker-0 > collector: PassOutputs (tokens x4 a, completed a)"),
        (28.0, "completions", "worker-0 > client: PassOutputs (tokens x4 a, completed a)"),
        (28.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_closed_loop_refill() -> None:
    """The end of a request frees its place, which is taken at the same timestamp."""
    log, _ = messages_of(cluster((0.0, 8, 1), (0.0, 8, 1), max_in_flight=1))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > router: PlaceRequest a"),
        (0.0, "admission", "router > collector: RequestRouted a"),
        (0.0, "admission", "router > worker-0: Dispatch a"),
        (0.0, "start", "worker-0 > worker-0: StartPass"),
        (10.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (10.0, "completions", "worker-0 > collector: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "completions", "worker-0 > client: PassOutputs (admitted a, tokens a, completed a)"),
        (10.0, "admission", "client > client: ReleaseArrivals"),
        (10.0, "admission", "client > collector: RequestArrived b"),
        (10.0, "admission", "client > router: PlaceRequest b"),
        (10.0, "admission", "router > collector: RequestRouted b"),
        (10.0, "admission", "router > worker-0: Dispatch b"),
        (10.0, "start", "worker-0 > worker-0: StartPass"),
        (20.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (20.0, "completions", "worker-0 > collector: PassOutputs (admitted b, tokens b, completed b)"),
        (20.0, "completions", "worker-0 > client: PassOutputs (admitted b, tokens b, completed b)"),
        (20.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_preemption_and_readmission() -> None:
    """The later request gives its blocks up to the earlier one and is admitted again after its end."""
    log, _ = messages_of(cluster((0.0, 12, 8), (0.0, 12, 6), blocks=8))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > router: PlaceRequest a"),
        (0.0, "admission", "client > collector: RequestArrived b"),
        (0.0, "admission", "client > router: PlaceRequest b"),
        (0.0, "admission", "router > collector: RequestRouted a"),
        (0.0, "admission", "router > worker-0: Dispatch a"),
        (0.0, "admission", "router > collector: RequestRouted b"),
        (0.0, "admission", "router > worker-0: Dispatch b"),
        (0.0, "start", "worker-0 > worker-0: StartPass"),
        (14.0, "completions", "worker-0 > worker-0: PassCompleted x5"),
        (14.0, "completions", "worker-0 > collector: PassOutputs (admitted a b, tokens x5 a b)"),
        (14.0, "start", "worker-0 > worker-0: StartPass"),
        (15.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (15.0, "completions", "worker-0 > collector: PassOutputs (tokens a, preempted 1)"),
        (15.0, "start", "worker-0 > worker-0: StartPass"),
        (17.0, "completions", "worker-0 > worker-0: PassCompleted x2"),
        (17.0, "completions", "worker-0 > collector: PassOutputs (tokens x2 a, completed a)"),
        (17.0, "completions", "worker-0 > client: PassOutputs (tokens x2 a, completed a)"),
        (17.0, "start", "worker-0 > worker-0: StartPass"),
        (18.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (18.0, "completions", "worker-0 > collector: PassOutputs (admitted b, tokens b, completed b)"),
        (18.0, "completions", "worker-0 > client: PassOutputs (admitted b, tokens b, completed b)"),
        (18.0, "completions", "system > collector: ConcludeRun"),
    ]


def test_rejection() -> None:
    """A prompt larger than the cache is rejected in the pass that meets it at the head of the queue."""
    log, report = messages_of(cluster((0.0, 40, 2), (0.0, 8, 1), blocks=8))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > router: PlaceRequest a"),
        (0.0, "admission", "client > collector: RequestArrived b"),
        (0.0, "admission", "client > router: PlaceRequest b"),
        (0.0, "admission", "router > collector: RequestRouted a"),
        (0.0, "admission", "router > worker-0: Dispatch a"),
        (0.0, "admission", "router > collector: RequestRouted b"),
        (0.0, "admission", "router > worker-0: Dispatch b"),
        (0.0, "start", "worker-0 > worker-0: StartPass"),
        (10.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (10.0, "completions", "worker-0 > collector: PassOutputs (admitted b, tokens b, completed b, rejected a)"),
        (10.0, "completions", "worker-0 > client: PassOutputs (admitted b, tokens b, completed b, rejected a)"),
        (10.0, "completions", "system > collector: ConcludeRun"),
    ]
    assert report.requests is not None
    assert [record.terminal_reason for record in report.requests] == [
        "40 tokens need 10 KV blocks, the cache has 8",
        None,
    ]


def test_request_that_outgrows_the_cache() -> None:
    """Alone on its worker it preempts itself, can never come back, and ends as rejected; the next one goes on."""
    log, report = messages_of(cluster((0.0, 15, 9), (1.0, 8, 1), blocks=4))
    assert log == [
        *OPENING,
        (0.0, "admission", "client > collector: RequestArrived a"),
        (0.0, "admission", "client > router: PlaceRequest a"),
        (0.0, "admission", "router > collector: RequestRouted a"),
        (0.0, "admission", "router > worker-0: Dispatch a"),
        (0.0, "start", "worker-0 > worker-0: StartPass"),
        (1.0, "admission", "client > client: ReleaseArrivals"),
        (1.0, "admission", "client > collector: RequestArrived b"),
        (1.0, "admission", "client > router: PlaceRequest b"),
        (1.0, "admission", "router > collector: RequestRouted b"),
        (1.0, "admission", "router > worker-0: Dispatch b"),
        (10.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (10.0, "completions", "worker-0 > collector: PassOutputs (admitted a, tokens a)"),
        (10.0, "start", "worker-0 > worker-0: StartPass"),
        (11.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (11.0, "completions", "worker-0 > collector: PassOutputs (tokens a)"),
        (11.0, "start", "worker-0 > worker-0: StartPass"),
        (11.0, "start", "worker-0 > collector: PassOutputs (preempted 1)"),
        (11.0, "start", "worker-0 > worker-0: StartPass"),
        (11.0, "start", "worker-0 > collector: PassOutputs (rejected a)"),
        (11.0, "start", "worker-0 > client: PassOutputs (rejected a)"),
        (11.0, "start", "worker-0 > worker-0: StartPass"),
        (21.0, "completions", "worker-0 > worker-0: PassCompleted"),
        (21.0, "completions", "worker-0 > collector: PassOutputs (admitted b, tokens b, completed b)"),
        (21.0, "completions", "worker-0 > client: PassOutputs (admitted b, tokens b, completed b)"),
        (21.0, "completions", "system > collector: ConcludeRun"),
    ]
    assert report.requests is not None
    outgrown, other = report.requests
    assert (outgrown.terminal_status, outgrown.output_length) == ("rejected", 2)
    assert outgrown.terminal_reason == "17 tokens need 5 KV blocks, the cache has 4"
    assert other.terminal_status == "completed"
