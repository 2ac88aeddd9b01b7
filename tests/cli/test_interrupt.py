"""Ctrl-C in the middle of a run: a real signal to a real process."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from actors import cli

SPEC = {
    "topology": {"kind": "aggregated", "workers": {"initial_workers": 4}},
    "workload": {
        "kind": "synthetic",
        "input_tokens": 500,
        "output_tokens": 400,
        "request_count": 20_000,
        "request_rate": 30.0,
    },
}


@pytest.mark.parametrize("attempt", range(3))
@pytest.mark.parametrize("runtime", ["cooperative", "threads"])
def test_an_interrupt_ends_the_run_and_leaves_nothing_behind(runtime: str, attempt: int, tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text(json.dumps(SPEC))
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "actors.cli", "replay", "spec.json", "--step", "--runtime", runtime),
            *("--output-dir", "out", "--trace", "messages.jsonl"),
        ],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        _wait_for_messages(process, tmp_path)
        time.sleep(0.05 * attempt)
        process.send_signal(signal.SIGINT)
        printed = process.communicate(timeout=30)
    finally:
        process.kill()
    assert printed == ("", "error: interrupted\n")
    assert process.returncode == 130
    assert [path.name for path in tmp_path.iterdir()] == ["spec.json"]


def test_an_interrupt_while_modules_are_imported_is_one_line() -> None:
    """As the console script does it, with a finder of modules that interrupts where the first foreign one is wanted."""
    script = """
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "typer":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupt())
from actors.cli import main
sys.exit(main(["schema"]))
"""
    ended = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(cli.__file__).parents[1])},
        check=False,
        timeout=60,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "error: interrupted\n")


def _wait_for_messages(process: subprocess.Popen[str], folder: Path) -> None:
    """Return once the run has begun to write its message log, under whatever temporary name."""
    deadline = time.monotonic() + 30.0
    while time.monotonic() < deadline and process.poll() is None:
        if any(path.name != "spec.json" and path.is_file() and path.stat().st_size for path in folder.iterdir()):
            return
        time.sleep(0.01)
    raise AssertionError(f"the run wrote no message: {process.communicate()}")
