"""What the page computes: series over time, phases of requests, loads of workers, attainment of an SLA."""

from __future__ import annotations

import itertools
import re

import msgspec
import numpy as np
import pytest

from actors.pages.report.attainment import attainment_section
from actors.pages.report.balance import Load, loads
from actors.pages.report.breakdown import Phases, phases, slowest
from actors.pages.report.columns import Columns, columns_of
from actors.pages.report.series import arrivals, bucket_edges, in_flight, levels, means_of_samples, output_tokens
from actors.reporting.results import Results
from messages.report import RequestRecord
from messages.spec import ReplaySpec, Sla
from tests.pages.runs import SPECS, results
from tests.scenario import cluster, two_pools


def columns_of_run(name: str) -> tuple[Results, Columns]:
    run = results(SPECS[name])
    assert run.requests is not None
    return run, columns_of(run.requests)


def record(**parts: object) -> RequestRecord:
    (some,) = results(cluster((0.0, 20, 5))).requests or []
    return msgspec.structs.replace(some, **parts)


@pytest.mark.parametrize(
    ("longest", "edges"), [(0.0, [0, 1]), (5.0, [0, 2, 4, 6]), (6.0, [0, 2, 4, 6, 8]), (0.3, [0, 0.1, 0.2, 0.3])]
)
def test_buckets_are_round_and_hold_everything(longest: float, edges: list[float]) -> None:
    assert bucket_edges(longest, 3).tolist() == pytest.approx(edges)
    assert bucket_edges(longest, 3)[-1] > longest


def test_arrivals_and_requests_in_flight() -> None:
    records = [
        record(arrival_time_ms=0.0, terminal_time_ms=4.0),
        record(arrival_time_ms=2.0, terminal_time_ms=4.0),
        record(arrival_time_ms=4.0, terminal_time_ms=7.0),
        record(arrival_time_ms=5.0, terminal_time_ms=5.0),
    ]
    columns = columns_of(records)
    edges = np.array([0.0, 2.0, 4.0, 6.0, 8.0])
    assert arrivals(columns, edges).tolist() == [1, 1, 2, 0]
    times, counts = in_flight(columns)
    assert times.tolist() == [0, 0, 2, 4, 5, 7]
    assert counts.tolist() == [0, 1, 2, 1, 1, 0]
    means, highest = levels(times, counts, edges)
    assert means.tolist() == [1, 2, 1, 0.5]
    assert highest.tolist() == [1, 2, 1, 1]


def test_tokens_are_spread_from_the_first_to_the_last() -> None:
    records = [
        record(first_token_ms=1.0, last_token_ms=5.0, output_length=8),
        record(first_token_ms=3.0, last_token_ms=3.0, output_length=1),
        record(first_token_ms=None, last_token_ms=None, output_length=0),
    ]
    tokens = output_tokens(columns_of(records), np.array([0.0, 2.0, 3.0, 4.0, 6.0]))
    assert tokens.tolist() == [2, 2, 3, 2]


def test_all_tokens_of_a_run_are_somewhere() -> None:
    for name in ("few requests", "all at time 0", "many workers", "two pools"):
        run, columns = columns_of_run(name)
        edges = bucket_edges(float(columns.terminal_ms.max()))
        assert output_tokens(columns, edges).sum() == pytest.approx(run.report["total_output_tokens"])
        assert arrivals(columns, edges).sum() == run.report["num_requests"]


def test_means_of_samples_skip_what_is_unknown() -> None:
    means = means_of_samples(
        np.array([0.0, 1.0, 2.0, 3.0]), np.array([1.0, np.nan, 3.0, 5.0]), np.array([0, 2, 4, 6.0])
    )
    assert means.tolist()[:2] == [1.0, 4.0]
    assert np.isnan(means[2])


def test_phases_of_one_pool() -> None:
    one = record(arrival_time_ms=1.0, first_admit_ms=3.0, first_token_ms=10.0, terminal_time_ms=14.0)
    assert phases(one, 14.0) == Phases(queue=2.0, prefill=7.0, transfer=0.0, decode=4.0)
    assert phases(one, 10.0) == Phases(queue=2.0, prefill=7.0, transfer=0.0, decode=0.0)


def test_phases_of_two_pools() -> None:
    run = results(two_pools(cluster((1.0, 20, 5)), latency_ms=4.0))
    (one,) = run.requests or []
    assert phases(one, one.terminal_time_ms) == Phases(queue=0.0, prefill=10.0, transfer=4.0, decode=5.0)
    assert phases(one, one.first_token_ms or 0.0) == Phases(queue=0.0, prefill=10.0, transfer=4.0, decode=1.0)


def test_a_step_that_was_never_reached_takes_the_rest() -> None:
    one = record(first_admit_ms=None, first_token_ms=None)
    assert phases(one, 9.0) == Phases(queue=9.0, prefill=0.0, transfer=0.0, decode=0.0)


@pytest.mark.parametrize("name", SPECS)
def test_phases_come_to_the_whole_latency(name: str) -> None:
    for one in results(SPECS[name]).requests or []:
        split = phases(one, one.terminal_time_ms)
        assert min(split) >= 0.0
        assert sum(split) == pytest.approx(one.terminal_time_ms - one.arrival_time_ms)


def test_slowest_are_ordered_and_counted_only() -> None:
    _, columns = columns_of_run("some rejected")
    chosen = slowest(columns, columns.e2e_ms)
    assert len(chosen) == 3
    assert all(columns.records[index].terminal_status == "completed" for index in chosen)
    latencies = columns.e2e_ms[chosen].tolist()
    assert all(before >= after for before, after in itertools.pairwise(latencies))


def test_loads_of_every_rank_also_of_idle_ones() -> None:
    run, columns = columns_of_run("ranks")
    (pool,) = (loads(columns, msgspec.convert(run.spec, ReplaySpec))).values()
    assert list(pool) == [(worker, rank) for worker in range(2) for rank in range(3)]
    assert sum(load.requests for load in pool.values()) == 3
    assert Load() in pool.values()
    run, columns = columns_of_run("two pools")
    pools = loads(columns, msgspec.convert(run.spec, ReplaySpec))
    assert list(pools) == ["prefill", "decode"]
    assert [load.input_tokens for load in pools["prefill"].values()] == [28, 30]


@pytest.mark.parametrize(
    "sla", [{"ttft_ms": 12.0}, {"itl_ms": 1.5}, {"ttft_ms": 12.0, "itl_ms": 1.5}, {"e2e_ms": 20.0}, {"e2e_ms": 1e9}]
)
def test_attainment_agrees_with_the_goodput(sla: dict[str, float]) -> None:
    run = results({**SPECS["few requests"], "sla": sla})
    columns = columns_of(run.requests or [])
    section = attainment_section(run, columns, msgspec.convert(sla, Sla))
    assert section is not None
    text = "".join(section.blocks)
    assert f"every bound: {run.report['goodput_completed_requests']} of 3" in text
    if len(sla) == 1 and "itl_ms" not in sla:
        assert re.findall(r"<td>(\d+)</td>", text)[0] == str(run.report["goodput_completed_requests"])


def test_without_bounds_there_is_no_service_level() -> None:
    run, columns = columns_of_run("few requests")
    assert attainment_section(run, columns, Sla()) is None
