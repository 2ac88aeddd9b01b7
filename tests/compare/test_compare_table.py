"""The table of a comparison, in terminals of several widths."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

from actors.comparison.metrics import compare_metrics
from actors.comparison.table import print_comparison
from messages.comparison import ComparedRun, Comparison, SpecDifference

_STYLE = re.compile(r"\x1b\[[0-9;]*m")
KEYS = {"mean_ttft_ms": 1000.0, "goodput_request_throughput_rps": 2.5, "completed_requests": 12_031}


def comparison(count: int, **parts: Any) -> Comparison:
    """Runs of which every one has 10 percent more of everything."""
    labels = "ABCDEFGH"[:count]
    reports = [
        {key: type(value)(value * (1.0 + index / 10.0)) for key, value in KEYS.items()} for index in range(count)
    ]
    fields: dict[str, Any] = {
        "runs": [ComparedRun(label, f"out/{label.lower()}", 3, 2, True, True) for label in labels],
        "warnings": [],
        "metrics": compare_metrics(reports, labels, ()),
        "spec_differences": [],
        "joins": [],
    }
    return Comparison(**{**fields, **parts})


def printed(shown: Comparison, columns: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setenv("COLUMNS", str(columns))
    file = io.StringIO()
    monkeypatch.setattr(file, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    print_comparison(shown, file, KEYS)
    return [line.rstrip() for line in _STYLE.sub("", file.getvalue()).splitlines()]


def test_side_by_side_where_there_is_room(monkeypatch: pytest.MonkeyPatch) -> None:
    assert printed(comparison(2), 120, monkeypatch)[3:9] == [
        "┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━━┳━━━━━━━━━┳━━━━━━━━━━━━━━━━━┓",
        "┃ Metric                         ┃ Better ┃        A ┃        B ┃   B - A ┃          % of A ┃",
        "┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━━╇━━━━━━━━━╇━━━━━━━━━━━━━━━━━┩",
        "│ mean_ttft_ms                   │ lower  │ 1,000.00 │ 1,100.00 │ +100.00 │  +10.00 % worse │",
        "│ goodput_request_throughput_rps │ higher │   2.5000 │   2.7500 │ +0.2500 │ +10.00 % better │",
        "│ completed_requests             │ higher │   12,031 │   13,234 │  +1,203 │ +10.00 % better │",
    ]


def test_below_each_other_where_there_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = printed(comparison(3), 80, monkeypatch)
    assert lines[4:17] == [
        "┏━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━┳━━━┳━━━━━━━━━━┳━━━━━━━━━┳━━━━━━━━━━━━━━━━┓",
        "┃Metric                         ┃   ┃    Value ┃  From A ┃          % of A┃",
        "┡━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━━╇━━━╇━━━━━━━━━━╇━━━━━━━━━╇━━━━━━━━━━━━━━━━┩",
        "│mean_ttft_ms                   │ A │ 1,000.00 │         │                │",
        "│  lower is better              │ B │ 1,100.00 │ +100.00 │  +10.00 % worse│",
        "│                               │ C │ 1,200.00 │ +200.00 │  +20.00 % worse│",
        "├───────────────────────────────┼───┼──────────┼─────────┼────────────────┤",
        "│goodput_request_throughput_rps │ A │   2.5000 │         │                │",
        "│  higher is better             │ B │   2.7500 │ +0.2500 │ +10.00 % better│",
        "│                               │ C │   3.0000 │ +0.5000 │ +20.00 % better│",
        "├───────────────────────────────┼───┼──────────┼─────────┼────────────────┤",
        "│completed_requests             │ A │   12,031 │         │                │",
        "│  higher is better             │ B │   13,234 │  +1,203 │ +10.00 % better│",
    ]


@pytest.mark.parametrize("count", [2, 8])
@pytest.mark.parametrize("columns", [20, 80, 400])
def test_no_digit_is_ever_lost(count: int, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = comparison(count)
    text = "\n".join(printed(shown, columns, monkeypatch))
    assert "…" not in text
    for metric in shown.metrics:
        assert metric.key in text
    for number in range(1, count):
        assert f"+{1000 * number / 10:,.2f}" in text
        assert f"+{10.0 * number:.2f} %" in text


def test_fields_that_differ_by_value(monkeypatch: pytest.MonkeyPatch) -> None:
    differences = [
        SpecDifference("engine.rank.num_gpu_blocks", [4, 8, 4, None], ["D"]),
        SpecDifference("adapters.placement.config", [None, {"weights": [1.5] * 40}, None, None], ["D"]),
        SpecDifference("workload.path", ["a", "a", "b", None], ["A", "D"]),
    ]
    runs = comparison(4).runs
    runs[3] = ComparedRun("D", "d.json", 3, 3, has_spec=False, has_records=False)
    lines = printed(comparison(4, runs=runs, spec_differences=differences), 200, monkeypatch)
    assert lines[-4:] == [
        "Spec fields that differ:",
        "  engine.rank.num_gpu_blocks: A, C 4; B 8",
        f'  adapters.placement.config: A, C null; B {{"weights": [{"1.5, " * 12}1.5,...',
        '  workload.path: A (none); B "a"; C "b"',
    ]
