"""Points on a local Ray instance; skipped where Ray is not installed, unless AISIM_REQUIRE_RAY=1 makes that fail."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from actors.cli import main
from tests.sweep.documents import BLOCKS, ONE_REQUEST, SLOW, lines, start_command, trace_spec, write_sweep, write_trace

PATIENCE_S = 180.0


def test_without_ray_the_error_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    path = write_sweep(tmp_path, {"base": ONE_REQUEST, "axes": {BLOCKS: [100]}})
    assert main(["sweep", str(path), "--executor", "ray"]) == 2
    assert capsys.readouterr().err == "error: --executor ray needs the package ray: pip install 'aisim-actors[ray]'\n"
    assert [path.name for path in tmp_path.iterdir()] == ["sweep.json"]


@pytest.fixture
def _ray() -> None:
    if importlib.util.find_spec("ray") is None:
        (pytest.fail if os.environ.get("AISIM_REQUIRE_RAY") == "1" else pytest.skip)("ray is not installed")


@pytest.mark.usefixtures("_ray")
def test_results_are_those_of_local_processes(tmp_path: Path) -> None:
    write_trace(tmp_path)
    write_sweep(tmp_path, {"base": trace_spec(), "axes": {BLOCKS: [12, 50, 100]}})
    files = []
    for executor in ("local", "ray"):
        options = ("--executor", executor, "--workers", "2", "--output-dir", executor, "--quiet")
        process = start_command("sweep", "sweep.json", *options, cwd=tmp_path)
        assert process.communicate(timeout=PATIENCE_S) == ("", "")
        assert process.returncode == 0
        files.append((tmp_path / executor / "results.jsonl").read_bytes())
    assert files[0] == files[1]
    assert [line["status"] for line in lines(tmp_path / "ray" / "results.jsonl")] == ["ok"] * 3


@pytest.mark.usefixtures("_ray")
def test_an_interrupt_keeps_what_is_finished(tmp_path: Path) -> None:
    write_sweep(tmp_path, SLOW)
    process = start_command("sweep", "sweep.json", "--executor", "ray", "--workers", "2", cwd=tmp_path)
    try:
        journal = tmp_path / "sweep-results" / "journal.jsonl"
        deadline = time.monotonic() + PATIENCE_S
        while not (journal.exists() and journal.stat().st_size):
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        printed, errors = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
    assert (process.returncode, printed) == (130, "")
    assert errors.endswith("the same command goes on from there\nerror: interrupted\n")
