"""Figures side by side: which changes are for the better."""

from __future__ import annotations

from typing import Any

import pytest

from actors.comparison.metrics import better, chosen_metrics, compare_metrics, flat_figures
from actors.reporting.results import Results
from messages.comparison import Change, Metric
from messages.errors import InputError
from messages.report import PoolRouting


def compared(key: str, *values: Any, other_sla: tuple[str, ...] = ()) -> Metric:
    labels = ["A", "B", "C"][: len(values)]
    (metric,) = compare_metrics([{key: value} for value in values], labels, other_sla)
    return metric


@pytest.mark.parametrize(
    ("key", "first", "other", "change"),
    [
        ("p99_ttft_ms", 100.0, 150.0, Change("B", 50.0, 50.0, "worse")),
        ("p99_ttft_ms", 100.0, 75.0, Change("B", -25.0, -25.0, "better")),
        ("output_throughput_tok_s", 100.0, 75.0, Change("B", -25.0, -25.0, "worse")),
        ("completed_requests", 4, 5, Change("B", 1, 25.0, "better")),
        ("num_requests", 4, 5, Change("B", 1, 25.0, "different")),
        ("wall_time_ms", 4.0, 5.0, Change("B", 1.0, 25.0, "different")),
        ("mean_itl_ms", 0.3, 0.1 + 0.2, Change("B", 0.0, 0.0, "equal")),
        ("gpu_hours", 0.0, 2.0, Change("B", 2.0, None, "worse")),
        ("gpu_hours", 0.0, 0.0, Change("B", 0.0, 0.0, "equal")),
        ("mean_itl_ms", None, 2.0, Change("B", None, None, None)),
        ("power_w", None, None, Change("B", None, None, None)),
        ("kv_eviction_policy", "lru", "lru", Change("B", None, None, "equal")),
        ("kv_eviction_policy", "lru", "fifo", Change("B", None, None, "different")),
    ],
)
def test_change_and_its_verdict(key: str, first: Any, other: Any, change: Change) -> None:
    metric = compared(key, first, other)
    assert metric.values == [first, other]
    assert metric.changes == [change]


def test_every_run_is_compared_with_the_first() -> None:
    metric = compared("p99_ttft_ms", 10.0, 5.0, 20.0)
    assert [(change.run, change.percent, change.verdict) for change in metric.changes] == [
        ("B", -50.0, "better"),
        ("C", 100.0, "worse"),
    ]


def test_goodput_of_another_sla_is_not_judged() -> None:
    metric = compared("goodput_request_throughput_rps", 1.0, 2.0, 2.0, other_sla=("B",))
    assert [change.verdict for change in metric.changes] == [None, "better"]
    assert compared("p99_ttft_ms", 1.0, 2.0, other_sla=("B",)).changes[0].verdict == "worse"


def test_a_figure_that_only_some_runs_have() -> None:
    metrics = compare_metrics([{"x": 1}, {"x": 1, "routing.agg.kv_hit_rate": 0.5, "y": 2}], ["A", "B"], ())
    assert [(metric.key, metric.values) for metric in metrics] == [
        ("x", [1, 1]),
        ("y", [None, 2]),
        ("routing.agg.kv_hit_rate", [None, 0.5]),
    ]
    assert [metric.changes[0].verdict for metric in metrics] == ["equal", None, None]


def test_figures_of_routers_have_dotted_keys() -> None:
    routing = PoolRouting(3, 1, 2.0, 2.0, 2.0, 64, 0.25, 0, 0, 0, [])
    figures = flat_figures(Results(name="run", report={"num_requests": 3}, routing={"agg": routing}))
    assert figures["num_requests"] == 3
    assert figures["routing.agg.kv_hit_rate"] == 0.25
    assert "routing.agg.ranks" not in figures
    assert better("routing.agg.kv_hit_rate") == "higher"
    assert better("routing.prefill.mean_queue_wait_ms") == "lower"
    assert better("routing.agg.placements") is None


def test_chosen_metrics_are_checked() -> None:
    reports = [{"mean_ttft_ms": 1.0, "num_requests": 1}]
    assert "mean_ttft_ms" in chosen_metrics((), reports, everything=False)
    assert chosen_metrics((), reports, everything=True) == {"mean_ttft_ms", "num_requests"}
    assert chosen_metrics(["num_requests"], reports, everything=False) == {"num_requests"}
    with pytest.raises(InputError, match=r"--metric mean_tft_ms: no report has such a metric; did you mean mean_ttft"):
        chosen_metrics(["mean_tft_ms"], reports, everything=False)
