from __future__ import annotations

import pytest

from actors.workload.sessions import Release, SessionDriver
from actors.workload.source import Session, Turn, Workload
from messages.errors import ReplayError
from messages.requests import Span, Status


class RecordingPrompts:
    """Prompts without content that note what they are told."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []

    def resolve(self, session: int, turn: int) -> tuple[int, tuple[Span, ...]]:
        return 100 * session + turn + 1, ((session, session + turn + 1),)

    def completed(self, session: int) -> None:
        self.told.append(("completed", session))

    def closed(self, session: int) -> None:
        self.told.append(("closed", session))


def workload(*sessions: tuple[float, list[float]], max_in_flight: int | None = None) -> Workload:
    """Return sessions given as (first arrival, think time before each turn)."""
    built = [
        Session(tuple(Turn(f"s{index}t{turn}", 8, 2, delay) for turn, delay in enumerate(delays)), first)
        for index, (first, delays) in enumerate(sessions)
    ]
    return Workload(sessions=built, prompts=RecordingPrompts(), max_in_flight=max_in_flight)


def names(released: list[Release]) -> list[str]:
    return [release.turn.request_id for release in released]


def test_open_loop_releases_by_arrival_then_session() -> None:
    driver = SessionDriver(workload((50.0, [0.0]), (10.0, [0.0]), (50.0, [0.0]), (0.0, [0.0])))
    assert driver.next_ready_ms() == 0.0
    assert names(driver.release(10.0)) == ["s3t0", "s1t0"]
    assert driver.next_ready_ms() == 50.0
    released = driver.release(50.0)
    assert names(released) == ["s0t0", "s2t0"]
    assert [release.request.ordinal for release in released] == [2, 3]
    assert driver.next_ready_ms() is None
    assert driver.in_flight == 4


def test_a_late_release_keeps_the_time_of_arrival() -> None:
    driver = SessionDriver(workload((5.0, [0.0])))
    assert driver.release(7.0)[0].arrival_time_ms == 5.0


def test_a_release_carries_the_resolved_prompt() -> None:
    driver = SessionDriver(workload((0.0, [0.0]), (0.0, [0.0])))
    request = driver.release(0.0)[1].request
    assert (request.input_tokens, request.output_tokens, request.spans) == (101, 2, ((1, 2),))


@pytest.mark.parametrize("status", [Status.COMPLETED, Status.REJECTED])
def test_the_next_turn_follows_after_the_think_time(status: Status) -> None:
    driver = SessionDriver(workload((0.0, [0.0, 30.0])))
    driver.release(0.0)
    assert driver.in_flight == 1
    driver.ended(0, 12.5, status)
    assert driver.next_ready_ms() == 42.5
    assert driver.release(42.0) == []
    assert names(driver.release(42.5)) == ["s0t1"]
    driver.ended(1, 60.0, status)
    assert driver.in_flight == 0
    assert driver.next_ready_ms() is None


def test_a_turn_without_think_time_can_be_released_at_once() -> None:
    driver = SessionDriver(workload((0.0, [0.0, 0.0])))
    driver.release(0.0)
    driver.ended(0, 12.5, Status.COMPLETED)
    assert names(driver.release(12.5)) == ["s0t1"]


def test_a_failed_turn_ends_its_session() -> None:
    driver = SessionDriver(workload((0.0, [0.0, 30.0])))
    driver.release(0.0)
    driver.ended(0, 12.5, Status.FAILED)
    assert driver.next_ready_ms() is None


def test_prompts_learn_of_outputs_that_a_later_turn_needs_and_of_the_end() -> None:
    load = workload((0.0, [0.0, 0.0, 0.0]))
    driver = SessionDriver(load)
    for ordinal, status in enumerate((Status.COMPLETED, Status.REJECTED, Status.COMPLETED)):
        driver.release(0.0)
        driver.ended(ordinal, 0.0, status)
    assert isinstance(load.prompts, RecordingPrompts)
    assert load.prompts.told == [("completed", 0), ("closed", 0)]


def test_closed_loop_keeps_a_session_active_through_its_think_times() -> None:
    driver = SessionDriver(workload((900.0, [0.0, 50.0]), (0.0, [0.0]), max_in_flight=1))
    assert names(driver.release(0.0)) == ["s0t0"]
    driver.ended(0, 10.0, Status.COMPLETED)
    assert driver.next_ready_ms() == 60.0
    assert names(driver.release(60.0)) == ["s0t1"]
    driver.ended(1, 75.0, Status.COMPLETED)
    (release,) = driver.release(75.0)
    assert (release.turn.request_id, release.arrival_time_ms) == ("s1t0", 75.0)


@pytest.mark.parametrize("status", list(Status))
def test_a_flat_list_in_closed_loop_refills_whatever_ended_in_list_order(status: Status) -> None:
    driver = SessionDriver(workload(*[(float(t), [0.0]) for t in (5, 700, 6, 900, 1)], max_in_flight=2))
    assert [(r.turn.request_id, r.arrival_time_ms) for r in driver.release(0.0)] == [("s0t0", 0.0), ("s1t0", 0.0)]
    assert driver.release(20.0) == []
    driver.ended(1, 32.0, status)
    driver.ended(0, 32.0, status)
    assert [(r.turn.request_id, r.arrival_time_ms) for r in driver.release(32.0)] == [("s2t0", 32.0), ("s3t0", 32.0)]
    driver.ended(2, 32.0, status)
    assert names(driver.release(32.0)) == ["s4t0"]
    assert driver.in_flight == 2


def test_an_empty_workload_has_nothing_to_release() -> None:
    for max_in_flight in (None, 3):
        assert SessionDriver(workload(max_in_flight=max_in_flight)).next_ready_ms() is None


def test_a_time_beyond_the_range_of_numbers_stops_the_run() -> None:
    driver = SessionDriver(workload((0.0, [0.0, 1.7e308])))
    driver.release(0.0)
    with pytest.raises(ReplayError, match="beyond the range of numbers"):
        driver.ended(0, 1e308, Status.COMPLETED)
