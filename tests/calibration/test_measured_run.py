"""A real vLLM run: fitted on one half of its requests, the other half comes out within 5 %, and the other way round."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from actors.calibration.calibrate import calibrate
from actors.spec.loading import load_spec
from tests.calibration.builders import largest_error


@pytest.fixture(scope="session")
def run_folder(shared: Path) -> Path:
    """The folder of the measured run."""
    folder = shared / "data" / "measured" / "rtx-pro-6000-llama-3.1-8b-tp1"
    if not folder.is_dir():
        if os.environ.get("AISIM_REQUIRE_PARITY") == "1":
            pytest.fail(f"AISIM_REQUIRE_PARITY=1, but {folder} is missing")
        pytest.skip(f"{folder} is missing")
    return folder


@pytest.mark.usefixtures("aiconfigurator")
@pytest.mark.parametrize("fit", ["even", "odd"])
def test_held_out_requests_come_out_as_measured(run_folder: Path, fit: str) -> None:
    timing = {"type": "aiconfigurator", "model": "meta-llama/Llama-3.1-8B", "system": "rtx_pro_6000_server"}
    rank = {"block_size": 16, "max_num_seqs": 128, "max_num_batched_tokens": 2048, "timing_model": timing}
    loaded = load_spec(
        {
            "topology": {"kind": "aggregated", "workers": {"initial_workers": 1}},
            "engine": {"rank": rank},
            "workload": {"kind": "trace", "path": str(run_folder / "trace.jsonl"), "block_size": 16},
        }
    )
    report = calibrate(loaded, run_folder / "measured.jsonl", fit_rows=fit)
    assert (report.rows, report.joined_by, report.arrivals) == (300, "row", "measured")
    assert report.before.held_out is not None
    assert report.after.held_out is not None
    assert report.after.held_out.rows == 150
    assert largest_error(report.before.held_out) > 20.0
    assert largest_error(report.after.held_out) < 5.0
    assert abs(report.after.makespan_ms.error_percent or 0.0) < 5.0
