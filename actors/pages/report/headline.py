"""The figures at the top of the page and the table of latencies."""

from __future__ import annotations

from actors.pages.scales import duration_text, number, percent, significant
from actors.pages.sections import Figure, Section, figure_cards, note
from actors.pages.tables import Table, data_table
from actors.reporting.results import Results

DISTRIBUTIONS = {
    "Time to first token, TTFT (ms)": "ttft_ms",
    "First to second token, TTST (ms)": "ttst_ms",
    "Inter-token latency, ITL (ms)": "itl_ms",
    "Time per output token, TPOT (ms)": "tpot_ms",
    "End-to-end latency, E2E (ms)": "e2e_latency_ms",
    "Output tokens per second and user": "output_token_throughput_per_user",
}
_STATISTICS = ("mean", "min", "median", "p75", "p90", "p95", "p99", "max", "std")


def headline_section(results: Results) -> Section:
    """Return the headline figures of a run and its table of metrics and statistics."""
    report = results.report
    columns = ["Metric", *_STATISTICS]
    rows = [
        [title, *(number(report.get(f"{statistic}_{suffix}")) for statistic in _STATISTICS)]
        for title, suffix in DISTRIBUTIONS.items()
    ]
    return Section(
        "figures",
        "Figures",
        [
            figure_cards(_figures(results)),
            data_table(Table("Latencies of completed requests", columns, rows)),
            note(
                "A percentile is an element of the sorted sample. ITL goes over all gaps between tokens, "
                "TPOT over the mean gaps of requests."
            ),
        ],
    )


def _figures(results: Results) -> list[Figure]:
    total, completed = results.figure("num_requests") or 0, results.figure("completed_requests") or 0
    figures = [Figure("Completed requests", number(completed), f"of {number(total)}")]
    if results.shortfalls:
        causes = ", ".join(f"{number(shortfall.count)} {shortfall.status}" for shortfall in results.shortfalls)
        figures.append(Figure("Not completed", number(total - completed), causes))
    figures += [
        Figure(
            "Duration",
            duration_text(results.figure("duration_ms") or 0.0),
            f"simulated in {duration_text(results.figure('wall_time_ms') or 0.0)}",
        ),
        Figure("Requests/s", significant(results.figure("request_throughput_rps"))),
        Figure(
            "Output tokens/s",
            significant(results.figure("output_throughput_tok_s")),
            f"{significant(results.figure('total_throughput_tok_s'))} with input",
        ),
        _latency(results, "TTFT", "ttft_ms"),
        _latency(results, "ITL", "itl_ms"),
        _latency(results, "TPOT", "tpot_ms"),
        _latency(results, "E2E", "e2e_latency_ms"),
    ]
    good = results.figure("goodput_completed_requests")
    if good is not None:
        rate = significant(results.figure("goodput_request_throughput_rps"))
        figures.append(Figure("Goodput, requests/s", rate, f"{number(good)} good requests"))
    seconds = (results.figure("prefill_worker_seconds") or 0.0) + (results.figure("decode_worker_seconds") or 0.0)
    figures.append(
        Figure("GPU-hours", significant(results.figure("gpu_hours")), f"{significant(seconds)} worker-seconds")
    )
    figures.append(
        Figure(
            "Prompt tokens from cache",
            percent(results.figure("prefix_cache_reused_ratio")),
            f"{percent(results.figure('first_admission_prefix_cache_reused_ratio'))} at first admission",
        )
    )
    if results.figure("avg_accept_length") is not None:
        length = significant(results.figure("avg_accept_length"))
        figures.append(Figure("Accepted tokens", length, "per request and decode pass"))
    return figures


def _latency(results: Results, name: str, suffix: str) -> Figure:
    mean, median, p99 = (
        significant(results.figure(f"{statistic}_{suffix}")) for statistic in ("mean", "median", "p99")
    )
    return Figure(f"{name}, mean (ms)", mean, f"median\u00a0{median}, p99\u00a0{p99}")
