"""The figures of reports side by side."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Iterable, Mapping, Sequence

from actors.reporting.results import Results
from actors.reporting.statistics import STATISTICS
from messages.comparison import Change, Direction, Metric, Verdict
from messages.errors import InputError
from messages.report import Number

Value = Number | str | None

_LATENCIES = ("ttft_ms", "ttst_ms", "tpot_ms", "itl_ms", "e2e_latency_ms")
_RATES = "output_token_throughput_per_user"
_BETTER: dict[str, Direction] = {
    **{f"{statistic}_{suffix}": "lower" for suffix in _LATENCIES for statistic in STATISTICS},
    **{f"{statistic}_{_RATES}": "higher" for statistic in STATISTICS if statistic != "std"},
    "completed_requests": "higher",
    "duration_ms": "lower",
    "request_throughput_rps": "higher",
    "input_throughput_tok_s": "higher",
    "output_throughput_tok_s": "higher",
    "total_throughput_tok_s": "higher",
    "prefill_worker_seconds": "lower",
    "decode_worker_seconds": "lower",
    "gpu_hours": "lower",
    "goodput_completed_requests": "higher",
    "goodput_request_throughput_rps": "higher",
    "goodput_output_throughput_tok_s": "higher",
    "avg_accept_length": "higher",
    "prefix_cache_reused_ratio": "higher",
    "first_admission_prefix_cache_reused_ratio": "higher",
}
_BETTER_OF_ROUTER: dict[str, Direction] = {
    "queued_placements": "lower",
    "mean_queue_wait_ms": "lower",
    "p99_queue_wait_ms": "lower",
    "max_queue_wait_ms": "lower",
    "kv_hit_rate": "higher",
    "regret_blocks": "lower",
    "max_regret_blocks": "lower",
    "regretted_placements": "lower",
}
_HEADLINES = frozenset(
    (
        "completed_requests",
        "request_throughput_rps",
        "output_throughput_tok_s",
        "goodput_request_throughput_rps",
        "gpu_hours",
        "prefix_cache_reused_ratio",
        *(f"{statistic}_{suffix}" for suffix in _LATENCIES if suffix != "ttst_ms" for statistic in ("mean", "p99")),
    )
)
_GOODPUT = "goodput_"
_ROUTING = "routing"
_SAME = 1e-9  # of the larger value: what sums in another order may differ by


def flat_figures(results: Results) -> dict[str, Value]:
    """Return the figures of a report by key, those of routers and planner, without their lists, with dotted keys."""
    figures: dict[str, Value] = dict(results.report)
    for pool, routing in (results.routing or {}).items():
        for name in routing.__struct_fields__:
            value = getattr(routing, name)
            if not isinstance(value, list):
                figures[f"{_ROUTING}.{pool}.{name}"] = value
    if results.planner is not None:
        figures["planner.total_ticks"] = results.planner.total_ticks
        figures["planner.decisions"] = len(results.planner.decisions)
    return figures


def compare_metrics(
    reports: Sequence[Mapping[str, Value]], labels: Sequence[str], other_sla: Collection[str]
) -> list[Metric]:
    """Compare the figures of runs with those of the first. other_sla: labels of runs whose goodput has other bounds."""
    # Objects, of which only some reports may have one, come after the flat part.
    keys = sorted(dict.fromkeys(key for report in reports for key in report), key=lambda key: "." in key)
    return [
        Metric(
            key=key,
            better=better(key),
            headline=key in _HEADLINES,
            values=[report.get(key) for report in reports],
            changes=[
                _change(label, key, reports[0].get(key), report.get(key), judged=label not in _unlike(key, other_sla))
                for label, report in zip(labels[1:], reports[1:], strict=True)
            ],
        )
        for key in keys
    ]


def chosen_metrics(
    wanted: Sequence[str], reports: Sequence[Mapping[str, Value]], *, everything: bool
) -> frozenset[str]:
    """Return the keys to show: all, the wanted ones, or the chief ones.

    Raises InputError with a finding for each wanted key that no report has.
    """
    known = dict.fromkeys(key for report in reports for key in report)
    findings = [f"--metric {key}: {unknown_metric(key, known)}" for key in wanted if key not in known]
    if findings:
        raise InputError(*findings)
    return frozenset(known if everything else wanted or _HEADLINES)


def unknown_metric(key: str, known: Iterable[str]) -> str:
    """Say that no report has a metric of this name, and which is like it."""
    close = difflib.get_close_matches(key, list(known), n=1)
    hint = f"did you mean {close[0]}?" if close else "give a key of report.json"
    return f"no report has such a metric; {hint}"


def better(key: str) -> Direction | None:
    """Which way a figure is better; None where neither is, such as for counts and for times of the host."""
    if key.startswith(f"{_ROUTING}."):
        return _BETTER_OF_ROUTER.get(key.rpartition(".")[2])
    return _BETTER.get(key)


def same(first: Number, other: Number) -> bool:
    """Whether two figures differ by no more than rounding."""
    return abs(other - first) <= _SAME * max(abs(first), abs(other))


def difference(first: Number, other: Number) -> Number:
    """The change from the first value to the other, without what is rounding alone."""
    return type(first)(0) if same(first, other) else other - first


def percent(first: Number, other: Number) -> float | None:
    """The change in percent of the first value; None where that is 0 and the other is not."""
    if same(first, other):
        return 0.0
    return (other - first) / abs(first) * 100.0 if first else None


def _unlike(key: str, other_sla: Collection[str]) -> Collection[str]:
    """Labels of runs that measure something else under this key than the first."""
    return other_sla if key.startswith(_GOODPUT) else ()


def _change(run: str, key: str, first: Value, other: Value, *, judged: bool) -> Change:
    if not isinstance(first, int | float) or not isinstance(other, int | float):
        given = first is not None and other is not None
        return Change(run, None, None, ("equal" if first == other else "different") if given else None)
    verdict = _verdict(first, other, better(key)) if judged else None
    return Change(run, difference(first, other), percent(first, other), verdict)


def _verdict(first: Number, other: Number, way: Direction | None) -> Verdict:
    if same(first, other):
        return "equal"
    if way is None:
        return "different"
    return "better" if (other < first) == (way == "lower") else "worse"
