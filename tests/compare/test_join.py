"""Requests of two runs beside each other."""

from __future__ import annotations

import pytest

from actors.comparison.join import join_requests, matching
from actors.comparison.texts import request_text
from messages.comparison import ChangedRequest, Join, RequestDifferences
from messages.report import RequestRecord
from tests.compare.conftest import record


def joined(first: list[RequestRecord], other: list[RequestRecord], *, fixed_arrivals: bool = True) -> Join:
    return join_requests("B", first, other, fixed_arrivals=fixed_arrivals)


def test_differences_of_every_request_with_the_same_id() -> None:
    first = [record("a"), record("b"), record("c"), record("gone")]
    other = [record("new"), record("c", ttft_ms=12.0), record("b", ttft_ms=4.0), record("a")]
    join = joined(first, other)
    assert (join.run, join.matched, join.only_first, join.only_other) == ("B", 3, 1, 1)
    ttft, itl, e2e = join.differences
    assert ttft == RequestDifferences(
        key="ttft_ms",
        requests=3,
        mean=pytest.approx(-4.0 / 3.0),
        min=-6.0,
        p50=0.0,
        p90=2.0,
        p99=2.0,
        max=2.0,
        better=1,
        worse=1,
        equal=1,
        most_changed=[
            ChangedRequest("b", None, None, 10.0, 4.0, -6.0),
            ChangedRequest("c", None, None, 10.0, 12.0, 2.0),
        ],
    )
    assert (itl.key, itl.equal, itl.most_changed) == ("itl_ms", 3, [])
    assert (e2e.key, e2e.equal, e2e.most_changed) == ("e2e_latency_ms", 3, [])


def test_the_five_that_changed_most_come_first() -> None:
    names = "abcdefg"
    other = [record(name, e2e_latency_ms=30.0 + number * (-1.0) ** number) for number, name in enumerate(names)]
    (_, _, e2e) = joined([record(name) for name in names], other).differences
    assert [(entry.request_id, entry.difference) for entry in e2e.most_changed] == [
        ("g", 6.0),
        ("f", -5.0),
        ("e", 4.0),
        ("d", -3.0),
        ("c", 2.0),
    ]


def test_less_than_a_nanosecond_is_rounding() -> None:
    (ttft, *_) = joined([record("a")], [record("a", ttft_ms=10.0 + 9e-7)]).differences
    assert (ttft.equal, ttft.better, ttft.worse, ttft.max, ttft.most_changed) == (1, 0, 0, 0.0, [])


def test_a_latency_that_one_side_lacks_is_left_out() -> None:
    first = [record("a"), record("b", itl_ms=None)]
    join = joined(first, [record("a", itl_ms=None), record("b", itl_ms=None)])
    itl = join.differences[1]
    assert itl == RequestDifferences("itl_ms", 0, None, None, None, None, None, None, 0, 0, 0, [])


def test_an_id_that_occurs_several_times_is_told_apart_by_session_and_turn() -> None:
    first = [record("x", session_id="s", turn_index=0), record("x", session_id="s", turn_index=1)]
    other = [
        record("x", session_id="t", turn_index=0),
        record("x", session_id="s", turn_index=1),
        record("x", session_id="s", turn_index=0),
    ]
    assert matching(first, other) == [(first[0], other[2]), (first[1], other[1])]
    join = joined(first, other)
    assert (join.matched, join.only_first, join.only_other) == (2, 0, 1)


def test_what_nothing_else_tells_apart_is_matched_in_order() -> None:
    first = [record("x", arrival_time_ms=1.0), record("y"), record("x", arrival_time_ms=2.0)]
    other = [record("x", arrival_time_ms=1.0), record("x", arrival_time_ms=2.0), record("x", arrival_time_ms=3.0)]
    assert matching(first, other) == [(first[0], other[0]), (first[2], other[1])]


def test_other_traffic_is_counted() -> None:
    first = [record(name) for name in "abcd"]
    other = [
        record("a", arrival_time_ms=1.0),
        record("b", input_length=7),
        record("c", requested_output_length=7),
        record("d", terminal_status="rejected"),
    ]
    join = joined(first, other)
    assert (join.other_arrivals, join.other_lengths, join.other_endings) == (1, 2, 1)


def test_arrivals_that_depend_on_the_run_are_no_other_traffic() -> None:
    first = [record("a", turn_index=0), record("b", turn_index=1)]
    other = [record("a", turn_index=0, arrival_time_ms=1.0), record("b", turn_index=1, arrival_time_ms=1.0)]
    assert joined(first, other).other_arrivals == 1
    assert joined(first, other, fixed_arrivals=False).other_arrivals == 0


def test_nothing_in_common() -> None:
    join = joined([record("a")], [])
    assert (join.matched, join.only_first, join.only_other) == (0, 1, 0)
    assert [one.requests for one in join.differences] == [0, 0, 0]


def test_control_characters_of_names_are_told() -> None:
    assert request_text(ChangedRequest("a\x1b[2Jé\n", "s\t1", 0, 1.0, 2.0, 1.0)) == r"a\x1b[2Jé\n (s\t1, turn 0)"
