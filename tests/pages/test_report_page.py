"""The page about a run: what it tells of small runs, odd ones included."""

from __future__ import annotations

import re

import msgspec
import pytest

from actors.pages.report.page import report_page
from tests.pages.reading import PageReader
from tests.pages.runs import SPECS, results

PLACEHOLDERS = re.compile(r"\b(?:nan|inf|None)\b")


def page_of(name: str) -> str:
    return report_page(results(SPECS[name]))


@pytest.mark.parametrize("name", SPECS)
def test_every_kind_of_run_has_a_sound_page(name: str) -> None:
    page = page_of(name)
    read = PageReader(page).check()
    assert read.headings[0] == (1, "Replay report")
    assert {"Figures", "Distributions of latencies", "Over time", "Slowest requests", "Spec"} <= {
        text for _, text in read.headings
    }
    assert not PLACEHOLDERS.search(re.sub(r"<details>\s*<summary>resolved_spec.json.*", "", page, flags=re.DOTALL))
    assert "http" not in page.replace("http-equiv", "")
    assert len(page) < 400_000


def test_the_same_run_gives_the_same_bytes() -> None:
    run = results(SPECS["telemetry"])
    again = results(SPECS["telemetry"])
    host_times = {key: again.report[key] for key in run.report if key.startswith(("wall_time", "processed_"))}
    assert report_page(msgspec.structs.replace(run, report=run.report | host_times)) == report_page(again)
